//! Reads one word of a command line: takes quotes off, reads escapes, puts in the variables that are known.

use tree_sitter::Node;

use super::parse::Builder;
use super::script::Word;

const MAX_DEPTH: usize = 100;

/// The value of a word's node; commands inside it are added to the script.
pub(super) fn read(builder: &mut Builder<'_>, node: Node<'_>, depth: usize) -> Word {
    let mut word = Word::default();
    if depth > MAX_DEPTH {
        builder.script.is_too_deep = true;
        word.is_dynamic = true;
        return word;
    }
    match node.kind() {
        "word"
        | "number"
        | "test_operator"
        | "file_descriptor"
        | "variable_name"
        | "special_variable_name" => {
            word.text = unescape(builder.text(node), |_| true);
        }
        "raw_string" => word.text = builder.text(node).trim_matches('\'').to_owned(),
        "ansi_c_string" => ansi_c(builder.text(node), &mut word),
        "string" | "translated_string" => quoted(builder, node, depth, &mut word),
        "string_content" | "heredoc_content" => {
            word.text =
                unescape(builder.text(node), |letter| matches!(letter, '"' | '$' | '`' | '\\' | '\n'));
        }
        "command_name" | "concatenation" => joined(builder, node, depth, &mut word),
        "simple_expansion" | "expansion" => expansion(builder, node, depth, &mut word),
        "command_substitution" | "process_substitution" => {
            let inner = builder.visit_inside(node, depth);
            word.inner.extend(inner);
            word.is_dynamic = true;
            word.text = builder.text(node).to_owned();
        }
        _ => {
            let inner = builder.visit_inside(node, depth);
            word.inner.extend(inner);
            word.is_dynamic = node.kind() != "brace_expression";
            word.text = builder.text(node).to_owned();
        }
    }
    word
}

impl Builder<'_> {
    fn visit_inside(&mut self, node: Node<'_>, depth: usize) -> std::ops::Range<usize> {
        let first = self.script.calls.len();
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.visit(child, depth + 1);
        }
        first..self.script.calls.len()
    }
}

fn add(word: &mut Word, part: Word) {
    word.text.push_str(&part.text);
    word.is_dynamic |= part.is_dynamic;
    word.is_encoded |= part.is_encoded;
    word.inner.extend(part.inner);
}

fn joined(builder: &mut Builder<'_>, node: Node<'_>, depth: usize, word: &mut Word) {
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        add(word, read(builder, child, depth + 1));
    }
}

/// Between double quotes the grammar leaves blanks between its nodes out; they are taken from the text.
fn quoted(builder: &mut Builder<'_>, node: Node<'_>, depth: usize, word: &mut Word) {
    let source = builder.source;
    let opening = source[node.byte_range()].find('"').unwrap_or(0);
    let mut at = node.start_byte() + opening + 1;
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor) {
        word.text.push_str(source.get(at..child.start_byte()).unwrap_or_default());
        at = child.end_byte();
        if child.kind() == "string" {
            quoted(builder, child, depth + 1, word);
        } else {
            add(word, read(builder, child, depth + 1));
        }
    }
    let end = node.end_byte().saturating_sub(1);
    word.text.push_str(source.get(at..end).unwrap_or_default());
}

/// `$NAME` and `${NAME…}`. A default such as `${TMPDIR:-/tmp}` leaves the name standing.
fn expansion(builder: &mut Builder<'_>, node: Node<'_>, depth: usize, word: &mut Word) {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
    let is_name = |child: &&Node<'_>| matches!(child.kind(), "variable_name" | "special_variable_name");
    let name = children.iter().find(is_name).map(|child| builder.text(*child).to_owned()).unwrap_or_default();
    for child in children.iter().filter(|child| !is_name(child)) {
        let inner = builder.visit(*child, depth + 1);
        word.inner.extend(inner);
    }
    let is_whole = children.len() == 1 && !builder.text(node).contains(['#', '%', '^', ',', '!', '[']);
    match builder.variables.get(&name) {
        Some(value) if is_whole => word.text = value.clone(),
        _ => {
            word.text = format!("${name}");
            word.is_dynamic = true;
        }
    }
}

fn unescape(text: &str, is_escapable: fn(char) -> bool) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, letters.clone().next()) {
            ('\\', Some(next)) if is_escapable(next) => {
                letters.next();
                plain.extend((next != '\n').then_some(next));
            }
            _ => plain.push(letter),
        }
    }
    plain
}

/// `$'…'`: escapes for line ends are usual; escapes for letters hide them.
fn ansi_c(text: &str, word: &mut Word) {
    // Only one quote at each end is not part of the word: `$'\''` is a quote.
    let inside = text.strip_prefix("$'").unwrap_or(text);
    let inside = inside.strip_suffix('\'').unwrap_or(inside);
    let mut letters = inside.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            word.text.push(letter);
            continue;
        }
        let Some(kind) = letters.next() else { break };
        let (radix, digits) = match kind {
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => (8, 2),
            _ => {
                word.text.push(match kind {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'e' | 'E' => '\u{1b}',
                    'a' => '\u{7}',
                    other => other,
                });
                continue;
            }
        };
        let mut code = if radix == 8 { kind.to_digit(8).unwrap_or(0) } else { 0 };
        for _ in 0..digits {
            let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(radix)) else { break };
            code = code.saturating_mul(radix).saturating_add(digit);
            letters.next();
        }
        let decoded = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        word.is_encoded |= decoded.is_ascii_graphic();
        word.text.push(decoded);
    }
}
