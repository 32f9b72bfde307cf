//! The `trigger` of a harness: an expression of CEL (the Common Expression Language) over `event`, an event of a forge. It says
//! whether the event starts the harness. An expression is bounded in length and loops, and so is the event, so that an
//! evaluation ends soon. This module starts nothing.

mod github;
mod gitlab;
mod possible;
mod subscriptions;
mod variables;

use std::fmt;

use cel::common::ast::{EntryExpr, Expr};
use cel::{Context, IdedExpr, Program, Value};
use serde_json::Value as Json;

pub use subscriptions::github_subscriptions;
pub use variables::{event_variables, is_free_text};

/// The longest expression.
const MAX_BYTES: usize = 2 << 10;

/// How many of `all`, `exists`, `exists_one`, `map` and `filter` an expression may have. One loop takes at most `MAX_LABELS`
/// steps.
const MAX_LOOPS: usize = 3;

/// How many labels of an event are read.
const MAX_LABELS: usize = 100;

/// How deep brackets and signs may nest. Each level is several nested calls in the parser.
const MAX_DEPTH: usize = 32;

/// The stack of the parser's thread. A long sum also nests, with one call for each operand.
const STACK_BYTES: usize = 64 << 20;

/// A checked expression.
pub struct Trigger(String);

/// Why an expression cannot be used, or has no boolean result for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerError {
    TooLong {
        bytes: usize,
    },
    TooDeep,
    TooManyLoops {
        count: usize,
    },
    /// It names something that is not `event`.
    UnknownName {
        name: String,
    },
    Syntax {
        line: usize,
        column: usize,
        why: String,
    },
    /// It failed on this event, for example because a field is absent.
    Evaluation {
        why: String,
    },
    NotBool {
        value: String,
    },
    /// The evaluation itself failed.
    Broken,
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(f, "it has {bytes} bytes, the limit is {MAX_BYTES}"),
            Self::TooDeep => write!(f, "it is nested deeper than {MAX_DEPTH} levels"),
            Self::TooManyLoops { count } => write!(f, "it has {count} loops, the limit is {MAX_LOOPS}"),
            Self::UnknownName { name } => write!(f, "`{name}` is not known: the only variable is `event`"),
            Self::Syntax { line, column, why } => write!(f, "line {line}, column {column}: {why}"),
            Self::Evaluation { why } => f.write_str(why),
            Self::NotBool { value } => write!(f, "it must be true or false, and is {value}"),
            Self::Broken => f.write_str("it cannot be evaluated"),
        }
    }
}

impl std::error::Error for TriggerError {}

/// An event in one form for all forges.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerEvent(Json);

impl TriggerEvent {
    /// An event that is already in this form.
    pub fn normalized(event: Json) -> Self {
        Self(event)
    }

    /// The event of a webhook of GitHub; `kind` is `X-GitHub-Event`. `None`: triggers do not support this kind.
    pub fn of_github(kind: &str, payload: &Json) -> Option<Self> {
        github::normalize(kind, payload).map(Self)
    }

    /// The event of a webhook of GitLab; `kind` is `X-Gitlab-Event`.
    pub fn of_gitlab(kind: &str, payload: &Json) -> Option<Self> {
        gitlab::normalize(kind, payload).map(Self)
    }

    /// The event of a webhook of GitLab, whose body says what kind it is.
    pub fn of_gitlab_body(payload: &Json) -> Option<Self> {
        let kind = match text(payload, "/object_kind") {
            "issue" => "Issue Hook",
            "merge_request" => "Merge Request Hook",
            "note" => "Note Hook",
            _ => return None,
        };
        Self::of_gitlab(kind, payload)
    }

    pub fn json(&self) -> &Json {
        &self.0
    }

    /// Whether the forge says that the actor may write to the repository, or may label issues of others. A label on
    /// one's own issue proves nothing: an issue template adds labels to a stranger's issue.
    pub fn is_authorized(&self) -> bool {
        let text = |path: &str| self.0.pointer(path).and_then(Json::as_str).unwrap_or_default();
        let is_author = self.0.pointer("/actor/is_entity_author") == Some(&Json::Bool(true));
        let labels_others = text("/transition/label/action") == "added" && !is_author;
        labels_others || ["admin", "maintain", "write"].contains(&text("/actor/role"))
    }
}

impl Trigger {
    pub fn compile(text: &str) -> Result<Self, TriggerError> {
        if text.len() > MAX_BYTES {
            return Err(TriggerError::TooLong { bytes: text.len() });
        }
        if depth(text) > MAX_DEPTH {
            return Err(TriggerError::TooDeep);
        }
        on_large_stack(|| {
            let program = parse(text)?;
            let mut found = ExpressionUse::default();
            found.visit(program.expression());
            if found.loops > MAX_LOOPS {
                return Err(TriggerError::TooManyLoops { count: found.loops });
            }
            let unknown =
                found.names.into_iter().find(|name| *name != "event" && !found.locals.contains(name));
            match unknown {
                Some(name) => Err(TriggerError::UnknownName { name: name.to_owned() }),
                None => Ok(Self(text.to_owned())),
            }
        })
    }

    /// Whether the event starts the harness.
    pub fn matches(&self, event: &TriggerEvent) -> Result<bool, TriggerError> {
        on_large_stack(|| {
            let program = parse(&self.0)?;
            let failed = |why: String| TriggerError::Evaluation { why };
            let mut context = Context::default();
            let value = cel::to_value(event.json()).map_err(|error| failed(error.to_string()))?;
            context.add_variable_from_value("event", value);
            match program.execute(&context).map_err(|error| failed(error.to_string()))? {
                Value::Bool(answer) => Ok(answer),
                other => Err(TriggerError::NotBool { value: other.type_of().to_string() }),
            }
        })
    }
}

/// A lower bound of the parser's depth: open brackets, signs in a row, and conditions. Those inside strings count too.
fn depth(text: &str) -> usize {
    let mut open = 0_usize;
    let mut signs = 0;
    let mut conditions = 0;
    let mut deepest = 0;
    for letter in text.chars().filter(|letter| !letter.is_whitespace()) {
        match letter {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '?' => conditions += 1,
            _ => {}
        }
        signs = if "!-".contains(letter) { signs + 1 } else { 0 };
        deepest = deepest.max(open + signs + conditions);
    }
    deepest
}

fn parse(text: &str) -> Result<Program, TriggerError> {
    Program::compile(text).map_err(|errors| {
        let first = errors.errors.first();
        let number = |value: isize| usize::try_from(value).unwrap_or_default();
        TriggerError::Syntax {
            line: first.map_or(1, |error| number(error.pos.0)),
            column: first.map_or(1, |error| number(error.pos.1)),
            why: first.map_or_else(String::new, |error| error.msg.clone()),
        }
    })
}

fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, TriggerError> + Send) -> Result<T, TriggerError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let ended = thread.map_err(|_| TriggerError::Broken)?.join();
        ended.unwrap_or(Err(TriggerError::Broken))
    })
}

/// What an expression uses.
#[derive(Default)]
struct ExpressionUse<'a> {
    loops: usize,
    names: Vec<&'a str>,
    /// The variables of loops.
    locals: Vec<&'a str>,
}

impl<'a> ExpressionUse<'a> {
    fn visit(&mut self, node: &'a IdedExpr) {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => self.names.push(name),
            Expr::Select(select) => self.visit(&select.operand),
            Expr::List(list) => list.elements.iter().for_each(|element| self.visit(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.visit_entry(&entry.expr)),
            Expr::Struct(value) => value.entries.iter().for_each(|entry| self.visit_entry(&entry.expr)),
            Expr::Call(call) => {
                call.target.iter().for_each(|target| self.visit(target));
                call.args.iter().for_each(|argument| self.visit(argument));
            }
            Expr::Comprehension(all) => {
                self.loops += 1;
                self.locals.extend([all.iter_var.as_str(), &all.accu_var]);
                self.locals.extend(all.iter_var2.as_deref());
                for part in [&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result] {
                    self.visit(part);
                }
            }
        }
    }

    fn visit_entry(&mut self, entry: &'a EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.visit(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key);
                self.visit(&entry.value);
            }
        }
    }
}

/// A comment that begins with a command, such as `/triage look again`: the command, and the rest.
fn command(body: &str) -> Option<(&str, &str)> {
    let first = body.lines().next()?.trim();
    let word = first.split_whitespace().next().filter(|word| word.starts_with('/') && word.len() > 1)?;
    Some((word, body.trim_start().strip_prefix(word)?.trim()))
}

/// A text of a payload; empty where there is none.
fn text<'a>(payload: &'a Json, path: &str) -> &'a str {
    payload.pointer(path).and_then(Json::as_str).unwrap_or_default()
}

/// A number or a text of a payload, as text.
fn id(payload: &Json, path: &str) -> String {
    match payload.pointer(path) {
        Some(Json::Number(number)) => number.to_string(),
        Some(Json::String(text)) => text.clone(),
        _ => String::new(),
    }
}

fn labels(list: Option<&Json>, field: &str) -> Vec<Json> {
    let all = list.and_then(Json::as_array).into_iter().flatten().take(MAX_LABELS);
    all.filter_map(|label| label.get(field)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> TriggerEvent {
        let payload = json!({
            "action": "labeled", "label": { "name": "ready" }, "repository": { "full_name": "acme/widgets" },
            "issue": { "number": 7, "html_url": "https://example.com/7", "user": { "login": "ann" },
                       "labels": [{ "name": "bug" }, { "name": "ready" }] },
            "sender": { "login": "bob", "type": "User" },
        });
        TriggerEvent::of_github("issues", &payload).unwrap()
    }

    #[test]
    fn a_label_on_ones_own_issue_proves_nothing() {
        let labeled = |sender: &str, association: &str| {
            let payload = json!({
                "action": "labeled", "label": { "name": "triage" }, "sender": { "login": sender },
                "repository": { "full_name": "acme/widgets" },
                "issue": { "number": 3, "user": { "login": "mallory" }, "author_association": association },
            });
            TriggerEvent::of_github("issues", &payload).unwrap().is_authorized()
        };
        assert!(!labeled("mallory", "NONE"), "the template of the issue set it");
        assert!(labeled("mallory", "COLLABORATOR"));
        assert!(labeled("ann", "NONE"), "somebody else who may label");
    }

    #[test]
    fn an_expression_says_whether_an_event_starts_its_harness() {
        let matches = |text: &str| Trigger::compile(text).unwrap().matches(&event());
        for text in [
            "true",
            "event.transition.kind == 'label_changed' && event.transition.label.name == 'ready'",
            "'bug' in event.state.labels",
            "event.state.labels.exists(name, name.startsWith('re'))",
            "event.repo == 'acme/widgets' && event.entity.id == '7'",
            "!has(event.transition.comment)",
            "event.source.system == 'github' && event.actor.kind != 'bot' && !event.actor.is_entity_author",
        ] {
            assert_eq!(matches(text), Ok(true), "{text}");
        }
        for text in ["false", "event.transition.kind == 'synchronize'", "size(event.state.labels) > 2"] {
            assert_eq!(matches(text), Ok(false), "{text}");
        }
        assert!(matches!(
            matches("event.transition.comment.body == ''"),
            Err(TriggerError::Evaluation { .. })
        ));
        assert!(matches!(matches("event.repo"), Err(TriggerError::NotBool { .. })));
        assert!(matches!(matches("event.repo.nothing()"), Err(TriggerError::Evaluation { .. })));
    }

    #[test]
    fn an_expression_that_cannot_be_used_is_refused_before_any_event() {
        let refused = |text: &str| Trigger::compile(text).err().unwrap_or_else(|| panic!("{text}"));
        assert!(matches!(refused("event.\n  repo == = 1"), TriggerError::Syntax { line: 2, .. }));
        assert!(matches!(refused(""), TriggerError::Syntax { .. }));
        let unknown = TriggerError::UnknownName { name: "evnt".to_owned() };
        assert_eq!(refused("evnt.repo == ''"), unknown);
        let nested = "event.state.labels.all(a, event.state.labels.all(b, event.state.labels.all(c, event.state.labels.all(d, true))))";
        assert_eq!(refused(nested), TriggerError::TooManyLoops { count: 4 });
        assert!(matches!(refused(&"x".repeat(2049)), TriggerError::TooLong { bytes: 2049 }));
        for deep in ["(".repeat(2000), format!("{}true", "! ".repeat(33)), "true ? ".repeat(40)] {
            assert_eq!(refused(&deep), TriggerError::TooDeep);
        }
        let nested = format!("{}true{}", "(".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH));
        assert_eq!(Trigger::compile(&nested).unwrap().matches(&event()), Ok(true));
        for long in [format!("{}1 > 0", "1+".repeat(1000)), format!("{}true", "true && ".repeat(250))] {
            assert_eq!(Trigger::compile(&long).unwrap().matches(&event()), Ok(true));
        }
    }

    #[test]
    fn commands_are_read_from_the_first_line() {
        assert_eq!(command("/triage look\nagain"), Some(("/triage", "look\nagain")));
        assert_eq!(command("  /triage"), Some(("/triage", "")));
        for body in ["", "please /triage", "/", "\n/triage"] {
            assert_eq!(command(body), None, "{body:?}");
        }
    }
}
