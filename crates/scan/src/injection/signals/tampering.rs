//! Switching checks off, and widening the agent's own rights.

use super::super::signal::SignalFamily::GuardTampering;
use super::super::signal::{Signal, sign, sign_around};

pub(super) const SIGNALS: &[Signal] = &[
    sign(
        GuardTampering,
        5,
        "disable|turn off|deactivate|switch off|circumvent|bypass",
        r"(?:disable|turn off|deactivate|switch off|circumvent|bypass) (?:the |all |any |your |its ){0,2}(?:\w+ ){0,2}?(?:safety (?:checks?|filters?|guidelines|features|protocols?)|guardrails?|security (?:scanners?|hooks?|checks?|guards?|features|monitoring|policy)|sandbox(?:ing)?|content filters?|permission (?:checks?|prompts?)|approval (?:prompts?|checks?)|injection (?:filters?|detection|scanners?)|audit log(?:ging)?|secret scan\w*)",
    ),
    sign(
        GuardTampering,
        3,
        "--dangerously-skip-permissions|--dangerously-bypass-approvals|--yolo|bypasspermissions|danger-full-access",
        r"(?:--dangerously-(?:skip-permissions|bypass-approvals\S*)|--yolo\b|bypasspermissions|danger-full-access)",
    ),
    sign_around(
        GuardTampering,
        4,
        ".claude/settings|.claude/hooks|.codex/config.toml|.mcp.json|.git/hooks|.cursor/mcp.json|permissions.allow|allowedtools|.vscode/settings.json",
        r"(?:edit|modify|update|add|change|write|append|overwrite) <8>(?:\.claude/settings(?:\.local)?\.json|\.claude/hooks|\.codex/config\.toml|\.mcp\.json|\.git/hooks|\.cursor/mcp\.json|permissions\.allow|allowedtools|\.vscode/settings\.json) <10>(?:to|so|and|with) <4>(?:allow|permit|enable|disable|remove|auto|grant|skip|bypass|approve|without)\b",
    ),
    sign(
        GuardTampering,
        4,
        "auto-approve|autoapprove|auto approve|approve all|always allow|grant yourself|give yourself|elevate your|escalate your|chat.tools.autoapprove",
        r"(?:(?:grant|give) yourself <4>(?:permissions?|access|rights|privileges|admin)|(?:elevate|escalate) your <2>(?:permissions?|privileges|access|rights)|(?:auto\W?approve|approve|always allow) all <3>(?:tool|commands?|permissions?|requests?|actions?|future|calls)|chat\.tools\.autoapprove)",
    ),
    sign(
        GuardTampering,
        3,
        "skip the review|skip review|skip validation|skip the validation|skip all checks|without review|ignore security|ignore the policy|ignore the scanner",
        r"(?:skip (?:the |all |any )?(?:reviews?|validation|security|approval)\W|skip all checks|without (?:any )?review\b|ignore (?:any |all |the )?(?:security|safety|scanner|policy)(?: \w+)? ?(?:warnings?|findings?|checks?|results?|polic\w+|rules|errors?|alerts?))",
    ),
    sign_around(
        GuardTampering,
        5,
        "be skipped|be deleted|be disabled|be removed|be ignored",
        r"(?:tests?|checks?|linter|scanner) (?:should|must|are to|is to|has to|have to|needs? to) be (?:skipped|deleted|disabled|removed|ignored) <4>(?:results?|builds?|status|them|it)\b <3>(?:reported|marked|shown|recorded) as (?:green|passed|passing|success\w*|fixed)",
    ),
];
