//! No text makes the reader panic, and it answers within bounds.

use std::time::{Duration, Instant};

use policy::{Policy, subset};
use proptest::prelude::{Strategy, prop, prop_assert};
use yaml::Sources;

use crate::generate::spec;

fn read(text: &str) -> Option<Policy> {
    let mut sources = Sources::default();
    let id = sources.add("random.yaml", text);
    Policy::parse(&sources, id).ok().map(|parsed| parsed.policy)
}

/// A good policy with a few characters replaced, removed or doubled.
fn damaged() -> impl Strategy<Value = String> {
    let damage = (
        0..4096usize,
        0..3usize,
        prop::sample::select(vec!['*', '{', '[', '\'', ':', '-', '.', '/', '0', 'x', '\n', '~', '%']),
    );
    (spec(), prop::collection::vec(damage, 1..6)).prop_map(|(spec, damages)| {
        let mut characters: Vec<char> = spec.text().chars().collect();
        for (at, kind, character) in damages {
            let at = at % characters.len();
            match kind {
                0 => characters[at] = character,
                1 => characters.insert(at, character),
                _ => drop(characters.remove(at)),
            }
        }
        characters.into_iter().collect()
    })
}

proptest::proptest! {
    #![proptest_config(crate::config(256, "text"))]

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        read(&text);
    }

    #[test]
    fn no_damage_makes_the_reader_panic(text in damaged()) {
        if let Some(policy) = read(&text) {
            let within = subset(&policy, &policy);
            prop_assert!(within.is_ok() || text.contains('['));
        }
    }
}

#[test]
fn the_worst_files_are_read_within_bounds() {
    let start = Instant::now();
    let hosts: Vec<String> =
        (0..900).map(|index| format!("{{host: '*.h{index}.*.test.example', port: 1}}")).collect();
    let globs = format!(
        "version: 1\nnetwork_policies: {{n: {{binaries: [{{path: /a}}], endpoints: [{}]}}}}\n",
        hosts.join(", ")
    );
    assert!(read(&globs).is_none(), "patterns that cross each other in so many ways are refused");
    let paths: Vec<String> = (0..200)
        .map(|index| format!("{{host: a.test, port: 1, protocol: rest, access: full, enforcement: enforce, path: '/*a*b*c*{index}/**/x/**'}}"))
        .collect();
    let scopes = format!(
        "version: 1\nnetwork_policies: {{n: {{binaries: [{{path: /a}}], endpoints: [{}]}}}}\n",
        paths.join(", ")
    );
    read(&scopes);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
