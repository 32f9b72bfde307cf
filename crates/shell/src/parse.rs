//! Parses a command line with the bash grammar into a `Script`. Substitutes variables that the command line itself
//! sets. Judges nothing.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use tree_sitter::{Node, ParseOptions, ParseState, Parser};

use crate::script::{Call, Redirect, Script, Word};
use crate::{split, steps, word};

/// The deepest nesting.
const MAX_DEPTH: usize = 100;
/// A longer command is refused.
const MAX_COMMAND: usize = 64 * 1024;
/// How often the parser may report progress. A command that exceeds this was written to be slow.
const MAX_STEPS: usize = 20_000;
/// The largest number of bytes that the parser may read, repeated reads included. For each here-document it reads up to the
/// end of the command.
const MAX_READ: usize = 64 * MAX_COMMAND;
/// The parser reads in chunks of this size, so that the bytes can be counted.
const PIECE: usize = 4096;

pub(crate) fn parse(source: &str) -> Script {
    let mut builder = Builder { source, script: Script::default(), variables: HashMap::new() };
    let Some(tree) = tree(source) else {
        builder.script.is_too_deep = true;
        return builder.script;
    };
    builder.script.has_errors = tree.root_node().has_error();
    builder.script.is_straight = is_straight(tree.root_node());
    builder.visit(tree.root_node(), 0);
    builder.script
}

fn tree(source: &str) -> Option<tree_sitter::Tree> {
    if source.len() > MAX_COMMAND || split::is_overloaded(source) {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).expect("the grammar fits the library");
    let mut asked = 0;
    let read = Cell::new(0);
    let mut watch = |_: &ParseState| {
        asked += 1;
        let goes_on = asked <= MAX_STEPS && read.get() <= MAX_READ;
        if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let bytes = source.as_bytes();
    let mut piece = |at: usize, _| {
        let rest = bytes.get(at..).unwrap_or_default();
        let piece = &rest[..rest.len().min(PIECE)];
        read.set(read.get() + piece.len());
        steps::count(piece.len());
        piece
    };
    parser.parse_with_options(&mut piece, None, Some(ParseOptions::new().progress_callback(&mut watch)))
}

/// Whether statements follow each other, at most with `&&` between them: nothing negated, in the background, in an
/// alternative or in a block.
fn is_straight(node: Node<'_>) -> bool {
    // `a && b && c` is a nested list; the depth is bounded.
    const MAX_LISTS: usize = 16;
    let mut open = vec![node];
    for _ in 0..MAX_LISTS {
        let Some(node) = open.pop() else { return true };
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                // In the grammar, a redirection at the end contains the whole line.
                "list" | "redirected_statement" => open.push(child),
                "command" | "variable_assignment" | "comment" | "file_redirect" => {}
                "&&" | ";" | "\n" => {}
                _ => return false,
            }
        }
    }
    open.is_empty()
}

pub(super) struct Builder<'s> {
    pub(super) source: &'s str,
    pub(super) script: Script,
    /// Variables that this command line has set.
    pub(super) variables: HashMap<String, String>,
}

impl<'s> Builder<'s> {
    pub(super) fn text(&self, node: Node<'_>) -> &'s str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }

    /// Visits a node and returns the calls that it added.
    pub(super) fn visit(&mut self, node: Node<'_>, depth: usize) -> Range<usize> {
        let first = self.script.calls.len();
        if depth > MAX_DEPTH {
            self.script.is_too_deep = true;
            return first..first;
        }
        match node.kind() {
            "pipeline" => self.pipeline(node, depth),
            "redirected_statement" => self.redirected(node, depth),
            "command" => self.command(node, depth),
            "declaration_command" | "unset_command" => self.declaration(node, depth),
            "variable_assignment" => {
                self.assignment(node, depth);
            }
            "function_definition" => {
                let name = node.child_by_field_name("name").map(|name| self.text(name).to_owned());
                let body = self.children(node, depth);
                self.script.functions.extend(name.map(|name| (name, body)));
            }
            _ => {
                self.children(node, depth);
            }
        }
        first..self.script.calls.len()
    }

    fn children(&mut self, node: Node<'_>, depth: usize) -> Range<usize> {
        let first = self.script.calls.len();
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.visit(child, depth + 1);
        }
        first..self.script.calls.len()
    }

    fn pipeline(&mut self, node: Node<'_>, depth: usize) {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let stages = children.into_iter().map(|child| self.visit(child, depth + 1)).collect();
        self.script.pipelines.push(stages);
    }

    fn redirected(&mut self, node: Node<'_>, depth: usize) {
        let body = match node.child_by_field_name("body") {
            Some(body) => self.visit(body, depth + 1),
            None => self.script.calls.len()..self.script.calls.len(),
        };
        let mut cursor = node.walk();
        let redirects: Vec<Node<'_>> = node.children_by_field_name("redirect", &mut cursor).collect();
        for redirect in redirects {
            self.redirect(redirect, &body, depth);
        }
    }

    /// Adds a redirection to the calls of `body`.
    fn redirect(&mut self, node: Node<'_>, body: &Range<usize>, depth: usize) {
        match node.kind() {
            "file_redirect" => {
                let operator = self.operator(node);
                let target =
                    node.child_by_field_name("destination").map(|target| read_word(self, target, depth + 1));
                for call in &mut self.script.calls[body.clone()] {
                    call.redirects
                        .extend(target.clone().map(|target| Redirect { operator: operator.clone(), target }));
                }
            }
            "herestring_redirect" => {
                let mut cursor = node.walk();
                let fed: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                for child in fed {
                    let fed = read_word(self, child, depth + 1).text;
                    self.feed(body, &fed);
                }
            }
            "heredoc_redirect" => self.heredoc(node, body, depth),
            _ => {
                self.children(node, depth);
            }
        }
    }

    /// In the grammar, whatever follows the marker on its line (`<<EOF | sh`, `<<EOF > file`) is a child of the here-document.
    fn heredoc(&mut self, node: Node<'_>, body: &Range<usize>, depth: usize) {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "heredoc_body" => {
                    let fed = self.text(child).to_owned();
                    self.feed(body, &fed);
                    self.children(child, depth);
                }
                "heredoc_start" | "heredoc_end" => {}
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    self.redirect(child, body, depth + 1);
                }
                _ => {
                    let next = self.visit(child, depth + 1);
                    self.script.pipelines.push(vec![body.clone(), next]);
                }
            }
        }
    }

    fn feed(&mut self, body: &Range<usize>, text: &str) {
        for call in &mut self.script.calls[body.clone()] {
            call.fed.push(text.to_owned());
        }
    }

    fn operator(&self, node: Node<'_>) -> String {
        let mut cursor = node.walk();
        let sign = node
            .children(&mut cursor)
            .find(|child| !child.is_named())
            .map(|child| self.text(child).to_owned());
        sign.unwrap_or_else(|| ">".to_owned())
    }

    fn command(&mut self, node: Node<'_>, depth: usize) {
        let mut call = Call { range: node.byte_range(), ..Call::default() };
        let mut pending = Vec::new();
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "command_name" => call.name = read_word(self, child, depth + 1),
                "variable_assignment" => call.assignments.extend(self.assignment(child, depth)),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => pending.push(child),
                _ => call.arguments.push(read_word(self, child, depth + 1)),
            }
        }
        self.script.calls.push(call);
        let own = self.script.calls.len() - 1..self.script.calls.len();
        for redirect in pending {
            self.redirect(redirect, &own, depth);
        }
    }

    /// `export`, `declare`, `local`, `readonly`, `unset`.
    fn declaration(&mut self, node: Node<'_>, depth: usize) {
        let name = self.text(node).split_whitespace().next().unwrap_or_default();
        let mut call = Call { name: Word::plain(name), range: node.byte_range(), ..Call::default() };
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "variable_assignment" => call.assignments.extend(self.assignment(child, depth)),
                _ => call.arguments.push(read_word(self, child, depth + 1)),
            }
        }
        self.script.calls.push(call);
    }

    fn assignment(&mut self, node: Node<'_>, depth: usize) -> Option<(String, Word)> {
        let name = self.text(node.child_by_field_name("name")?).to_owned();
        let value = node
            .child_by_field_name("value")
            .map(|value| read_word(self, value, depth + 1))
            .unwrap_or_default();
        if value.is_dynamic {
            self.variables.remove(&name);
        } else {
            self.variables.insert(name.clone(), value.text.clone());
        }
        Some((name, value))
    }
}

/// The value of a word's node; commands inside it are added to the script.
fn read_word(builder: &mut Builder<'_>, node: Node<'_>, depth: usize) -> Word {
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
            word.text = word::unescape(builder.text(node), |_| true);
        }
        "raw_string" => word.text = builder.text(node).trim_matches('\'').to_owned(),
        "ansi_c_string" => word::ansi_c(builder.text(node), &mut word),
        "string" | "translated_string" => quoted(builder, node, depth, &mut word),
        "string_content" | "heredoc_content" => {
            word.text =
                word::unescape(builder.text(node), |letter| matches!(letter, '"' | '$' | '`' | '\\' | '\n'));
        }
        "command_name" | "concatenation" => joined(builder, node, depth, &mut word),
        "simple_expansion" | "expansion" => expansion(builder, node, depth, &mut word),
        "command_substitution" | "process_substitution" => {
            let inner = builder.children(node, depth);
            word.inner.extend(inner);
            word.is_dynamic = true;
            word.text = builder.text(node).to_owned();
        }
        _ => {
            let inner = builder.children(node, depth);
            word.inner.extend(inner);
            word.is_dynamic = node.kind() != "brace_expression";
            word.text = builder.text(node).to_owned();
        }
    }
    word
}

fn joined(builder: &mut Builder<'_>, node: Node<'_>, depth: usize, word: &mut Word) {
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        word::add(word, read_word(builder, child, depth + 1));
    }
}

/// Between double quotes the grammar has no nodes for blanks, so they are taken from the text.
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
            word::add(word, read_word(builder, child, depth + 1));
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
