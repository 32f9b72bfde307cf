//! A plain cut of a command line at its separators, for lines that the grammar does not understand. Quotes are
//! respected; nothing else is.

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

/// Signs on which the grammar's reader takes time that grows with their square.
const SLOW: &[char] = &['|', '('];
/// As many of them outside of quotes as anybody needs, and as many in all as can be afforded.
const MAX_SLOW: usize = 400;
const MAX_SLOW_QUOTED: usize = 2000;

/// Whether a line has more pipes and brackets than can be read in reasonable time.
pub(super) fn is_overloaded(source: &str) -> bool {
    let all = source.matches(SLOW).count();
    all > MAX_SLOW_QUOTED || (all > MAX_SLOW && unquoted(source) > MAX_SLOW)
}

/// Slow signs outside of quotes and here-documents.
fn unquoted(source: &str) -> usize {
    let mut count = 0;
    let mut quote = None;
    let mut lines = source.split('\n');
    while let Some(line) = lines.next() {
        let was_open = quote.is_some();
        for letter in line.chars() {
            match (quote, letter) {
                (None, '\'' | '"') => quote = Some(letter),
                (Some(open), letter) if open == letter => quote = None,
                (None, letter) => count += usize::from(SLOW.contains(&letter)),
                _ => {}
            }
        }
        if let Some(marker) = heredoc_marker(line).filter(|_| !was_open) {
            lines.by_ref().find(|line| line.trim() == marker);
            quote = None;
        }
    }
    count
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
    }

    #[test]
    fn quotes_hold_parts_together() {
        assert_eq!(super::parts("a 'x;y' ; b | c && d"), ["a 'x;y'", "b", "c", "d"]);
        assert_eq!(super::parts("one"), Vec::<&str>::new());
    }
}
