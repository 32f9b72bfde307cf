//! For a protected field, the organisation's explicit value is a floor: a nearer layer may be stricter, never weaker.
//! Built-in defaults pin nothing. An exception is an entry in the organisation's `overrides`, and each use is kept.

use yaml::{Diagnostic, MapEntry, Node, Span, Value};

use super::layers::LayerKind;
use super::library::Library;
use crate::harness::config::{Config, Override};
use crate::harness::reference::UrlPrefix;

/// In which direction a protected field may move.
#[derive(Clone, Copy, Debug)]
pub enum Pin {
    /// Once true it stays true.
    StaysTrue,
    /// Once false it stays false.
    StaysFalse,
    /// One of these words, strictest first. It may only move towards the front.
    NotWeaker(&'static [&'static str]),
    /// A number that may only become smaller.
    AtMost,
    /// Like `AtMost`, and leaving it out is weaker too.
    Limit,
    /// It stays as it is.
    Same,
    /// A list that may only lose items.
    Subset,
    /// A list that may only gain items.
    Superset,
    /// URL prefixes, each below one of the organisation's.
    Covered,
}

/// The protected fields. Not in this list: `policy`, the caps (`CAPS`) and `security.rules`. `allow_repo_skills` has a second
/// check, `repo_skills`.
pub const PINS: &[(&str, Pin)] = &[
    ("security.fail_mode", Pin::NotWeaker(&["closed", "open"])),
    ("security.host_scanners.unicode_normalizer", Pin::StaysTrue),
    ("security.host_scanners.context_injection", Pin::StaysTrue),
    ("security.host_scanners.ssrf_validator", Pin::StaysTrue),
    ("security.host_scanners.secret_redactor", Pin::StaysTrue),
    ("security.host_scanners.llm_guard.enabled", Pin::StaysTrue),
    ("security.host_scanners.llm_guard.threshold", Pin::AtMost),
    ("security.host_scanners.llm_guard.threshold_instruction", Pin::Limit),
    ("security.host_scanners.llm_guard.threshold_tool", Pin::Limit),
    ("security.host_scanners.llm_guard.threshold_issue", Pin::Limit),
    ("security.host_scanners.llm_guard.match_type", Pin::NotWeaker(&["sentence", "full"])),
    ("security.host_scanners.llm_guard.required", Pin::StaysTrue),
    ("security.host_scanners.llm_guard.model", Pin::Same),
    ("security.sandbox_hooks.tirith.enabled", Pin::StaysTrue),
    ("security.sandbox_hooks.tirith.fail_on", Pin::NotWeaker(&["medium", "high", "critical"])),
    ("security.sandbox_hooks.ssrf_pretool", Pin::StaysTrue),
    ("security.sandbox_hooks.secret_redact_posttool", Pin::StaysTrue),
    ("security.sandbox_hooks.unicode_posttool", Pin::StaysTrue),
    ("security.sandbox_hooks.context_suppress_posttool", Pin::StaysTrue),
    ("security.sandbox_hooks.canary_pretool", Pin::StaysTrue),
    ("security.sandbox_hooks.canary_posttool", Pin::StaysTrue),
    ("security.sandbox_hooks.tool_allowlist_pretool.enabled", Pin::StaysTrue),
    ("security.escalation.on_critical", Pin::NotWeaker(&["halt", "review"])),
    ("security.trace.enabled", Pin::StaysTrue),
    ("allowed_remote_resources", Pin::Covered),
    ("allow_runtime_fetch", Pin::StaysFalse),
    ("allow_repo_skills", Pin::StaysFalse),
    ("max_runtime_fetches", Pin::AtMost),
    ("budget.usd", Pin::Limit),
    ("budget.tokens", Pin::Limit),
    ("budget.turns", Pin::Limit),
    ("budget.session_usd", Pin::Limit),
    ("budget.day_usd", Pin::Limit),
    ("budget.organisation_day_usd", Pin::Limit),
    ("readonly_repo", Pin::StaysTrue),
    ("sandbox.accept_weaker", Pin::Subset),
    ("sandbox.system_calls", Pin::NotWeaker(&["allow-list", "deny-list"])),
    ("confirm_tools", Pin::Superset),
];

/// The field with the settings of the guard's rules. The organisation pins each rule by its name, or all of them with `*`.
pub const RULES: &str = "security.rules";

/// The key under which the organisation pins every rule.
pub const EVERY_RULE: &str = "*";

/// Fields that the organisation caps in `caps:`, and their names in a harness.
pub const CAPS: &[(&str, &str)] = &[
    ("timeout_minutes", "timeout_minutes"),
    ("sandbox_timeout_seconds", "sandbox_timeout_seconds"),
    ("max_iterations", "validation_loop.max_iterations"),
];

/// Something that the organisation pinned and a nearer layer would weaken.
#[derive(Clone, Debug)]
pub struct Weakening {
    pub field: String,
    /// Where the nearer layer says it, or the harness that leaves it out.
    pub at: Span,
    pub left_out: bool,
    /// Where the organisation pinned it.
    pub pinned_at: Span,
    pub what: String,
}

/// An exception of the organisation's that this resolution used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    pub field: String,
    pub what: String,
    pub reason: String,
    pub until: String,
    pub repo: String,
}

/// The repository and the day for which overrides are looked up.
#[derive(Clone, Debug)]
pub struct OverrideScope<'a> {
    /// `owner/name`, where it is known.
    pub repo: Option<&'a str>,
    /// YYYY-MM-DD.
    pub today: &'a str,
}

/// All fields of `merged` that are weaker than the organisation's values, each once.
pub fn weakenings(library: &Library, floors: &[Node], caps: Option<&Node>, merged: &Node) -> Vec<Weakening> {
    let pinned = PINS.iter().filter_map(|(field, pin)| {
        floors.iter().find_map(|floor| find_weakening(library, *pin, field, floor.find(field)?, merged))
    });
    let capped = CAPS
        .iter()
        .filter_map(|(cap, field)| find_weakening(library, Pin::AtMost, field, caps?.get(cap)?, merged));
    pinned.chain(capped).chain(weaker_rules(floors, merged)).collect()
}

/// The actions of `security.rules`, strictest first.
const RULE_ACTIONS: Pin = Pin::NotWeaker(&["on", "report", "off"]);

/// Rules of the guard that are weaker than the organisation's pin for their name or for all rules.
fn weaker_rules(floors: &[Node], merged: &Node) -> Vec<Weakening> {
    let rules = merged.find(RULES).map_or(&[][..], |rules| rules.entries());
    let weakening = |entry: &MapEntry, floor: &Node| {
        let floor = floor.find(RULES)?;
        let pinned = floor.get(&entry.key).or_else(|| floor.get(EVERY_RULE))?.get("action")?;
        let (at, what) = weaker(RULE_ACTIONS, pinned, entry.node.get("action")?)?;
        let field = format!("{RULES}.{}", entry.key);
        Some(Weakening { field, at, left_out: false, pinned_at: pinned.at, what })
    };
    rules.iter().filter_map(|entry| floors.iter().find_map(|floor| weakening(entry, floor))).collect()
}

/// How one field of `merged` is weaker than its floor, if it is.
fn find_weakening(
    library: &Library,
    pin: Pin,
    field: &str,
    floor: &Node,
    merged: &Node,
) -> Option<Weakening> {
    let (set_at, what) = match merged.find(field) {
        Some(chosen) => {
            let (at, what) = weaker(pin, floor, chosen)?;
            // Never point at a built-in file: point at the `null` that brought the default back, or else at the harness.
            let built_in = library.layer_of(at) == LayerKind::Builtin;
            (if built_in { chosen.replaced.last().copied() } else { Some(at) }, what)
        }
        None if matches!(pin, Pin::Limit | Pin::Same | Pin::Superset) => {
            (deletion(merged, field), unset(floor))
        }
        None => return None,
    };
    let harness = merged.get("agent").map_or(merged.at, |agent| agent.at);
    Some(Weakening {
        field: field.to_owned(),
        at: set_at.unwrap_or(harness),
        left_out: set_at.is_none(),
        pinned_at: floor.at,
        what,
    })
}

/// Where a field was deleted, if it was.
fn deletion(merged: &Node, field: &str) -> Option<Span> {
    let mut node = merged;
    for step in field.split('.') {
        let entry = node.entry(step)?;
        if entry.node.is_null() {
            return Some(entry.node.at);
        }
        node = &entry.node;
    }
    None
}

fn unset(floor: &Node) -> String {
    let items: Vec<&str> = floor.items().iter().filter_map(Node::scalar).collect();
    let pinned = floor.scalar().map_or_else(|| items.join(", "), str::to_owned);
    format!("is not set, and the organisation pins `{pinned}`")
}

/// Where and how `chosen` is weaker than `floor`, if it is.
fn weaker(pin: Pin, floor: &Node, chosen: &Node) -> Option<(Span, String)> {
    let says = |node: &Node| node.scalar().unwrap_or("").to_owned();
    let was = says(floor);
    let is = says(chosen);
    let changed = || Some((chosen.at, format!("is `{is}`, and the organisation pins `{was}`")));
    match pin {
        Pin::StaysTrue if was == "true" && is != "true" => changed(),
        Pin::StaysFalse if was == "false" && is != "false" => changed(),
        Pin::NotWeaker(words) => {
            let rank = |word: &str| words.iter().position(|known| *known == word);
            if rank(&is) > rank(&was) { changed() } else { None }
        }
        // A number that cannot be compared counts as weaker.
        Pin::AtMost | Pin::Limit => match (chosen.number(), floor.number()) {
            (Some(is), Some(was)) if is <= was => None,
            _ => changed(),
        },
        Pin::Same if was != is => changed(),
        Pin::Subset => {
            first_item(chosen, |item| !floor.items().iter().any(|known| known.value == item.value))
        }
        Pin::Superset => {
            let mut lost = floor
                .items()
                .iter()
                .filter(|item| !chosen.items().iter().any(|known| known.value == item.value));
            lost.next()
                .map(|item| (chosen.at, format!("lacks `{}`, which the organisation pins", says(item))))
        }
        Pin::Covered => {
            let allowed: Vec<UrlPrefix> = floor.items().iter().filter_map(prefix).collect();
            first_item(chosen, |item| {
                prefix(item).is_some_and(|wanted| !allowed.iter().any(|p| p.covers(&wanted)))
            })
        }
        Pin::StaysTrue | Pin::StaysFalse | Pin::Same => None,
    }
}

fn prefix(node: &Node) -> Option<UrlPrefix> {
    match &node.value {
        Value::Text(text) => UrlPrefix::parse(text).ok(),
        _ => None,
    }
}

fn first_item(list: &Node, beyond: impl Fn(&Node) -> bool) -> Option<(Span, String)> {
    let item = list.items().iter().find(|item| beyond(item))?;
    Some((
        item.at,
        format!("has `{}`, which the organisation's list does not allow", item.scalar().unwrap_or("?")),
    ))
}

/// Turns weakenings into errors, or into exceptions where the organisation allows them.
pub fn judge(
    found: Vec<Weakening>,
    config: Option<&Config>,
    override_scope: &OverrideScope<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Vec<Exception> {
    let overrides = config.map_or(&[][..], |config| &config.overrides[..]);
    let mut exceptions = Vec::new();
    for weakening in found {
        let entries: Vec<&Override> =
            overrides.iter().filter(|entry| applies(entry, &weakening.field, override_scope)).collect();
        match entries.iter().find(|entry| entry.until.value.as_str() >= override_scope.today) {
            Some(entry) => {
                problems.push(warn(&weakening, entry));
                exceptions.push(Exception {
                    field: weakening.field,
                    what: weakening.what,
                    reason: entry.reason.value.clone(),
                    until: entry.until.value.clone(),
                    repo: entry.repo.value.clone(),
                });
            }
            None => problems.push(refuse(&weakening, entries.first())),
        }
    }
    exceptions
}

fn applies(entry: &Override, field: &str, override_scope: &OverrideScope<'_>) -> bool {
    let below = field
        .strip_prefix(entry.field.value.as_str())
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let repo = entry.repo.value.as_str();
    below && (repo == "*" || override_scope.repo.is_some_and(|name| name.eq_ignore_ascii_case(repo)))
}

fn warn(weakening: &Weakening, entry: &Override) -> Diagnostic {
    let message = format!(
        "`{}` {}; an override allows it until {}",
        weakening.field, weakening.what, entry.until.value
    );
    Diagnostic::warning("override-used", weakening.at, message)
        .related(weakening.pinned_at, "pinned here")
        .related(entry.field.at, format!("allowed here: {}", entry.reason.value))
}

fn refuse(weakening: &Weakening, expired: Option<&&Override>) -> Diagnostic {
    let message = format!("`{}` {}", weakening.field, weakening.what);
    let diagnostic = Diagnostic::error("pinned", weakening.at, message)
        .related(weakening.pinned_at, "the organisation pins it here");
    match expired {
        Some(entry) => diagnostic
            .related(entry.until.at, format!("an override ended on {}", entry.until.value))
            .help("ask the organisation to renew it, or remove the value"),
        None if weakening.left_out => {
            diagnostic.help("set it here too, or extend the organisation's harness with `base:`")
        }
        None => diagnostic.help("remove the value, or ask the organisation for an entry in its `overrides`"),
    }
}

/// Errors in the organisation's overrides themselves.
pub fn check_overrides(config: &Config) -> Vec<Diagnostic> {
    let pinned = PINS.iter().map(|(field, _)| *field).chain(CAPS.iter().map(|(_, field)| *field));
    let fields: Vec<&str> = pinned.chain(["policy", "security", "budget", RULES]).collect();
    let known = |field: &str| {
        let is_rule = field.strip_prefix(RULES).is_some_and(|rest| rest.starts_with('.'));
        is_rule || fields.iter().any(|full| *full == field || full.starts_with(&format!("{field}.")))
    };
    let mut problems = Vec::new();
    for entry in &config.overrides {
        if !known(&entry.field) {
            let message = format!("`{}` is not a field that the organisation can pin", entry.field.value);
            let problem = Diagnostic::error("override", entry.field.at, message);
            problems.push(match yaml::closest(&entry.field, fields.iter().copied()) {
                Some(near) => problem.label(format!("did you mean `{near}`?")),
                None => problem.help("write the field as in a harness, such as `budget.usd`; `security` stands for all fields below it"),
            });
        }
        if !is_date(&entry.until) {
            problems.push(Diagnostic::error(
                "override",
                entry.until.at,
                "`until` must be a date written YYYY-MM-DD",
            ));
        }
        if entry.repo.value != "*" && !entry.repo.contains('/') {
            problems.push(Diagnostic::error("override", entry.repo.at, "`repo` must be `owner/name` or `*`"));
        }
    }
    problems
}

/// YYYY-MM-DD, and a day that the calendar has.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |index: usize, length: usize| {
        let part = parts.get(index).filter(|part| part.len() == length)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u32>().ok())?
    };
    let (Some(year), Some(month), Some(day), 3) = (number(0, 4), number(1, 2), number(2, 2), parts.len())
    else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// Only the organisation can let repositories bring their own skills: a `true` in the repository's layer is
/// accepted only where the organisation sets `true` too.
pub fn repo_skills(library: &Library, floors: &[Node], merged: &Node) -> Option<Diagnostic> {
    let node = merged.get("allow_repo_skills").filter(|node| node.value == Value::Bool(true))?;
    // If the organisation sets `false`, it is a pin like any other.
    let is_set = floors.iter().any(|floor| floor.get("allow_repo_skills").is_some());
    (!is_set && library.layer_of(node.at) == LayerKind::Repository).then(|| {
        Diagnostic::error("pinned", node.at, "`allow_repo_skills` can only be turned on by the organisation")
            .help("set it in the organisation's config.yaml or harness")
    })
}
