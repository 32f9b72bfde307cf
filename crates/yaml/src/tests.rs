//! The crate as its users see it: text in, tree, record, schema and text out.

use crate::macros::json;
use crate::{
    Decoder, Diagnostic, Map, Node, ParseLimits, Shape, Sources, Spanned, Value, choice, document, emit,
    parse, ranged, record, text,
};

choice! {
    /// Which way.
    pub enum Mode { Closed = "closed", Open = "open" }
}

ranged! {
    /// A few.
    pub struct Few: 1..=10
}

fn lower(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase())
}

text! {
    /// A name.
    pub struct Name: lower, "^[a-z]+$", "lower-case letters"
}

record! {
    /// An inner record.
    pub struct Inner {
        /// Where from.
        src: Spanned<String>,
        optional: Option<bool>,
    }
}

record! {
    /// The outer record.
    layered pub struct Outer {
        /// The name of it.
        name: Spanned<Name>,
        mode: Option<Mode>,
        few: Option<Spanned<Few>>,
        list: Vec<String>,
        inner: Option<Inner>,
        env: Map<String>,
        kind as "kind-of": Option<String>,
    }
    refuse { "enabled" => "there is no switch" }
}

fn tree(text: &str) -> Result<(Sources, Node), Box<Diagnostic>> {
    let mut sources = Sources::default();
    let id = sources.add("test.yaml", text);
    parse(&sources, id, ParseLimits::default()).map(|node| (sources, node))
}

fn outer(text: &str) -> Result<Outer, Vec<String>> {
    let (sources, node) = tree(text).map_err(|problem| vec![problem.message])?;
    let mut decoder = Decoder::whole();
    let read = Outer::decode(&node, &mut decoder);
    let say = |d: &Diagnostic| format!("{}: {} [{}]", sources.locate(d.at), d.message, d.label);
    if decoder.diagnostics.is_empty() {
        Ok(read.unwrap())
    } else {
        Err(decoder.diagnostics.iter().map(say).collect())
    }
}

#[test]
fn a_record_reads_its_fields() {
    let read = outer(
        "name: abc\nmode: open\nfew: 3\nlist: [a, b]\ninner: {src: x}\nenv: {A: b, C: null}\nkind-of: k\n",
    )
    .unwrap();
    assert_eq!(read.name.as_str(), "abc");
    assert_eq!(read.mode, Some(Mode::Open));
    assert_eq!(read.few.unwrap().get(), 3);
    assert_eq!(read.list, ["a", "b"]);
    assert_eq!(read.inner.unwrap().src.value, "x");
    assert_eq!(read.env.get("A"), Some(&"b".to_owned()));
    assert_eq!(read.env.get("C"), None);
    assert_eq!(read.kind.as_deref(), Some("k"));
}

#[test]
fn every_problem_is_reported_with_its_place() {
    let problems = outer("naem: abc\nmode: opne\nfew: 11\nlist: x\ninner: {}\nenabled: false\n").unwrap_err();
    assert_eq!(
        problems,
        [
            "test.yaml:1:1: unknown key `naem` [did you mean `name`?]",
            "test.yaml:6:1: `enabled` is refused []",
            "test.yaml:1:1: `name` is missing []",
            "test.yaml:2:7: `mode` must be one of closed, open; did you mean `open`? []",
            "test.yaml:3:6: `few` must be between 1 and 10, not 11 []",
            "test.yaml:4:7: `list` must be a list [expected a list, found text]",
            "test.yaml:5:8: `inner.src` is missing []",
        ]
    );
}

#[test]
fn a_layered_record_may_be_filled_by_several_files() {
    let (_, node) = tree("mode: open\n").unwrap();
    let mut part = Decoder::part();
    assert_eq!(Outer::decode(&node, &mut part), None);
    assert!(part.diagnostics.is_empty());
}

#[test]
fn merging_follows_the_kind_of_the_field() {
    let base =
        tree("name: a\nlist: [x, y]\nenv: {A: '1', B: '2'}\ninner: {src: s, optional: true}\n").unwrap().1;
    let overlay =
        tree("name: b\nlist: [y, z]\nenv: {B: null, C: '3'}\ninner: {optional: false}\n").unwrap().1;
    let merged = Outer::merge(base.clone(), overlay);
    let read = Outer::decode(&merged, &mut Decoder::whole()).unwrap();
    assert_eq!(read.name.as_str(), "b");
    assert_eq!(read.list, ["x", "y", "z"]);
    assert_eq!(
        (read.env.get("A").is_some(), read.env.get("B"), read.env.get("C").is_some()),
        (true, None, true)
    );
    let inner = read.inner.unwrap();
    assert_eq!((inner.src.as_str(), inner.optional), ("s", Some(false)));
    assert_eq!(merged.get("name").unwrap().replaced, [base.get("name").unwrap().at]);
}

#[test]
fn what_is_emitted_reads_back_the_same() {
    let text = "a: 'true'\nb: [1, 1.50, '1', null, {}, [], \"x: y # z\", \"line\\nbreak\\u2028\"]\n'k: ': {n: [[a], {b: c}]}\n";
    let (_, node) = tree(text).unwrap();
    let again = tree(&emit(&node, &|_| None)).unwrap().1;
    assert_eq!(plain(&node), plain(&again));
}

#[test]
fn lists_of_maps_are_written_as_people_do() {
    let (_, node) = tree("a: [{b: 1, c: [x, {d: e}]}, [v, [z]], {}]\n").unwrap();
    let text = "a:\n  - b: 1\n    c:\n      - x\n      - d: e\n  - - v\n    - - z\n  - {}\n";
    assert_eq!(emit(&node, &|_| None), text);
}

/// The tree without its places.
fn plain(node: &Node) -> String {
    let mut out = String::new();
    node.each_scalar(&mut |path, scalar| out.push_str(&format!("{path}={:?}\n", scalar.value)));
    out
}

#[test]
fn hostile_documents_get_one_clear_message() {
    let bomb = format!(
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n{}",
        (b'b'..=b'j').map(|c| {
            let name = c as char;
            let before = (c - 1) as char;
            format!("{name}: &{name} [*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before}]\n")
        }).collect::<String>()
    );
    for (text, expected) in [
        ("x".repeat(2 << 20), "the file has 2097152 bytes; at most 1048576 are read"),
        ("[".repeat(10_000), "nested deeper than 64 levels"),
        ("- ".repeat(10_000), "nested deeper than 64 levels"),
        (bomb, "more than 100000 values, counting what aliases repeat"),
        ("a: 1\na: 2\n".to_owned(), "`a` is set twice"),
        ("a: &a [*a]\n".to_owned(), "this alias is inside the value that it names"),
        ("---\na\n---\nb\n".to_owned(), "a second document starts here; a file may contain only one"),
        ("a: !ruby/object x\n".to_owned(), "the tag `!ruby/object` has no meaning here"),
        ("<<: {a: b}\n".to_owned(), "YAML merge keys are not supported"),
        ("? [a]\n: b\n".to_owned(), "a key must be text"),
    ] {
        assert_eq!(tree(&text).unwrap_err().message, expected);
    }
    assert!(tree("a: [").unwrap_err().message.starts_with("this is not valid YAML"));
}

#[test]
fn the_schema_is_made_from_the_declaration() {
    let schema = document::<Outer>("https://example.com/outer", "outer");
    let outer = &schema["$defs"]["Outer"];
    assert_eq!(outer["properties"]["name"]["pattern"], json!("^[a-z]+$"));
    assert_eq!(outer["properties"]["name"]["description"], json!("The name of it."));
    assert_eq!(outer.get("required"), None);
    assert_eq!(schema["$defs"]["Inner"]["required"], json!(["src"]));
    assert_eq!(outer["additionalProperties"], json!(false));
}

#[test]
fn plain_words_are_read_as_yaml_1_2_says() {
    let node = tree("[yes, no, ~, '', 010, 0x1f, 1e3, .5, -7, +, 1_000, 2024-01-01, .inf]").unwrap().1;
    let kinds: String = node
        .items()
        .iter()
        .map(|item| match item.value {
            Value::Text(_) => 't',
            Value::Null => '0',
            Value::Number(_) => 'n',
            _ => '?',
        })
        .collect();
    assert_eq!(kinds, "tt0tnnnnntttt");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        if let Ok((_, node)) = tree(&text) {
            let again = tree(&emit(&node, &|_| None)).expect("what we write we can read");
            proptest::prop_assert_eq!(plain(&node), plain(&again.1));
        }
    }

    #[test]
    fn no_structure_makes_the_reader_panic(text in "[\\[\\]{}:,&*a \\n'\"#?!|>-]{0,80}") {
        if let Ok((_, node)) = tree(&text) {
            Outer::decode(&node, &mut Decoder::whole());
        }
    }
}
