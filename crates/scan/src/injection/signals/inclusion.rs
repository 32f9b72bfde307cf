//! Putting given code into the agent's answer. Tutorials say "add this to your project"; an order about the answer
//! itself, followed by code that sends, fetches, runs or deletes, is something else.

use super::super::signal::SignalFamily::CodeInclusion;
use super::super::signal::{Signal, sign};

pub(super) const SIGNALS: &[Signal] = &[
    sign(
        CodeInclusion,
        3,
        "the following code|the subsequent code|the below code|the code below|the ensuing code|the given code|the succeeding code|the code snippet",
        r"the (?:following|subsequent|below|ensuing|given|succeeding)? ?(?:code|script)(?: (?:below|snippet|block|excerpt|segment|fragment|section|piece|portion))+ <10>(?:your|the) <3>(?:solution|answer|response|reply|output|implementation|explanation|elucidation|algorithm|code|program|logic|framework|project|result|script|work)\b",
    ),
    sign(
        CodeInclusion,
        3,
        "your code|your solution|your answer|your response|your implementation|your algorithm|your elucidation|your reply|your explanation|your output|the code you|your script|your program|your project",
        r"(?:your (?:code|solution|answer|response|implementation|algorithm|elucidation|reply|explanation|output|script|program|project)|the code you) <8>(?:following|subsequent|below|ensuing|given|succeeding) (?:code )?(?:snippet|block|excerpt|segment|fragment|code)\b",
    ),
    sign(
        CodeInclusion,
        3,
        "requests.post(|requests.get(|smtplib|ftplib|http.client|socket.socket(|urllib.request|aiohttp|paramiko|urllib3",
        r"(?:requests\.(?:post|get)\(|smtplib|aiosmtplib|ftplib|http\.client|socket\.socket\(|urllib\.request|aiohttp|paramiko|urllib3|yagmail)",
    ),
    sign(
        CodeInclusion,
        3,
        "os.environ|psutil|subprocess.|os.system(|os.remove(|os.rename(|open(\"cookies|contacts.csv|/path/to/trash|usb.core|sounddevice|driverquery|browser_cookie|pynput|winreg|keyboard",
        r"(?:os\.environ|psutil|subprocess\.(?:call|popen|run|check_output)|os\.(?:system|remove|rename|unlink)\(|open\([\x22'](?:cookies|/etc/)|contacts\.csv|/path/to/trash|usb\.core|sounddevice|driverquery|browser_?cookie\w*|pynput|winreg|keyboard\.)",
    ),
];
