//! Reads files of variables in `.env.d/`. Plain assignments are parsed here, so that a value is data and not syntax,
//! and written again with quotes that all shells understand. Files that only a shell can read are handled by
//! `shell_variables`.

use crate::harness::provider::is_reserved_for;
use crate::harness::template::{Template, is_variable_name};

/// The values of `${VAR}`.
type Values<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Why a file cannot be read as assignments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvFileError {
    /// Only a shell can read it.
    Logic(String),
    /// Its contents are refused.
    Refused(String),
}

impl std::fmt::Display for EnvFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Logic(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for EnvFileError {}

impl EnvFileError {
    fn in_line(self, number: usize) -> Self {
        let place = |why: String| format!("{why} in line {}", number + 1);
        match self {
            Self::Logic(why) => Self::Logic(place(why)),
            Self::Refused(why) => Self::Refused(place(why)),
        }
    }
}

/// The variables of one file. With `value`, each `${VAR}` in the file is replaced.
pub fn parse(text: &str, value: Option<&Values<'_>>) -> Result<Vec<(String, String)>, EnvFileError> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let assignment = assignment(line, value).map_err(|error| error.in_line(number))?;
        all.push(assignment);
    }
    Ok(all)
}

fn assignment(line: &str, value: Option<&Values<'_>>) -> Result<(String, String), EnvFileError> {
    let logic = |why: &str| EnvFileError::Logic(why.to_owned());
    let assignment = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let (name, raw) = assignment.split_once('=').ok_or_else(|| logic("has no assignment"))?;
    if !is_variable_name(name) {
        return Err(logic("has an invalid variable name"));
    }
    let content = content(raw, value)?;
    check_name(name, &content).map_err(EnvFileError::Refused)?;
    Ok((name.to_owned(), content))
}

/// Whether a file may set the variable.
pub fn check_name(name: &str, value: &str) -> Result<(), String> {
    if is_reserved_for(name, value) { Err(format!("sets `{name}`, which is reserved,")) } else { Ok(()) }
}

/// The value of an assignment: in single quotes as it is, in double quotes with their escapes, or one plain word.
fn content(raw: &str, value: Option<&Values<'_>>) -> Result<String, EnvFileError> {
    let logic = |why: &str| EnvFileError::Logic(why.to_owned());
    let expand = |text: &str| match value {
        None if text.contains('$') => Err(logic("refers to a variable, without `expand: true`,")),
        None => Ok(text.to_owned()),
        Some(value) => Template::parse(text).map_err(|why| logic(&why)).and_then(|template| {
            let unset = |name: &str| EnvFileError::Refused(format!("needs {name}, which is not set,"));
            template.expand(value).map_err(unset)
        }),
    };
    if let Some(inner) = raw.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'').filter(|inner| !inner.contains('\''));
        return inner.map(str::to_owned).ok_or_else(|| logic("has quotes that do not match"));
    }
    let quoted = raw.strip_prefix('"').map(|inner| inner.strip_suffix('"'));
    let (inner, is_quoted) = match quoted {
        Some(None) => return Err(logic("has quotes that do not match")),
        Some(Some(inner)) => (inner, true),
        None => (raw.split(" #").next().unwrap_or(raw).trim_end(), false),
    };
    let runs = |c: char| c == '`' || (is_quoted && c == '"') || (!is_quoted && c.is_whitespace());
    if inner.contains("$(")
        || inner.contains(runs)
        || (!is_quoted && inner.contains(['"', '\'', ';', '&', '|']))
    {
        return Err(logic("is not a plain assignment"));
    }
    expand(inner)
}

/// The same variables as shell text, with all values quoted.
pub fn write(variables: &[(String, String)]) -> String {
    let line =
        |(name, value): &(String, String)| format!("export {name}='{}'\n", value.replace('\'', "'\\''"));
    variables.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, EnvFileError> {
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
    fn env_file_with_shell_logic_differs_from_reserved_variables() {
        let logic = |text: &str, why: &str| match read(text) {
            Err(EnvFileError::Logic(found)) => assert!(found.contains(why), "{text}: {found}"),
            other => panic!("{text}: {other:?}"),
        };
        logic("if [ -e /x ]; then", "no assignment in line 1");
        logic("A=$(id)", "plain");
        logic("A=`id`", "plain");
        logic("A=b; id", "plain");
        logic("A=\"b", "match");
        logic("1A=b", "name");
        logic("A=${B:-c}", "names the variable");
        let refused = |text: &str, why: &str| match read(text) {
            Err(EnvFileError::Refused(found)) => assert!(found.contains(why), "{text}: {found}"),
            other => panic!("{text}: {other:?}"),
        };
        refused("PATH=/x", "reserved, in line 1");
        refused("LD_PRELOAD=/x", "reserved");
        refused("FULLSEND_OUTPUT_DIR=/x", "reserved");
        refused("GIT_SSH_COMMAND=/x", "reserved");
        refused("GIT_SSL_CAINFO=/tmp/mine.pem", "reserved");
        refused("A=${MISSING}", "MISSING");
        assert!(matches!(parse("A=${V}", None), Err(EnvFileError::Logic(_))));
        for ordinary in ["FULLSEND_FORGE=github", "GIT_AUTHOR_NAME=a", "GIT_COMMITTER_EMAIL=a@b"] {
            assert!(read(ordinary).is_ok(), "{ordinary}");
        }
        assert!(read("GIT_SSL_CAINFO=/etc/openshell-tls/ca-bundle.pem").is_ok());
    }
}
