//! Quotes the value of a `${VAR}` in a file, so that it always stays one value. The quoting depends on the kind of the
//! file and on the position in it. A file where the position is unclear is refused.

/// Tracks the quoting state while a file is written.
pub enum Quoting {
    Json(Json),
    Shell(Shell),
    /// Any other kind of file: the value as it is.
    None,
}

#[derive(Default)]
pub struct Json {
    in_string: bool,
    escaped: bool,
}

#[derive(Default)]
pub struct Shell {
    place: ShellPlace,
    escaped: bool,
    last: Option<char>,
    /// Syntax after which the quoting is uncertain.
    unclear: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ShellPlace {
    #[default]
    Plain,
    Single,
    Double,
    Comment,
}

impl Quoting {
    /// Chosen by the file's extension.
    pub fn of(target: &str) -> Self {
        match target.rsplit('.').next() {
            Some("json") => Self::Json(Json::default()),
            Some("sh" | "bash" | "env") => Self::Shell(Shell::default()),
            _ => Self::None,
        }
    }

    /// The text of the file between two values.
    pub fn pass(&mut self, text: &str) {
        match self {
            Self::Json(json) => text.chars().for_each(|c| json.pass(c)),
            Self::Shell(shell) => text.chars().for_each(|c| shell.pass(c)),
            Self::None => {}
        }
    }

    /// The value as it must be written here.
    pub fn write(&self, value: &str) -> Result<String, String> {
        match self {
            Self::Json(json) => Ok(json.write(value)),
            Self::Shell(shell) => shell.write(value),
            Self::None => Ok(value.to_owned()),
        }
    }
}

impl Json {
    fn pass(&mut self, c: char) {
        match c {
            _ if self.escaped => self.escaped = false,
            '\\' if self.in_string => self.escaped = true,
            '"' => self.in_string = !self.in_string,
            _ => {}
        }
    }

    /// Outside of a string a number, `true`, `false` or `null` stays as it is; any other value becomes a string.
    fn write(&self, value: &str) -> String {
        let quoted = serde_json::Value::from(value).to_string();
        if self.in_string {
            return quoted[1..quoted.len() - 1].to_owned();
        }
        match serde_json::from_str(value) {
            Ok(serde_json::Value::Number(_) | serde_json::Value::Bool(_) | serde_json::Value::Null) => {
                value.to_owned()
            }
            _ => quoted,
        }
    }
}

impl Shell {
    fn pass(&mut self, c: char) {
        use ShellPlace::{Comment, Double, Plain, Single};
        let last = self.last.replace(c);
        if std::mem::take(&mut self.escaped) {
            return;
        }
        let begins_word = last.is_none_or(|last| last.is_whitespace() || ";&|(".contains(last));
        match (self.place, c) {
            (Plain | Double, '\\') => self.escaped = true,
            (Plain | Double, '`') => self.unclear = Some("a command in backquotes"),
            (Plain | Double, '(') if last == Some('$') => self.unclear = Some("a command in `$(`"),
            (Plain, '<') if last == Some('<') => self.unclear = Some("a here-document"),
            (Plain, '\'') => self.place = Single,
            (Plain, '"') => self.place = Double,
            (Plain, '#') if begins_word => self.place = Comment,
            (Single, '\'') | (Double, '"') | (Comment, '\n') => self.place = Plain,
            _ => {}
        }
    }

    fn write(&self, value: &str) -> Result<String, String> {
        if let Some(what) = self.unclear {
            return Err(format!(
                "names a variable after {what}, where nothing can be quoted safely: assign it before"
            ));
        }
        let closed = || value.replace('\'', "'\\''");
        Ok(match self.place {
            ShellPlace::Plain => format!("'{}'", closed()),
            ShellPlace::Single => closed(),
            ShellPlace::Double => {
                let special = |c: char| matches!(c, '\\' | '"' | '$' | '`');
                value.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
            }
            ShellPlace::Comment => value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::template::Template;

    fn written(target: &str, text: &str, value: &str) -> Result<String, String> {
        let mut quoting = Quoting::of(target);
        let mut out = String::new();
        for part in Template::parse(text).unwrap().parts() {
            match part {
                Ok(text) => {
                    quoting.pass(text);
                    out.push_str(text);
                }
                Err(_) => out.push_str(&quoting.write(value)?),
            }
        }
        Ok(out)
    }

    const HOSTILE: &[&str] = &[
        "plain",
        "two words",
        "it's",
        "a\"b",
        "back\\slash\\",
        "$(touch planted)",
        "`touch planted`",
        "${HOME}",
        "line\nline; touch planted\n",
        "'; touch planted; '",
        "\", \"admin\": true, \"x\": \"",
        "# no comment",
        "\u{1b}[31m",
        "",
    ];

    #[test]
    fn a_value_in_json_is_one_value_in_every_position() {
        for value in HOSTILE {
            let text = written("a.json", r#"{"in": "x ${V} \" y", "out": ${V}}"#, value).unwrap();
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read["in"], format!("x {value} \" y"), "{text}");
            assert_eq!(read["out"], *value, "{text}");
            assert_eq!(read.as_object().unwrap().len(), 2);
        }
        assert_eq!(written("a.json", r#"{"port": ${V}}"#, "8080").unwrap(), r#"{"port": 8080}"#);
    }

    /// A real shell reads it.
    #[test]
    fn a_value_in_a_script_is_one_value_in_every_position() {
        let place = tempfile::tempdir().unwrap();
        for value in HOSTILE {
            let text = "A=${V}\nB=\"x ${V} y\"\nC='x ${V} y'\n# a comment ${V}\nD=\\\"${V}\nprintf '%s\\0' \"$$A\" \"$$B\" \"$$C\" \"$$D\"\n";
            let script = written("/x/a.sh", text, value).unwrap();
            let ran = std::process::Command::new("sh").args(["-c", &script]).current_dir(&place).output();
            let output = String::from_utf8(ran.unwrap().stdout).unwrap();
            let expected = format!("{value}\0x {value} y\0x {value} y\0\"{value}\0");
            assert_eq!(output, expected, "{script}");
        }
        assert!(!place.path().join("planted").exists());
    }

    #[test]
    fn variable_in_an_ambiguous_quote_is_refused() {
        for text in ["A=$$(echo \"${V}\")", "A=\"$$(echo ${V})\"", "A=`echo ${V}`", "cat <<E\n${V}\nE\n"] {
            assert!(written("a.env", text, "x").unwrap_err().contains("assign it before"), "{text}");
        }
        assert_eq!(written("a.sh", "A='$$('${V}", "x").unwrap(), "A='$(''x'");
        assert_eq!(written("notes.md", "${V}", "a'b").unwrap(), "a'b");
    }
}
