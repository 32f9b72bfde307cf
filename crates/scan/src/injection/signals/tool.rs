//! Using the agent's tools against its operator: approvals, merges, messages, deletions that nobody asked for.

use super::super::signal::SignalFamily::ToolMisuse;
use super::super::signal::{Signal, sign};

pub(super) const SIGNALS: &[Signal] = &[
    sign(
        ToolMisuse,
        4,
        "approve this|approve the|merge this|mark this|mark it as|rate this|label this|classify this",
        r"(?:(?:approve|merge) (?:this|the) (?:pr|pull request|merge request|change|patch|commit)\b <6>(?:without|immediately|regardless|automatically|and do not|no matter|even if|now)|(?:mark|label|rate|classify) (?:this|it|the \w+) (?:\w+ ){0,3}?as (?:safe|approved|clean|passed|low risk|benign|reviewed|not spam|10/10|trusted)\b)",
    ),
    sign(
        ToolMisuse,
        4,
        "use the|use your|call the|invoke the|using your|using the",
        r"(?:us(?:e|ing)|call|invoke) (?:the|your) (?:\w+ ){0,2}?(?:bash|shell|terminal|web ?fetch|browser|file|email|read|write|execut\w+|command) (?:tools?|function|capability|access) <3>(?:to|and) <4>(?:read|send|delete|exfiltrate|post|upload|download|execute|run|fetch|open|cat|list) <8>(?:\.env|\.ssh|secrets?|credentials?|tokens?|https?://|keys?|passwords?|/etc/|attacker|external|following command)",
    ),
    sign(
        ToolMisuse,
        4,
        "git push --force|git push -f|force push|force-push|delete the branch|delete all branches|delete the repository|delete all files|wipe the|delete the repo",
        r"(?:git push (?:--force|-f) <3>(?:origin )?(?:main|master)\b|force.push <3>(?:to )?(?:main|master)\b|(?:delete|wipe|erase|destroy) (?:the|all|every|this) <2>(?:repositor(?:y|ies)|branches|files|data|database|backups?|history|disk)\b)",
    ),
    sign(
        ToolMisuse,
        4,
        "add the following user|add me as|invite|create a new user|create an admin|add a collaborator|add collaborator|transfer ownership|change the password|reset the password|add my ssh|add this ssh|add this key",
        r"(?:add (?:me|the following user|a collaborator|collaborator|my ssh key|this (?:ssh )?key)|invite <2>(?:as|with)|create (?:a new user|an admin)|transfer ownership|(?:change|reset) the password) <8>(?:admin\w*|owner|collaborator|write access|maintainer|authorized|repository|organi[sz]ation|root|deploy key|account)",
    ),
    sign(
        ToolMisuse,
        4,
        "forward this|send an email",
        r"(?:forward (?:this|these) <3>(?:message|instructions?|email|prompt) to (?:all|every|other)|send (?:an? )?(?:e?mail|message) to (?:all|every|each) <4>(?:contacts?|users?|employees|members|address)|(?:include|copy|repeat) this <3>(?:prompt|instruction|message) in (?:every|all|each))",
    ),
];
