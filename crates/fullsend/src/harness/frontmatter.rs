//! The frontmatter of agent definitions and skills: the YAML between two `---` lines at the top of a Markdown file.

use yaml::macros::{Json, json};
use yaml::{Decoder, Diagnostic, Map, Node, Schemas, Shape, Spanned, Value, record};

use super::names::{Identifier, ModelEffort, ModelName};
use super::provider::Raw;

record! {
    /// The frontmatter of an agent definition.
    pub struct AgentFrontmatter {
        name: Option<Spanned<Identifier>>,
        description: Option<String>,
        /// The tools it may use: a list, or names separated by commas.
        tools: Option<Spanned<Names>>,
        /// Tools it may not use.
        disallowed_tools as "disallowedTools": Option<Spanned<Names>>,
        /// The model, unless the harness names one. `inherit` means the runtime's default.
        model: Option<Spanned<ModelName>>,
        effort: Option<Spanned<ModelEffort>>,
        /// Skills it should load.
        skills: Option<Spanned<Names>>,
        max_turns as "maxTurns": Option<u64>,
        permission_mode as "permissionMode": Option<String>,
        mcp_servers as "mcpServers": Option<Spanned<OpaqueValue>>,
        hooks: Option<Spanned<OpaqueValue>>,
        memory: Option<String>,
        background: Option<bool>,
        isolation: Option<String>,
        color: Option<String>,
        metadata: Map<OpaqueValue>,
    }
    refuse {
        "allowed-tools" => "that is a key of skills; agents use `tools`",
        "allowedTools" => "an agent says `tools`",
    }
}

record! {
    /// The frontmatter of a skill's SKILL.md.
    pub struct SkillFrontmatter {
        name: Spanned<Identifier>,
        /// What it does and when to use it: this is what the agent sees first.
        description: Spanned<String>,
        license: Option<String>,
        compatibility: Option<String>,
        allowed_tools as "allowed-tools": Option<Spanned<Names>>,
        model: Option<Spanned<ModelName>>,
        /// Other skills it needs.
        dependencies: Vec<Spanned<String>>,
        policy: Option<Spanned<String>>,
        version: Option<OpaqueValue>,
        argument_hint as "argument-hint": Option<String>,
        user_invocable as "user-invocable": Option<bool>,
        disable_model_invocation as "disable-model-invocation": Option<bool>,
        context: Option<String>,
        agent: Option<String>,
        hooks: Option<Raw>,
        metadata: Map<OpaqueValue>,
    }
    refuse {
        "tools" => "that is a key of agents; skills use `allowed-tools`",
    }
}

/// Names, as a list or separated by commas; a name may carry a pattern in parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl Shape for Names {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        match &node.value {
            Value::Text(text) => Some(Self(split_names(text))),
            Value::List(_) => Vec::<String>::decode(node, decoder).map(Self),
            _ => {
                decoder.wrong_kind(node, "a list of names, or names separated by commas");
                None
            }
        }
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

/// A comma inside parentheses belongs to the name: `Bash(gh, jq), Skill` is two.
fn split_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                names.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(name) = names.last_mut() {
            name.push(c);
        }
    }
    names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// A value that is passed to the runtime unread.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueValue(pub Node);

impl Shape for OpaqueValue {
    fn decode(node: &Node, _: &mut Decoder) -> Option<Self> {
        Some(Self(node.clone()))
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({})
    }
}

/// The two parts of a Markdown file, as byte ranges of the whole text, so that positions stay correct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkdownParts {
    pub frontmatter: Option<std::ops::Range<usize>>,
    pub body: std::ops::Range<usize>,
}

/// Finds the frontmatter; an opening line without its closing one is an error at the given place.
pub fn split(text: &str, source: yaml::SourceId) -> Result<MarkdownParts, Box<Diagnostic>> {
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let place = yaml::Span::start_of(source);
    if misplaced(&text[start..]) {
        let message =
            "the frontmatter must open with a line `---` and nothing else, as the first line of the file";
        return Err(Diagnostic::error("frontmatter", place, message).into());
    }
    let Some(first_line) = text[start..].split_inclusive('\n').next().filter(|line| line.trim_end() == "---")
    else {
        return Ok(MarkdownParts { frontmatter: None, body: start..text.len() });
    };
    let open = start + first_line.len();
    let mut offset = open;
    for line in text[open..].split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok(MarkdownParts {
                frontmatter: Some(open..offset),
                body: offset + line.len()..text.len(),
            });
        }
        offset += line.len();
    }
    Err(Diagnostic::error("frontmatter", place, "the frontmatter opens with `---` and is never closed")
        .help("put a line with `---` after the last key")
        .into())
}

/// Text that starts like frontmatter but is not: it would silently become part of the prompt. A horizontal rule is
/// allowed.
fn misplaced(text: &str) -> bool {
    let Some((number, line)) = text.lines().enumerate().find(|(_, line)| !line.trim().is_empty()) else {
        return false;
    };
    let is_rule = line.trim().len() > 3 && line.trim().chars().all(|c| c == '-');
    let is_opening = number == 0 && line.trim_end() == "---";
    line.trim_start().starts_with("---") && !is_rule && !is_opening
}

#[cfg(test)]
mod tests {
    use super::{MarkdownParts, split, split_names};

    #[test]
    fn a_markdown_file_splits_in_two() {
        let mut sources = yaml::Sources::default();
        let id = sources.add("a.md", "");
        let text = "---\nname: a\n---\nbody\n";
        assert_eq!(split(text, id).unwrap(), MarkdownParts { frontmatter: Some(4..12), body: 16..21 });
        assert_eq!(split("body", id).unwrap(), MarkdownParts { frontmatter: None, body: 0..4 });
        assert!(split("---\nname: a\n", id).is_err());
        assert!(split("\n---\nname: a\n---\nbody", id).is_err());
        assert!(split("--- # c\nname: a\n---\nbody", id).is_err());
        assert!(split("-----\nbody", id).is_ok());
    }

    #[test]
    fn names_split_at_commas_outside_parentheses() {
        assert_eq!(split_names("Bash(gh,curl, jq), Skill ,, Read"), ["Bash(gh,curl, jq)", "Skill", "Read"]);
    }
}
