//! Hiding something from the person in charge. This is the strongest sign: honest instructions have no reason for it.

use super::super::signal::SignalFamily::Concealment;
use super::super::signal::{Signal, sign, sign_around};

pub(super) const SIGNALS: &[Signal] = &[
    sign(
        Concealment,
        6,
        "do not tell|don't tell|never tell|do not inform|don't inform|never inform|do not notify|don't notify|do not alert|don't alert|never alert|do not reveal|never reveal|do not disclose|don't reveal|don’t tell",
        r"(?:do not|don.t|don...t|never) (?:tell|inform|notify|alert|reveal|disclose) <4>(?:the )?(?:user|users|human|humans|operator|owner|developer|maintainers?|anyone|anybody|reviewer|person|him|her|them about this)\b.{0,40}?(?:this|that you|about|any of|these|instruction|what|you (?:did|have|are)|\.|,|\n|$)",
    ),
    sign(
        Concealment,
        5,
        "do not mention|don't mention|never mention|don’t mention|do not refer to|do not acknowledge|never acknowledge|don't acknowledge",
        r"(?:do not|don.t|don...t|never) (?:mention|refer to|acknowledge|talk about) <5>(?:this|these|that|the) <3>(?:instructions?|message|prompt|comment|note|step|request|change|command|task|section|to the user|to anyone|in your (?:response|reply|output|summary|answer))",
    ),
    sign(
        Concealment,
        5,
        "without telling|without informing|without notifying|without the user|without alerting|without letting|without their knowledge|without mentioning",
        r"without (?:(?:telling|informing|notifying|alerting|letting) <2>(?:user|users|human|operator|anyone|them|owner|developer)|the user.{0,3}(?:knowing|knowledge|noticing|consent|awareness|being aware)|their (?:knowledge|consent)|mentioning (?:it|this))",
    ),
    sign(
        Concealment,
        5,
        "hide this|keep this secret|keep this hidden|keep it secret|keep this confidential from|conceal this|hide the fact|keep these instructions|hidden from the user|hide any|hide it from|hide your",
        r"(?:(?:hide|conceal) (?:this|it|the fact|any (?:evidence|trace|output)|your (?:actions|tracks)) <4>(?:from|that|of|user|so)|keep (?:this|it|these instructions) (?:secret|hidden|confidential) ?<3>(?:from|to yourself|user)?|hidden from the (?:user|human|operator|reviewer))",
    ),
    sign(
        Concealment,
        4,
        "silently|secretly|covertly|quietly|stealthily|surreptitiously",
        r"(?:silently|secretly|covertly|quietly|stealthily|surreptitiously) (?:and \w+ )?(?:send|sends|upload|post|exfiltrate|forward|transmit|copy|collect|execute|download|install|leak|append|include|insert|push|commit|record|harvest)\b <8>(?:to|the|all|any|a|file|key|secret|token|credential|data|http\S+)?",
    ),
    sign(
        Concealment,
        4,
        "pretend nothing|act as if nothing|behave normally|act normal|continue as normal|proceed as if",
        r"(?:pretend nothing|(?:act|behave|continue|proceed) (?:as if (?:nothing|this|you)|normally|as (?:normal|usual)|normal) <4>(?:happened|changed|afterwards?|so|and|did not|message)?)",
    ),
    sign(
        Concealment,
        4,
        "delete this message|delete this comment|remove this comment|delete the log|delete the logs|clear the history|clear your history|remove any trace|remove all traces|cover your tracks|erase the|delete the evidence|leave no trace|remove this instruction",
        r"(?:(?:delete|remove|erase) (?:this (?:message|comment|instruction|file|section|note)|the (?:logs?|evidence|history)|(?:any|all) traces?)|clear (?:the|your) (?:shell )?history|cover your tracks|leave no trace)\b",
    ),
    sign(
        Concealment,
        4,
        "do not include this|don't include this|omit this|leave this out|do not log|don't log this|do not show|don't show",
        r"(?:(?:do not|don.t) (?:include|log|show|display|print|report) (?:this|these|it|any of this)|omit this|leave this out) <5>(?:from|in|to|of) <3>(?:the )?(?:summary|user|report|logs?|output|response|answer|commit|human|transcript)",
    ),
    sign_around(
        Concealment,
        4,
        "quietly|secretly",
        r"(?:assistant|agent|model|you) (?:could |would |should |must |can |please ){0,2}(?:quietly|secretly) (?:remove|delete|disable|add|insert|replace|send|skip|change|approve|merge)\b",
    ),
];
