//! Splits a command line at its separators, outside of quotes, for lines that the grammar does not match.

const MAX_PARTS: usize = 200;

/// The parts between `;`, `|`, `&`, line ends, brackets and backticks.
pub(super) fn parts(source: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut quote = None;
    let mut start = 0;
    let mut is_escaped = false;
    for (at, letter) in source.char_indices() {
        let was_escaped = is_escaped;
        is_escaped = letter == '\\' && !is_escaped && quote != Some('\'');
        if was_escaped {
            continue;
        }
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, ';' | '|' | '&' | '\n' | '(' | ')' | '{' | '}' | '`') => {
                parts.push(source[start..at].trim());
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(source[start..].trim());
    parts.retain(|part| !part.is_empty() && part.len() < source.len());
    parts.truncate(MAX_PARTS);
    parts
}

/// `{rm,-rf,/}` where a command begins: the shell makes words of it, the grammar an error.
pub(super) fn brace_commands(source: &str) -> impl Iterator<Item = String> {
    let begins = |part: &&str| part.starts_with('{') && !part.contains(char::is_whitespace);
    let words = |part: &str| part.strip_prefix('{')?.strip_suffix('}').map(|inside| inside.replace(',', " "));
    source
        .split([';', '|', '&', '\n'])
        .map(str::trim)
        .filter(begins)
        .filter(|part| part.contains(','))
        .filter_map(words)
}

/// Characters for which the parser needs quadratic time.
const SLOW: &[char] = &['|', '('];
/// The most of them outside of quotes, and in all.
const MAX_SLOW: usize = 400;
const MAX_SLOW_QUOTED: usize = 2000;

/// Bash itself refuses more than sixteen here-documents that begin in one line; the grammar's reader looks for the end
/// of each to the end of the command.
const MAX_DOCUMENTS: usize = 16;

/// Whether a line has more pipes, brackets and here-documents than can be read in reasonable time.
pub(super) fn is_overloaded(source: &str) -> bool {
    let all = source.matches(SLOW).count();
    let documents = source.matches("<<").count();
    if all <= MAX_SLOW && documents <= MAX_DOCUMENTS {
        return false;
    }
    let unquoted = unquoted(source);
    all > MAX_SLOW_QUOTED || unquoted.slow > MAX_SLOW || unquoted.documents > MAX_DOCUMENTS
}

/// The text outside of quotes and here-documents.
#[derive(Default)]
struct UnquotedText {
    slow: usize,
    /// The most that begin in one line.
    documents: usize,
}

fn unquoted(source: &str) -> UnquotedText {
    let mut unquoted = UnquotedText::default();
    let mut quote = None;
    let mut lines = source.split('\n');
    while let Some(line) = lines.next() {
        let was_open = quote.is_some();
        let mut documents = 0;
        let mut before = ' ';
        for letter in line.chars() {
            match (quote, letter) {
                (None, '\'' | '"') => quote = Some(letter),
                (Some(open), letter) if open == letter => quote = None,
                (None, '<') if before == '<' => documents += 1,
                (None, letter) => unquoted.slow += usize::from(SLOW.contains(&letter)),
                _ => {}
            }
            before = letter;
        }
        unquoted.documents = unquoted.documents.max(documents);
        if let Some(marker) = heredoc_marker(line).filter(|_| !was_open) {
            lines.by_ref().find(|line| line.trim() == marker);
            quote = None;
        }
    }
    unquoted
}

fn heredoc_marker(line: &str) -> Option<&str> {
    let after = line.split_once("<<")?.1;
    if after.starts_with('<') {
        return None;
    }
    let word = after.trim_start_matches(['-', ' ']).split([' ', ';', '|', '>', '&', ')']).next()?;
    Some(word.trim_matches(['\'', '"', '\\'])).filter(|marker| !marker.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn tables_in_documents_are_not_pipes() {
        let table = format!("cat <<'EOF' > a.md\n{}EOF\nls", "| a | b |\n".repeat(200));
        assert!(!super::is_overloaded(&table));
        assert!(super::is_overloaded(&"a|".repeat(500)));
        assert!(super::is_overloaded(&format!("echo '{}'", "|".repeat(3000))));
        let program = format!("cat <<'EOF' > a.cc\n{}EOF\n", "std::cout << a << b << c << d;\n".repeat(40));
        assert!(!super::is_overloaded(&program));
        assert!(!super::is_overloaded(&format!("echo '{}'", "a << b ".repeat(40))));
        assert!(super::is_overloaded(&"<<E ".repeat(40)));
    }

    #[test]
    fn quotes_hold_parts_together() {
        assert_eq!(super::parts("a 'x;y' ; b | c && d"), ["a 'x;y'", "b", "c", "d"]);
        assert_eq!(super::parts("one"), Vec::<&str>::new());
    }
}
