//! `security.rules`: each key is a rule of the guard that a harness can change, with a reason. Some rules have a setting of
//! their own, or belong to the operator; those are errors here.

use redact::{Category, rule};
use yaml::{Diagnostic, Spanned};

use crate::harness::security::{RuleAction, RuleSetting, Security};
use crate::resolve::pins::EVERY_RULE;

/// Errors about wrong settings, and a warning for each rule that is weaker than built in.
pub fn check(security: &Security, problems: &mut Vec<Diagnostic>) {
    for (name, setting) in security.rules.iter() {
        problems.push(match wrong_name(name, setting).or_else(|| no_reason(name, setting)) {
            Some(problem) => problem,
            None if setting.action.value == RuleAction::On => continue,
            None => changed(name, setting),
        });
    }
}

fn wrong_name(name: &Spanned<String>, setting: &RuleSetting) -> Option<Diagnostic> {
    if name.value == EVERY_RULE {
        let message = "`security.rules.*` takes only `on`: it pins every rule";
        let problem = || Diagnostic::error("rule", setting.action.at, message);
        return (setting.action.value != RuleAction::On).then(|| problem().help("name the rules one by one"));
    }
    let mut families = rule::rules().filter(|(_, known)| *known == name.value).map(|(family, _)| family);
    let Some(family) = families.next() else {
        let problem = Diagnostic::error("rule", name.at, format!("the guard has no rule `{}`", name.value));
        return Some(match yaml::closest(name, rule::rules().map(|(_, known)| known)) {
            Some(near) => problem.label(format!("did you mean `{near}`?")),
            None => problem.help("a finding names its rule: run `fullsend runs show latest`"),
        });
    };
    let instead = match family {
        Category::Canary => "set `security.sandbox_hooks.canary_pretool` and `canary_posttool`",
        Category::ToolAllowlist => "set `security.sandbox_hooks.tool_allowlist_pretool`",
        Category::ContextSuppress => "set `security.sandbox_hooks.context_suppress_posttool`",
        _ if name.value == rule::secret::KNOWN_CREDENTIAL.name() => {
            "the run's own credentials are masked in every mode"
        }
        _ => return None,
    };
    let message = format!("`security.rules` cannot change `{}`", name.value);
    Some(Diagnostic::error("rule", name.at, message).help(instead))
}

fn no_reason(name: &Spanned<String>, setting: &RuleSetting) -> Option<Diagnostic> {
    let has_reason = setting.reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
    if has_reason || setting.action.value == RuleAction::On {
        return None;
    }
    let message = format!("`security.rules.{}` needs a reason", name.value);
    let help = format!("write `{}: {{action: {}, reason: WHY}}`", name.value, setting.action.value.word());
    Some(Diagnostic::error("rule", setting.action.at, message).help(help))
}

fn changed(name: &Spanned<String>, setting: &RuleSetting) -> Diagnostic {
    let does = match setting.action.value {
        RuleAction::Off => "is off",
        _ => "only reports",
    };
    let reason = setting.reason.as_ref().map_or("", |reason| reason.trim());
    Diagnostic::warning("rule", name.at, format!("the rule `{}` {does}: {reason}", name.value))
}
