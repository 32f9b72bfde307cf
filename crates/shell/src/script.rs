//! A shell command as data: calls with their words, and which of them feed which. Made by `parse`; rules read it.

use std::ops::Range;

/// One word after quotes are taken off and escapes are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// The value. Unknown variables stay as `$NAME`, substitutions as they were written.
    pub(crate) text: String,
    /// Whether the shell inserts something unknown.
    pub(crate) is_dynamic: bool,
    /// Whether letters were written as escapes, as in `$'\x72m'`.
    pub(crate) is_encoded: bool,
    /// The calls whose output becomes part of the word.
    pub(crate) inner: Vec<usize>,
}

impl Word {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Word { text: text.into(), ..Word::default() }
    }
}

/// `> file`, `2>&1`, `< file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) operator: String,
    pub(crate) target: Word,
}

impl Redirect {
    pub(crate) fn writes(&self) -> bool {
        self.operator.contains('>')
    }

    /// `2>&1`: no output is lost.
    pub(crate) fn joins(&self) -> bool {
        self.operator == ">&" && self.target.text.parse::<u8>().is_ok()
    }
}

/// One command with its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: Word,
    pub(crate) arguments: Vec<Word>,
    /// `NAME=value` before the command, or by `export` and similar.
    pub(crate) assignments: Vec<(String, Word)>,
    pub(crate) redirects: Vec<Redirect>,
    /// What a here-document or a here-string feeds it.
    pub(crate) fed: Vec<String>,
    pub(crate) range: Range<usize>,
}

impl Call {
    /// The program's name without its directory.
    pub(crate) fn program(&self) -> &str {
        self.name.text.rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.program())
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(|word| word.text.as_str())
    }

    /// Arguments that are not options. After `--` no argument is an option.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Word> {
        let end = self.arguments.iter().position(|word| word.text == "--").unwrap_or(usize::MAX);
        let is_operand =
            move |(at, word): &(usize, &Word)| *at > end || (*at < end && !word.text.starts_with('-'));
        self.arguments.iter().enumerate().filter(is_operand).map(|(_, word)| word)
    }

    /// Whether a short option is set, alone or in a cluster such as `-rf`.
    pub(crate) fn has_short(&self, letter: char) -> bool {
        self.options().any(|word| !word.starts_with("--") && word[1..].contains(letter))
    }

    pub(crate) fn has_long(&self, name: &str) -> bool {
        self.options()
            .any(|word| word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    }

    fn options(&self) -> impl Iterator<Item = &str> {
        self.words().take_while(|word| *word != "--").filter(|word| word.len() > 1 && word.starts_with('-'))
    }

    /// The value after an option, as the next word or behind `=`.
    pub(crate) fn value_of(&self, names: &[&str]) -> Option<&str> {
        let mut words = self.words();
        while let Some(word) = words.next() {
            if names.contains(&word) {
                return words.next();
            }
            let joined = names.iter().find_map(|name| word.strip_prefix(*name)?.strip_prefix('='));
            if joined.is_some() {
                return joined;
            }
        }
        None
    }
}

/// A whole command line.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) calls: Vec<Call>,
    /// For each pipeline its stages, each the calls that run in it.
    pub(crate) pipelines: Vec<Vec<Range<usize>>>,
    /// Functions that are defined here.
    pub(crate) functions: Vec<(String, Range<usize>)>,
    /// Whether its calls run one after the other, and the last one's status is that of the line.
    pub(crate) is_straight: bool,
    /// Whether a part of the line does not match the grammar.
    pub(crate) has_errors: bool,
    /// Whether parsing stopped because of depth or size.
    pub(crate) is_too_deep: bool,
}
