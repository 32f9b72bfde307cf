//! No text makes a reader panic or take long: random texts, and real documents with random damage, read as every kind
//! of file that people write, with every message rendered in every way. Failures found are kept in
//! `tests/parsing.regressions`.

use std::fs;
use std::time::Duration;

use fullsend::internal::Config as LayerConfig;
use fullsend::internal::Harness;
use fullsend::internal::diagnostics::{self, Style};
use fullsend::internal::frontmatter::{self, AgentFrontmatter, SkillFrontmatter};
use fullsend::internal::{Profile, Provider};
use fullsend::internal::{github, sarif};
use proptest::prelude::{Just, Strategy, any, prop};
use proptest::prop_oneof;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use yaml::{Decoder, Diagnostic, Node, ParseLimits, Shape, Sources};

/// Far above what one small document takes, also on a busy machine without optimisation.
const DEADLINE: Duration = Duration::from_secs(5);

/// A kind of file: its name, and a reader that gives back what is wrong.
type Reader = fn(&Sources, yaml::SourceId) -> Vec<Diagnostic>;

const READERS: &[(&str, Reader)] = &[
    ("harness", harness),
    ("config", document::<LayerConfig>),
    ("provider", document::<Provider>),
    ("profile", document::<Profile>),
    ("policy", policy),
    ("agent", markdown::<AgentFrontmatter>),
    ("skill", markdown::<SkillFrontmatter>),
];

/// Documents that people wrote, as the beginning of random damage.
const REAL: &[&str] = &[
    include_str!("../crates/fullsend/src/defaults/defaults.yaml"),
    include_str!("../crates/fullsend/src/defaults/policies/default.yaml"),
    include_str!("../crates/fullsend/src/defaults/init/harness.yaml"),
    include_str!("../crates/fullsend/src/defaults/init/agent.md"),
    include_str!("../crates/fullsend/src/defaults/init/provider-anthropic.yaml"),
    include_str!("../examples/hello/.fullsend/harness/hello.yaml"),
    include_str!("../examples/ci/.fullsend/harness/triage.yaml"),
    include_str!("../examples/ci/.fullsend/harness/code.yaml"),
    include_str!("../examples/ci/.fullsend/policies/code-write.yaml"),
    include_str!("../examples/ci/.fullsend/profiles/google-vertex-ai.yaml"),
    "overrides:\n  - {repo: acme/widgets, field: security, reason: a migration, until: 2030-01-01}\nsecurity: {fail_mode: closed}\ncaps: {timeout_minutes: 20}\n",
    "---\nname: review\ndescription: 'Reviews: everything'\nallowed-tools: Bash(gh, jq), Read\nmetadata: {a: [1, {b: c}]}\n---\n# Review\n",
    "a: &a {b: *c}\nc: &c [*a, !!str 1, \"\\u00e9\\x41\", 'it''s', |\n  block\n, >-\n  folded]\n",
];

fn tree(sources: &Sources, id: yaml::SourceId) -> Result<Node, Vec<Diagnostic>> {
    yaml::parse(sources, id, ParseLimits::default()).map_err(|problem| vec![*problem])
}

fn document<T: Shape>(sources: &Sources, id: yaml::SourceId) -> Vec<Diagnostic> {
    tree(sources, id).map_or_else(|problems| problems, |node| decode::<T>(&node))
}

fn decode<T: Shape>(node: &Node) -> Vec<Diagnostic> {
    let mut decoder = Decoder::whole();
    T::decode(node, &mut decoder);
    decoder.diagnostics
}

/// A harness is also merged with itself and with the built-in one, and written out again.
fn harness(sources: &Sources, id: yaml::SourceId) -> Vec<Diagnostic> {
    let node = match tree(sources, id) {
        Ok(node) => node,
        Err(problems) => return problems,
    };
    let merged = Harness::merge(node.clone(), node.clone());
    let mut again = Sources::default();
    let text = yaml::emit(&merged, &|_| None);
    if text.len() <= ParseLimits::default().bytes {
        let written = again.add("written", text);
        assert!(tree(&again, written).is_ok(), "what is written can be read");
    }
    decode::<Harness>(&node)
}

fn policy(sources: &Sources, id: yaml::SourceId) -> Vec<Diagnostic> {
    tree(sources, id)
        .and_then(|node| policy::Policy::from_node(&node))
        .map_or_else(|problems| problems, |parsed| parsed.warnings)
}

fn markdown<T: Shape>(sources: &Sources, id: yaml::SourceId) -> Vec<Diagnostic> {
    let parts = match frontmatter::split(&sources.get(id).text, id) {
        Ok(parts) => parts,
        Err(problem) => return vec![*problem],
    };
    let Some(range) = parts.frontmatter else { return Vec::new() };
    match yaml::parse_part(sources, id, range, ParseLimits::default()) {
        Ok(node) => decode::<T>(&node),
        Err(problem) => vec![*problem],
    }
}

/// How long this thread has run: other tests on the machine do not count.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// Reads the text as every kind of file, and shows what is wrong in every way there is.
fn read_as_everything(text: &str) {
    for (kind, reader) in READERS {
        let started = processor_time();
        let mut sources = Sources::default();
        let id = sources.add("file.yaml", text);
        let problems = reader(&sources, id);
        for problem in problems.iter().take(30) {
            assert!(!problem.message.is_empty());
            for style in [Style::Plain, Style::Coloured] {
                assert!(!diagnostics::human(&sources, problem, style).is_empty());
            }
            diagnostics::json(&sources, problem);
            assert!(!github::annotation(&sources, problem).contains('\n'));
        }
        sarif::log(&sources, &problems);
        let took = processor_time() - started;
        assert!(took < DEADLINE, "{kind} took {took:?}: {text:?}");
    }
}

fn run(strategy: impl Strategy<Value = String>) {
    let kept = crate::support::root().join("tests/parsing.regressions");
    let kept = Box::leak(kept.to_string_lossy().into_owned().into_boxed_str());
    let persistence = FileFailurePersistence::Direct(kept);
    let mut runner =
        TestRunner::new(Config { failure_persistence: Some(Box::new(persistence)), ..Config::default() });
    let outcome = runner.run(&strategy, |text| {
        read_as_everything(&text);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn random_text_is_read_or_refused() {
    run(prop_oneof![".{0,300}", "(?s).{0,100}", "[ -~\\n]{0,300}"]);
}

#[test]
fn random_structure_is_read_or_refused() {
    run("(---\\n)?[\\[\\]{}:,&*ab0 \\n'\"#?!|>%@`~<-]{0,120}(\\n---\\n)?");
}

/// Keys that exist, with values that do not fit.
#[test]
fn known_keys_with_any_value_are_read_or_refused() {
    let keys: Vec<&str> = [
        Harness::KEYS,
        LayerConfig::KEYS,
        Provider::KEYS,
        Profile::KEYS,
        AgentFrontmatter::KEYS,
        SkillFrontmatter::KEYS,
    ]
    .concat();
    let value = prop_oneof![
        ".{0,20}",
        Just("null".to_owned()),
        Just("[[]]".to_owned()),
        Just("{a: {b: {}}}".to_owned()),
        Just("[{name: a, script: b, port: 99999999999999999999}]".to_owned()),
        Just("-1".to_owned()),
        Just("1e400".to_owned()),
        Just("https://a/#sha256=".to_owned()),
        Just("\"${\"".to_owned()),
    ];
    let line = (prop::sample::select(keys), value).prop_map(|(key, value)| format!("{key}: {value}\n"));
    run(prop::collection::vec(line, 0..8).prop_map(|lines| lines.concat()));
}

/// One way to damage a text.
#[derive(Clone, Debug)]
enum Damage {
    Cut(usize, usize),
    Repeat(usize, usize),
    Insert(usize, String),
    Swap(usize, usize),
    Truncate(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let special = prop::sample::select(vec![
        ":",
        "- ",
        "\n",
        "  ",
        "\t",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "!",
        "|",
        ">",
        "'",
        "\"",
        "#",
        "---\n",
        "\u{feff}",
        "\0",
        "é",
        "🦀",
        "\u{2028}",
        "\r",
        "null",
        "<<: ",
        "? ",
        "%YAML 1.1\n",
        "\\",
        "${",
        "\u{7f}",
        "0x",
        "~",
    ]);
    let place = any::<usize>;
    prop_oneof![
        (place(), 0..40_usize).prop_map(|(at, length)| Damage::Cut(at, length)),
        (place(), 0..40_usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
        (place(), special).prop_map(|(at, text)| Damage::Insert(at, text.to_owned())),
        (place(), place()).prop_map(|(one, other)| Damage::Swap(one, other)),
        place().prop_map(Damage::Truncate),
    ]
}

fn damaged(text: &str, damage: &Damage) -> String {
    let at = |place: usize| text.floor_char_boundary(place % (text.len() + 1));
    let upto = |place: usize, length: usize| text.floor_char_boundary((at(place) + length).min(text.len()));
    match damage {
        Damage::Cut(place, length) => format!("{}{}", &text[..at(*place)], &text[upto(*place, *length)..]),
        Damage::Repeat(place, length) => {
            let part = &text[at(*place)..upto(*place, *length)];
            format!("{}{part}{}", &text[..upto(*place, *length)], &text[upto(*place, *length)..])
        }
        Damage::Insert(place, what) => format!("{}{what}{}", &text[..at(*place)], &text[at(*place)..]),
        Damage::Swap(one, other) => {
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            let count = lines.len().max(1);
            if !lines.is_empty() {
                lines.swap(one % count, other % count);
            }
            lines.concat()
        }
        Damage::Truncate(place) => text[..at(*place)].to_owned(),
    }
}

#[test]
fn damaged_documents_are_read_or_refused() {
    let damages = prop::collection::vec(damage(), 1..6);
    run((prop::sample::select(REAL), damages).prop_map(|(text, damages)| {
        damages.iter().fold(text.to_owned(), |text, damage| damaged(&text, damage))
    }));
}

#[test]
fn real_documents_are_whole() {
    for text in REAL {
        read_as_everything(text);
    }
}

/// A megabyte of each of these, which is as much as is read, takes no more than a few seconds without optimisation.
#[test]
fn a_megabyte_of_anything_is_bounded() {
    let megabyte = |unit: &str| unit.repeat((1 << 20) / unit.len());
    let counted = |line: fn(usize) -> String| {
        let mut text = String::new();
        (0..)
            .map(line)
            .take_while(|line| {
                text.push_str(line);
                text.len() < (1 << 20) - 100
            })
            .for_each(drop);
        text
    };
    for text in [
        megabyte("x"),
        megabyte(" "),
        megabyte("\n"),
        megabyte("# comment\n"),
        megabyte("- "),
        megabyte("["),
        megabyte("{"),
        megabyte("a: "),
        megabyte("\"\\u00e9"),
        megabyte("'"),
        megabyte("é\n"),
        megabyte("---\n"),
        megabyte("? "),
        megabyte("&a "),
        megabyte("! "),
        megabyte("|\n "),
        format!("agent: a\nskills:\n{}", megabyte("- a\n")),
        format!("description: >\n{}", megabyte("  x\n\n")),
        format!("x: [{}]", megabyte("a,")),
        counted(|index| format!("key{index}: {index}\n")),
        counted(|index| format!("  k{index}: {{a: {index}}}\n")),
        counted(|index| format!("- &a{index} [a]\n")),
        format!("a: &a [{}]\nb: [{}]", "x,".repeat(400), "*a,".repeat(100_000)),
    ] {
        let text = &text[..text.floor_char_boundary(1 << 20)];
        for (kind, reader) in READERS {
            let started = processor_time();
            let mut sources = Sources::default();
            let id = sources.add("file.yaml", text);
            let problems = reader(&sources, id);
            if let Some(problem) = problems.first() {
                diagnostics::human(&sources, problem, Style::Plain);
            }
            let took = processor_time() - started;
            assert!(took < DEADLINE, "{kind} took {took:?} on {:?}", &text[..text.floor_char_boundary(40)]);
        }
    }
}
