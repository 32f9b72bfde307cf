//! Pairs of policies from a file of cases: whether the first is a subset of the second, and if not, which place is
//! reported. After an intended change, copy what the test wrote.

use std::fs;
use std::path::Path;

use policy::model::Policy;
use policy::subset;
use yaml::{SourceId, Sources, Span};

fn read(sources: &Sources, id: SourceId, case: &str) -> Policy {
    let parsed = Policy::parse(sources, id);
    let problems =
        parsed.as_ref().err().map(|all| all.iter().map(|one| one.message.clone()).collect::<Vec<_>>());
    parsed.unwrap_or_else(|_| panic!("{case}: {problems:?}")).policy
}

fn outcome(case: &str, inner: &str, outer: &str) -> String {
    let mut sources = Sources::default();
    let below = sources.add("inner", inner);
    let above = sources.add("outer", outer);
    let place = |at: Span| {
        let place = sources.locate(at);
        format!("{}:{}:{}", place.name, place.line, place.column)
    };
    match subset(&read(&sources, below, case), &read(&sources, above, case)) {
        Ok(confined) => {
            let endpoints = confined.networks.iter().flat_map(|network| &network.endpoints);
            let held = endpoints.filter(|endpoint| endpoint.public_only).count();
            if held == 0 { "within\n".to_owned() } else { "within, held to public addresses\n".to_owned() }
        }
        Err(widening) => {
            let limit = widening.limit.map_or(String::new(), |at| format!(" ({})", place(at)));
            format!("{}{limit}: {}\n", place(widening.at), widening.message)
        }
    }
}

#[test]
fn pairs_are_compared_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let expected = fs::read_to_string(root.join("tests/data/policy/subsets.txt")).unwrap();
    let mut found = String::new();
    for block in expected.split("==== ").skip(1) {
        let (head, rest) = block.split_once('\n').unwrap();
        let (inner, rest) = rest.split_once(">>>>\n").unwrap();
        let (outer, _) = rest.split_once("----\n").unwrap();
        found.push_str(&format!("==== {head}\n{inner}>>>>\n{outer}----\n{}", outcome(head, inner, outer)));
    }
    if found != expected {
        let written = root.join("target/subsets.txt");
        fs::create_dir_all(written.parent().unwrap()).unwrap();
        fs::write(&written, &found).unwrap();
        let differing = found.lines().zip(expected.lines()).find(|(new, old)| new != old);
        panic!("first difference: {differing:?}; all of it is in {}", written.display());
    }
}
