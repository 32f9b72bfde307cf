//! Claiming an authority that the text does not have: the system's, the vendor's, an administrator's.

use super::super::signal::SignalFamily::AuthorityClaim;
use super::super::signal::{Signal, sign, sign_around};

pub(super) const SIGNALS: &[Signal] = &[
    sign(
        AuthorityClaim,
        5,
        "im_start|start_header_id|[/inst]|<<sys>>|endoftext",
        r"(?:im_start\|>.{0,4}(?:system|assistant|user)|start_header_id\|>.{0,4}(?:system|assistant)|\[/inst\]|<<sys>>|endoftext\|>)",
    ),
    sign(
        AuthorityClaim,
        4,
        "[system]|[system |<system>|### system|system message:|system notice|system override|system update:|[system:|<system-reminder|system alert",
        r"(?:\[system[\]:\x20]|<system>|### system\b|system (?:message|notice|override|update|alert)\W|<system-reminder).{0,200}?(?:you|must|ignore|assistant|agent|instructions?|execute|run|now)\b",
    ),
    sign(
        AuthorityClaim,
        4,
        "as your administrator|as your developer|as your creator|as the administrator|i am your developer|i am your creator|i am the administrator|i am an openai|i am an anthropic|i'm your developer|your developers|your creators",
        r"(?:as (?:your|the) (?:administrator|developer|creator|owner|operator)|i(?:.m| am) (?:your|the|an?) (?:developer|creator|administrator|system administrator|openai|anthropic)|your (?:developers|creators) (?:have|want|require|authori[sz]ed|at))",
    ),
    sign(
        AuthorityClaim,
        4,
        "message from|notice from|instruction from|directive from|order from|request from",
        r"(?:message|notice|instructions?|directive|order|request) from (?:the |your )?(?:system|administrator|admin|security team|anthropic|openai|developers?|platform|operator|it department)\b.{0,80}?(?:you|must|immediately|required|all agents|assistant)",
    ),
    sign(
        AuthorityClaim,
        3,
        "this is an authorized|this is authorized|pre-authorized|preauthorized|has been authorized|with full permission|you are authorized|you have permission|no approval needed|user has approved|user already approved",
        r"(?:this is (?:an )?authori[sz]ed|pre\W?authori[sz]ed|(?:user|owner|operator|team|admin) has (?:already )?(?:approved|authori[sz]ed|consented)|has been (?:authori[sz]ed|approved) by <3>(?:user|admin|security|owner|operator|team)|you (?:are authori[sz]ed|have been granted) <3>(?:to|full|access)|you have permission (?:to|for) <2>(?:run|execute|access|delete|read|push|merge|deploy|install|bypass|skip|ignore|disable|send|do)\b|with full permission|no approval (?:is )?needed|user already approved)",
    ),
    sign(
        AuthorityClaim,
        3,
        "mandatory for all|required for compliance|compliance requirement|critical security update|urgent:|urgent security|emergency protocol|emergency override|maintenance mode",
        r"(?:mandatory for all (?:agents|assistants|ai)|(?:required for compliance|compliance requirement|for security reasons)\W <3>(?:you|agents?|the assistant) (?:must|need|have)|(?:critical|urgent) security update\W|emergency (?:protocol|override)|maintenance mode <3>(?:enabled|activated|active))",
    ),
    // Tags that mean nothing to any program, with an order behind them.
    sign(
        AuthorityClaim,
        4,
        "<important|<admin|<override|<urgent|<information>|<hidden|<command>|<instruction",
        r"<(?:important|admin\w*|override\w*|urgent\w*|information|hidden\w*|command|instructions?\w*)>.{0,200}?\b(?:you (?:must|should|need to|have to|are)|ignore|disregard|do not (?:tell|mention)|before (?:you|using|doing)|first,? (?:you|read|run|send)|the user (?:wants|asked|has))\b",
    ),
    // Turns of an invented conversation.
    sign(
        AuthorityClaim,
        3,
        "assistant: |\nhuman: |\nuser: ",
        r"(?:assistant|\W{0,4}human|\W{0,4}user):\s.{1,300}?\n\W{0,6}(?:human|user|system|assistant): .{0,200}?\b(?:ignore|send|run|execute|delete|reveal|print|forward|disable|approve)\b",
    ),
    sign(
        AuthorityClaim,
        3,
        "### response|### assistant|### output",
        r"### (?:response|assistant|output)\b.{0,200}?\n\W{0,4}### (?:instruction|user|human|system)\b.{0,200}?\b(?:delete|send|run|execute|ignore|push|upload|reveal|print|disable|approve)\b",
    ),
    // Orders in somebody else's name.
    sign_around(
        AuthorityClaim,
        3,
        "every agent|all agents|every assistant|all assistants|requires that you|requires you|demands that you|has approved this|has authorized this|has authorised this",
        r"(?:(?:security team|maintainers?|administrators?|management|operator|legal|compliance) (?:requires?|demands?|orders?) <1>(?:you|every agent|all agents)|company policy\W <4>(?:every|all) (?:agents?|assistants?)|(?:anthropic|openai|your operator|your vendor|the user|management) has (?:approved|authori[sz]ed) this)\b",
    ),
];
