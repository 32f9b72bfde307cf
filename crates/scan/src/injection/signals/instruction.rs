//! Replacing the instructions that the agent has: ignore, forget, instead.

use super::super::signal::SignalFamily::InstructionOverride;
use super::super::signal::{Signal, sign};

pub(super) const SIGNALS: &[Signal] = &[
    sign(
        InstructionOverride,
        6,
        "ignore|disregard|forget|override|neglect|discard|bypass",
        r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|override|neglect|discard|bypass) <3>(?:previous|previously|prior|earlier|above|preceding|existing|original|initial|old|past|former) <3>(?:instructions?|prompts?|rules|guidelines|directions|directives|commands|conversations?|messages|programming|training|orders|constraints|requests?)\b",
    ),
    sign(
        InstructionOverride,
        5,
        "ignore|disregard|forget|override",
        r"(?:ignore|disregard|forget|override) <2>(?:all|any|every|everything|your|these|those) <3>(?:instructions?|prompts?|guidelines|directions|directives|programming|training|policies|orders)\b",
    ),
    sign(
        InstructionOverride,
        5,
        "ignore|disregard|forget",
        r"(?:ignore|disregard|forget) (?:everything|anything|all) <3>(?:above|before|prior|previous|previously|so far|until now|you (?:were|have been|know|learned|learnt)|i said|to your core)",
    ),
    sign(
        InstructionOverride,
        5,
        "ignore|disregard|forget",
        r"(?:ignore|disregard|forget) <4>(?:instructions?|prompts?|rules|guidelines|directions) <3>(?:given|before|above|received|provided|got|so far|prior|till|until)\b",
    ),
    sign(
        InstructionOverride,
        4,
        "from now on|from this point|from this moment|starting now|henceforth|for the rest of",
        r"(?:from now on(?:wards?)?|from this (?:point|moment)(?: on| forward| onwards?)?|starting now|henceforth|for the rest of <2>(?:conversation|chat|session)) <4>(?:you (?:are|will|must|shall|have to|should|no longer|act|can)|you.re|act as|answer|respond|ignore|pretend|our conversation|whenever)\b",
    ),
    sign(
        InstructionOverride,
        4,
        "you are no longer|you no longer|you will no longer|you're no longer",
        r"you(?:.re| are| will)? no longer <5>(?:bound|restricted|limited|required|have to|need to|act as|an ai|a language|chatgpt|claude|an assistant|follow|constrained|subject|adhere)",
    ),
    sign(
        InstructionOverride,
        4,
        "your new|these are your new|here are your new|new instructions|updated instructions|revised instructions",
        r"(?:(?:these|here) are )?(?:your )?(?:new|updated|revised) (?:instructions?|task|objective|goal|directive|role|orders|system prompt) (?:is|are|:|follow|below|from)",
    ),
    sign(
        InstructionOverride,
        4,
        "instead of",
        r"instead of (?:the|your|following|doing|completing) <4>(?:task|instructions?|request|above|original)\W <8>(?:you|please|do|run|send|write|output|execute)\b",
    ),
    sign(
        InstructionOverride,
        4,
        "stop what you|abandon your|abandon the|drop the current|before doing anything else|before you continue",
        r"(?:stop what you (?:are|were) doing|abandon (?:your|the) <2>(?:task|goal|instructions)|drop the current task|before (?:doing anything else|you continue)\W <3>(?:you must|run|execute|send|read|call|fetch))",
    ),
    sign(
        InstructionOverride,
        4,
        "takes precedence|take precedence|supersede|overrides all|override all|overrides any",
        r"(?:takes? precedence over|supersedes?|overrides?) <3>(?:all|any|every|your|other|previous|prior|system|safety) <4>(?:instructions?|rules|prompts?|guidelines|guardrails|directives|policies)",
    ),
    sign(
        InstructionOverride,
        5,
        "system prompt|your prompt|your initial|your system",
        r"(?:(?:your )?system prompt|your (?:initial )?(?:prompt|instructions)) (?:is|has been|was|are|were) (?:now|replaced|changed|updated|overridden|void|cancelled|obsolete|hereby)",
    ),
    sign(
        InstructionOverride,
        4,
        "ai agent|ai assistant|ai model|if you are an|attention ai|note to ai|dear ai|coding agent|hey claude|hey chatgpt|hello chatgpt|hi chatgpt",
        r"(?:if you are an? <2>(?:ai|llm|language model|agent|assistant|bot)|(?:attention|note to|dear|hey|hello|hi) <2>(?:ai|llms?|agents?|assistants?|claude|chatgpt|copilot|gpt)\b|(?:ai|coding) (?:agents?|assistants?|models?) (?:reading|processing|reviewing|that reads?) this)",
    ),
    sign(
        InstructionOverride,
        3,
        "confirm that you|say you understand|if you understand|to confirm you understand|reply with|respond with",
        r"(?:confirm that you (?:understand|understood)|(?:if|to confirm) you understand\w*\W <5>(?:say|reply|respond|write|answer|type)|say you understand|(?:reply|respond) (?:only )?with\W{1,4}(?:ok|understood|yes|i understand|confirmed)\b)",
    ),
];
