//! Sending out private data: environment, keys, files, history, the prompt itself.

use super::super::signal::SignalFamily::Exfiltration;
use super::super::signal::{Signal, sign, sign_around};

pub(super) const SIGNALS: &[Signal] = &[
    sign(
        Exfiltration,
        5,
        "send|upload|post|email|exfiltrate|leak|forward|transmit|submit|publish",
        r"(?:send|upload|post|e?mail|exfiltrate|leak|forward|transmit|submit|publish) <6>(?:environment variables?|env vars?|credentials?|api keys?|secrets?|ssh keys?|private keys?|passwords?|access tokens?|auth tokens?|\.env\b|id_rsa|\.ssh|\.aws|cookies|chat history|conversation history|system prompt|contents? of (?:the |your )?(?:file|\.env|~/)) <10>(?:to|via|at|using|in a request)\b.{0,60}?(?:https?://|@[\w-]+\.|webhook|attacker|external|the following|my (?:server|email|endpoint)|url|address|server)",
    ),
    sign(
        Exfiltration,
        5,
        "curl|wget|fetch(|requests.post|requests.get|nc |invoke-webrequest|urllib",
        r"(?:curl|wget|fetch\(|requests\.(?:post|get)|nc|invoke-webrequest|urllib)[^\n]{0,200}?(?:\$\((?:env|printenv|cat [^)\n]*(?:\.ssh|\.env|\.aws|id_rsa|credentials|passwd|shadow|token)[^)\n]*|base64[^)\n]*)\)|`(?:env|printenv|cat [^`\n]*(?:\.ssh|\.env|\.aws|id_rsa|credentials|passwd))|@~?/?[\w/.]*(?:\.ssh/|\.env\b|\.aws/|id_rsa|credentials|\.netrc|/etc/passwd)|os\.environ\b[^\n\[]{0,4}\)|dict\(os\.environ|json\.dumps\(dict\(os)",
    ),
    sign(
        Exfiltration,
        5,
        "env |env|printenv|cat ~/.ssh|cat ~/.aws|cat .env|cat /etc/passwd|cat /proc/self/environ",
        r"(?:env|printenv|cat (?:~/\.ssh|~/\.aws|\.env|/etc/(?:passwd|shadow)|/proc/self/environ)\S*) ?\|[^\n]{0,80}?(?:base64|curl|nc |xxd|wget|openssl)[^\n]{0,80}",
    ),
    sign(
        Exfiltration,
        4,
        "reveal your|print your|repeat your|show me your|output your|tell me your|what is your system|what are your instructions|display your|leak your|repeat the text above|repeat everything above|print the above|repeat the words above|reveal the system",
        r"(?:(?:reveal|print|repeat|show(?: me)?|output|tell me|display|leak|give me) (?:your|the) (?:\w+ ){0,3}?(?:system prompt|initial (?:prompt|instructions)|hidden (?:prompt|instructions)|instructions verbatim|system message|full prompt|system instructions|configuration verbatim)|what (?:is your system prompt|are your (?:initial |system )?instructions)|(?:repeat|print) (?:everything|the (?:text|words)) above)",
    ),
    sign(
        Exfiltration,
        4,
        "![",
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{3,200}[?&/=](?:\{|\$\{|\{\{|%7b|<|\[)?(?:data|secret|token|key|env|history|conversation|prompt|payload|q|content|leak|exfil|info)s?(?:=|\}|>|\]|%7d)(?:\{|<|\[|\$|%7b|insert|your)",
    ),
    sign(
        Exfiltration,
        4,
        "encode|base64|append|embed|include",
        r"(?:encode|base64\W?encode|append|embed|include) <5>(?:secrets?|credentials?|api keys?|tokens?|environment variables?|conversation|chat history|file contents?|system prompt|password) <8>(?:in|into|to|as) <4>(?:url|query|image|link|request|parameter|path|header|dns|comment|commit message|branch name|pull request|pr description)",
    ),
    sign(
        Exfiltration,
        3,
        "read|open|find|locate|search for|collect|gather|harvest|look for|extract|dump|steal",
        r"(?:read|open|find|locate|search for|collect|gather|harvest|look for|extract|dump|steal|cat) <5>(?:~/\.ssh\S*|~/\.aws\S*|id_rsa|\.env file|/etc/(?:passwd|shadow)|/proc/self/environ|environment variables|ssh keys?|aws credentials|api keys|private keys?|browser cookies|saved passwords|wallet|seed phrase|\.netrc|keychain|credentials\.json) <12>(?:and|then|to|,)\W{1,4}<3>(?:(?:send|upload|post|paste|forward|share|base64|encode|exfiltrate|e?mail)\b|(?:include|add|print|write|put|report|return|output) (?:them|it|their|its|everything|all|the <1>(?:contents?|values?|keys?|output|results?))\b)",
    ),
    sign(
        Exfiltration,
        5,
        "exfiltrate|exfiltration",
        r"exfiltrat(?:e|ion) <5>(?:the |all |any |user |your )?(?:data|secrets?|credentials?|keys?|tokens?|files?|env\w*|conversation|source code|repository) <5>(?:to|via|using|through)\b",
    ),
    sign(
        Exfiltration,
        4,
        "webhook.site|requestbin|pipedream.net|ngrok.io|ngrok-free|burpcollaborator|oastify.com|interact.sh|oast.fun|oast.pro|requestcatcher|beeceptor|pastebin.com/api|transfer.sh|file.io|0x0.st",
        r"(?:webhook\.site|requestbin|pipedream\.net|ngrok(?:\.io|-free)|burpcollaborator|oastify\.com|interact\.sh|oast\.(?:fun|pro)|requestcatcher|beeceptor|pastebin\.com/api|transfer\.sh|file\.io|0x0\.st)",
    ),
    // The place of the file, so that it counts beside the order to send it.
    sign(
        Exfiltration,
        4,
        "~/.aws|~/.ssh|.aws/credentials|id_rsa|/etc/shadow|/proc/self/environ|.netrc|.env|environment variables|api keys|credentials|access tokens|private key|secrets",
        r"(?:~/\.aws|~/\.ssh|\.aws/credentials|id_rsa|/etc/shadow|/proc/self/environ|\.netrc|\.env\b|environment variables|api keys|credentials|access tokens|private keys?|secrets)\S{0,40} <8>(?:to|via) <4>(?:https?://|webhook|dns|[\w.+-]{2,40}@[\w-]+\.)",
    ),
    sign(
        Exfiltration,
        5,
        "send|upload|post|email|mail|forward|transmit|deliver",
        r"(?:send|upload|post|e?mail|forward|transmit|deliver) (?:its|their|it|them|everything|the <2>(?:contents?|values?|outputs?|results?|files?)) <6>(?:to|at|via) <3>(?:https?://|[\w.+-]{2,40}@[\w-]+\.[a-z])",
    ),
    sign_around(
        Exfiltration,
        4,
        "subdomain|sub-domain|dns query|dns lookup|dns request",
        r"(?:encode|put|append|prepend|place|embed|use) <8>(?:as|in|into|to) <3>(?:sub\W?domain|dns (?:query|lookup|request))",
    ),
    // The agent's own instructions, asked for in other words.
    sign_around(
        Exfiltration,
        5,
        "your system prompt|your system message|your initial prompt|your initial instructions|your hidden instructions|your original instructions|your configuration message|your developer message",
        r"(?:translate|summari[sz]e|encode|recite|spell|paraphrase|quote|dump) <6>your (?:system (?:prompt|message)|(?:initial|original|hidden) (?:prompt|instructions)|(?:configuration|developer) message)\b",
    ),
    sign_around(
        Exfiltration,
        6,
        "beginning of this conversation|beginning of the conversation|start of this conversation|start of the conversation|top of this conversation|before this conversation|beginning of our conversation",
        r"(?:write|print|repeat|output|show|copy|quote|reveal|recite|spell) <6>(?:texts?|words|messages?|instructions?|rules|everything) <3>(?:at|from|since|before) (?:the (?:beginning|start|top) of )?(?:this|the|our) conversation",
    ),
    sign_around(
        Exfiltration,
        5,
        "you were given|you have been given|word for word|verbatim",
        r"(?:list|print|output|write|show|repeat|give|state|summari[sz]e) <6>(?:your|you (?:were|have been) given) <10>(?:word for word|verbatim|in a code block)",
    ),
    // Letters, and look-ups of names that carry a secret.
    sign_around(
        Exfiltration,
        5,
        "token to|tokens to|token with|password to|passwords to|credentials to|api key to|api keys to|secrets to|private key to",
        r"(?:send|forward|e?mail|share|post) (?:the|all|your|any|our|its|every|each|this|that) (?:\w+ ){0,2}?(?:tokens?|passwords?|credentials?|api keys?|secrets?|private keys?) (?:to|with) [\w.+-]{2,40}@[\w-]+\.\w",
    ),
    sign_around(
        Exfiltration,
        5,
        "be sent|be forwarded|be delivered|be emailed|be mailed|be shared",
        r"(?:tokens?|passwords?|credentials?|api keys?|secrets?|private keys?|environment variables) (?:(?:must|should|shall|has to|have to|needs? to|is to|are to) )?be (?:sent|forwarded|delivered|e?mailed|shared) <3>(?:to|with) [\w.+-]{2,40}@[\w-]+\.\w",
    ),
    sign(
        Exfiltration,
        6,
        "look up|resolve|query|ping",
        r"(?:look up|resolve|query|ping) <4>(?:host ?names?|domains?|subdomains?|names?) <3>(?:made|built|composed|formed|consisting) <4>(?:api keys?|secrets?|tokens?|passwords?|credentials?|private keys?|environment)\b",
    ),
    sign(
        Exfiltration,
        6,
        "$(cat|$(env|$(printenv",
        r"\$\((?:cat|env|printenv)[^)\n]{0,80}(?:\.ssh|\.env|\.aws|id_rsa|credentials|token|secret|passw)[^)\n]{0,80}\)\.[\w-]+\.\w",
    ),
];
