//! The files that an instruction file imports: `@docs/style.md`. Agents replace the name with the file's
//! content. Names in code are taken too, though no agent follows them: scanning one more file costs little.

/// One file names no more than these.
const MAX_NAMES: usize = 1000;
/// Punctuation after a name in a sentence.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '"', '\'', '`', '*', '_', '>'];

/// The names after an `@` at the start of a word, each as written and without the punctuation around it. A space in a name
/// has a backslash before it.
pub(super) fn names(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text).replace("\\ ", "\0");
    let words = text.split(char::is_whitespace);
    let named = words.filter_map(|word| {
        word.trim_start_matches(['(', '[', '"', '\'', '`', '*', '_', '<']).strip_prefix('@')
    });
    let mut all = Vec::new();
    for name in named.take(MAX_NAMES) {
        let name = name.replace('\0', " ");
        let bare = name.trim_end_matches(PUNCTUATION).to_owned();
        if bare != name && !bare.is_empty() {
            all.push(bare);
        }
        if !name.is_empty() {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_behind_a_sign() {
        let check = |text: &str, expected: &[&str]| assert_eq!(names(text.as_bytes()), expected, "{text}");
        check("@docs/x.md", &["docs/x.md"]);
        check("See @./a.md, and\n- @../b\n", &["./a.md", "./a.md,", "../b"]);
        check("(@a.md)", &["a.md", "a.md)"]);
        check(r"@my\ notes.md", &["my notes.md"]);
        check("me@example.com @ x", &[]);
    }
}
