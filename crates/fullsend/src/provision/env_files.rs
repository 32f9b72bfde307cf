//! Reads files of variables in `.env.d/`: plain assignments, and nothing that a shell would run. They are parsed here, so that a
//! value is data and not syntax, and written again with quotes that every shell reads alike.

use crate::harness::provider::is_reserved;
use crate::harness::template::Template;

/// The values of `${VAR}`.
type Values<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What the variables of one file are. With `value`, each `${VAR}` in the file is replaced.
pub fn parse(text: &str, value: Option<&Values<'_>>) -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| format!("{why} in line {}", number + 1);
        let assignment = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let (name, raw) = assignment.split_once('=').ok_or_else(|| wrong("has no assignment"))?;
        let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() || !letters || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(wrong("has an invalid variable name"));
        }
        if is_reserved(name) {
            return Err(wrong(&format!("sets `{name}`, which is reserved,")));
        }
        all.push((name.to_owned(), content(raw, value).map_err(|why| wrong(&why))?));
    }
    Ok(all)
}

/// The value of an assignment: in single quotes as it is, in double quotes with their escapes, or one plain word.
fn content(raw: &str, value: Option<&Values<'_>>) -> Result<String, String> {
    let expand = |text: &str| match value {
        None if text.contains('$') => Err("refers to a variable, without `expand: true`,".to_owned()),
        None => Ok(text.to_owned()),
        Some(value) => Template::parse(text).and_then(|template| {
            template.expand(value).map_err(|name| format!("needs {name}, which is not set,"))
        }),
    };
    if let Some(inner) = raw.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'').filter(|inner| !inner.contains('\''));
        return inner.map(str::to_owned).ok_or_else(|| "has quotes that do not match".to_owned());
    }
    let quoted = raw.strip_prefix('"').map(|inner| inner.strip_suffix('"'));
    let (inner, is_quoted) = match quoted {
        Some(None) => return Err("has quotes that do not match".to_owned()),
        Some(Some(inner)) => (inner, true),
        None => (raw.split(" #").next().unwrap_or(raw).trim_end(), false),
    };
    let runs = |c: char| c == '`' || (is_quoted && c == '"') || (!is_quoted && c.is_whitespace());
    if inner.contains("$(")
        || inner.contains(runs)
        || (!is_quoted && inner.contains(['"', '\'', ';', '&', '|']))
    {
        return Err("is not a plain assignment".to_owned());
    }
    expand(inner)
}

/// The same variables for a shell, whatever is in them.
pub fn write(variables: &[(String, String)]) -> String {
    let line =
        |(name, value): &(String, String)| format!("export {name}='{}'\n", value.replace('\'', "'\\''"));
    variables.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let value = |name: &str| (name == "V").then(|| "a'b \"c\" $(d) `e`".to_owned());
        parse(text, Some(&value))
    }

    #[test]
    fn what_a_variable_holds_is_never_syntax() {
        let one = |value: &str| Ok(vec![("A".to_owned(), value.to_owned())]);
        assert_eq!(read("# x\n\nexport A=1\n"), one("1"));
        assert_eq!(read("A='it is $V'\n"), one("it is $V"));
        assert_eq!(read("A=\"x ${V}\""), one("x a'b \"c\" $(d) `e`"));
        assert_eq!(read("A=${V}"), one("a'b \"c\" $(d) `e`"));
        assert_eq!(read("A=b # why"), one("b"));
        let written = write(&read("A=${V}").unwrap());
        let ran =
            std::process::Command::new("sh").arg("-c").arg(format!("{written}printf %s \"$A\"")).output();
        assert_eq!(String::from_utf8(ran.unwrap().stdout).unwrap(), "a'b \"c\" $(d) `e`");
    }

    #[test]
    fn what_is_no_assignment_is_refused() {
        for (text, why) in [
            ("rm -rf /", "no assignment"),
            ("A=$(id)", "plain"),
            ("A=`id`", "plain"),
            ("A=b; id", "plain"),
            ("A=\"b", "match"),
            ("1A=b", "name"),
            ("PATH=/x", "reserved"),
            ("LD_PRELOAD=/x", "reserved"),
            ("FULLSEND_OUTPUT_DIR=/x", "reserved"),
            ("A=${MISSING}", "MISSING"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why) && error.contains("line 1"), "{text}: {error}");
        }
        assert!(parse("A=${V}", None).unwrap_err().contains("expand"));
    }
}
