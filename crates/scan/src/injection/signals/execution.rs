//! Running code from elsewhere, and destroying things. Installation guides pipe downloads into shells too, so that alone
//! weighs little; an order to the agent to do it weighs more.

use super::super::signal::SignalFamily::RemoteExecution;
use super::super::signal::{Signal, sign};

pub(super) const SIGNALS: &[Signal] = &[
    sign(RemoteExecution, 2, "curl|wget", r"(?:curl|wget) [^\n|]{4,200}\| ?(?:sudo )?(?:ba|z|da)?sh\b"),
    sign(
        RemoteExecution,
        4,
        "curl|wget|requests.get|urllib|wget.download",
        r"(?:curl|wget|requests\.get|urllib\S*|wget\.download)[^\n]{0,200}(?:&&|;|\n)[^\n]{0,40}(?:chmod \+x|bash |sh |python3? |exec\(|nohup )[^\n]{0,80}",
    ),
    sign(
        RemoteExecution,
        5,
        "exec(open(|exec(requests|exec(urllib|eval(requests|eval(urllib|exec(base64|eval(atob|eval(base64|exec(response|eval(fetch|iex(",
        r"(?:exec|eval|iex)\((?:open\(|requests|urllib|base64|atob|response|fetch|\(?new-object|await fetch)",
    ),
    sign(
        RemoteExecution,
        4,
        "urlretrieve|urlopen(|wget.download|requests.get(|http.request(|\"curl\"|\"wget\"|[\"wget|['curl",
        r"(?:urlretrieve|urlopen\(|wget\.download|requests\.get\(|http\.request\(|.?[\x22']curl[\x22']|.?[\x22']wget[\x22']).{0,300}?(?:exec\(|os\.system\(|subprocess\.(?:call|run|popen)\(|chmod|nohup)",
    ),
    sign(
        RemoteExecution,
        4,
        "download|fetch|retrieve|clone and|clone then|clone\nand|clone\nthen",
        r"(?:download|fetch|retrieve|clone) (?:and|then) (?:run|execute|install|source|eval) <6>(?:script|binary|file|code|payload|it|from|https?)\b",
    ),
    sign(
        RemoteExecution,
        4,
        "run the following|execute the following|run this command|execute this command|run this script|execute this code|paste this into|run the command below|execute the command|please run|you must run|immediately run|first run|now run",
        r"(?:(?:please|you must|immediately|first|now)\W{1,3})?(?:run|execute|paste) (?:the following|this|the)(?: \w+){0,3}.{0,80}?(?:curl|wget|base64 -d|base64 --decode|/dev/tcp|nc -|bash -c|bash -i|eval|powershell|python3? -c|rm -rf|mkfs|dd if=)",
    ),
    sign(
        RemoteExecution,
        5,
        "/dev/tcp/|bash -i|nc -e|ncat -e|mkfifo /tmp|socket.socket(socket.af_inet|pty.spawn",
        r"(?:/dev/tcp/[\w.$\{]+/|bash -i >|n(?:c|cat) -e|mkfifo /tmp/\w+.{0,40}\bnc\b|socket\.socket\(socket\.af_inet.{0,160}(?:dup2|subprocess|/bin/sh)|pty\.spawn\()",
    ),
    sign(
        RemoteExecution,
        4,
        "base64 -d|base64 --decode|base64 -D|frombase64string|b64decode",
        r"(?:base64 (?:-d|--decode)|frombase64string|b64decode)[^\n]{0,80}(?:\| ?(?:sudo )?(?:ba|z)?sh\b|\| ?python|exec|eval|iex)",
    ),
    sign(
        RemoteExecution,
        3,
        "rm -rf|mkfs|dd if=|os.remove(|shutil.rmtree(|drop table|drop database|format c:|del /s",
        r"(?:rm -rf (?:--no-preserve-root )?(?:/|~|\$home|/\*|\.git)(?:\s|$|[\x22'`])|mkfs\.\w+ /dev|dd if=/dev/\w+ of=/dev/|os\.remove\([\x22']/(?:lib|etc|boot|usr|bin)|shutil\.rmtree\([\x22']/|drop (?:table|database) \w+;|format c:|del /s /q)",
    ),
    sign(
        RemoteExecution,
        4,
        "systemctl stop|/etc/init.d|crontab|authorized_keys",
        r"(?:systemctl stop (?:critical|firewalld|sshd|auditd|network)|>> ?/etc/(?:rc\.local|init\.d|cron|sudoers|ld\.so)|/etc/init\.d/rc\.local|crontab -l[^\n]{0,80}(?:curl|wget|nc )|authorized_keys.{0,40}(?:append|add|echo|>>)|(?:append|add|echo)[^\n]{0,60}authorized_keys)",
    ),
    sign(
        RemoteExecution,
        4,
        "xmrig|cryptomin|crypto miner|cryptocurrency min|coinhive|stratum+tcp|minerd|mining_program|miner_url",
        r"(?:xmrig|crypto ?min(?:er|e|ing)\w*\W|cryptocurrency min(?:er|ing)|coinhive|stratum\+tcp|minerd|miner_url|mining_program).{0,160}?(?:download|run|install|start|http|exec|system|subprocess|python|pool|nohup|wallet)",
    ),
];
