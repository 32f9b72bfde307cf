//! Texts with `${VAR}`: parsed when the file is read, expanded when the run starts. `$$` is a dollar sign. A bare
//! `$VAR` stays as it is, with a warning, because some tools would expand it.

use yaml::macros::{Json, json};
use yaml::{Decoder, Diagnostic, Node, Schemas, Shape};

/// A text that may name variables of the host's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    raw: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(String),
}

impl Template {
    pub fn parse(raw: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = raw;
        while let Some(dollar) = rest.find('$') {
            text.push_str(&rest[..dollar]);
            rest = &rest[dollar + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                text.push('$');
                rest = after;
            } else if let Some(after) = rest.strip_prefix('{') {
                let Some((name, after)) = after.split_once('}') else {
                    return Err("has a `${` without its `}`; write `$$` for a dollar".to_owned());
                };
                if !is_variable_name(name) {
                    return Err(format!("names the variable `{name}`: a name has letters, digits and `_`"));
                }
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(Part::Variable(name.to_owned()));
                rest = after;
            } else {
                text.push('$');
            }
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self { raw: raw.to_owned(), parts })
    }

    /// As written in the file.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The parts of a template: `Ok` is plain text, `Err` the name of a variable.
    pub fn parts(&self) -> impl Iterator<Item = Result<&str, &str>> {
        self.parts.iter().map(|part| match part {
            Part::Text(text) => Ok(text.as_str()),
            Part::Variable(name) => Err(name.as_str()),
        })
    }

    /// The text with every variable's value, or the first variable that has none.
    pub fn expand(&self, value: impl Fn(&str) -> Option<String>) -> Result<String, &str> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Variable(name) => text.push_str(&value(name).ok_or(name.as_str())?),
            }
        }
        Ok(text)
    }

    /// A `$NAME` that looks like a variable but is not one here.
    pub fn bare_variable(&self) -> Option<&str> {
        let unescaped = self.raw.match_indices('$').filter(|(index, _)| {
            let escaped = self.raw[..*index].chars().rev().take_while(|c| *c == '$').count() % 2 == 1;
            !escaped && !self.raw[index + 1..].starts_with('$')
        });
        unescaped.map(|(index, _)| &self.raw[index + 1..]).find_map(|rest| {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            Some(&rest[..length]).filter(|name| is_variable_name(name))
        })
    }
}

pub fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Shape for Template {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        // In an environment, numbers and booleans are text.
        let Some(raw) = node.scalar() else {
            decoder.wrong_kind(node, "text");
            return None;
        };
        match Self::parse(raw) {
            Ok(template) => {
                if let Some(name) = template.bare_variable() {
                    let path = decoder.path();
                    decoder.report(
                        Diagnostic::warning(
                            "bare-variable",
                            node.at,
                            format!("`{path}` has `${name}`, which is not expanded"),
                        )
                        .help(format!("write `${{{name}}}` for the variable, or `$${name}` for the text")),
                    );
                }
                Some(template)
            }
            Err(why) => {
                decoder.wrong_value(node, why);
                None
            }
        }
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": ["string", "number", "boolean"] })
    }
}

#[cfg(test)]
mod tests {
    use super::Template;

    #[test]
    fn variables_expand_and_dollars_survive() {
        let check = |raw: &str, expected: Result<&str, &str>| {
            let template = Template::parse(raw).unwrap();
            let found = template.expand(|name| (name == "A").then(|| "value".to_owned()));
            assert_eq!(found.as_deref().map_err(|name| *name), expected, "{raw}");
        };
        check("plain", Ok("plain"));
        check("${A}", Ok("value"));
        check("x${A}y${A}", Ok("xvalueyvalue"));
        check("$${A}", Ok("${A}"));
        check("$$$$", Ok("$$"));
        check("$A costs $5", Ok("$A costs $5"));
        check("${B}", Err("B"));
        check("", Ok(""));
        assert!(Template::parse("${A").is_err());
        assert!(Template::parse("${A:-b}").is_err());
    }

    #[test]
    fn only_unescaped_bare_variables_are_seen() {
        let bare = |raw: &str| Template::parse(raw).unwrap().bare_variable().map(str::to_owned);
        assert_eq!(bare("$HOME/x").as_deref(), Some("HOME"));
        assert_eq!(bare("$$HOME ${A} $5"), None);
    }
}
