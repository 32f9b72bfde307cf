//! The pictures of README: the demo as a terminal shows it. `UPDATE_DOCS=1 cargo test pictures` draws them again.

use std::fs;

use fullsend::internal::paint;

use crate::readable::repository;
use crate::support::root;
use crate::svg::svg;

/// The first words of the lines that are the same on every machine.
const SHOWN: &[&str] = &[
    "run",
    "finding",
    "says",
    "refused",
    "rejected",
    "retry",
    "accepted",
    "changes",
    "total",
    "completed:",
    "Bash",
    "finish",
];

/// The demo as it is printed, without what differs between machines: times, ids, process ids, paths of programs.
fn demo() -> String {
    let ran = repository().run(&["run", "hello", "--output", "none"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut text = String::from("$ fullsend run hello --repo examples/hello\n");
    let mut is_shown = false;
    for line in ran.err.lines() {
        let word = line.split_whitespace().next().unwrap_or_default();
        let continues = line.starts_with("            ");
        is_shown = if continues { is_shown } else { SHOWN.contains(&word) };
        if is_shown {
            text.push_str(&paint(&same_everywhere(line)));
            text.push('\n');
        }
    }
    text
}

fn same_everywhere(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let is_id = word.len() == 36 && word.matches('-').count() == 4;
        if is_id {
            word[..8].to_owned()
        } else if word.starts_with("$ROOT/state") {
            format!(
                "~/.local/state/fullsend/runs/local/{}",
                &word.rsplit('/').next().unwrap_or_default()[..8]
            )
        } else if word.starts_with('/') && word.contains("/git-remote-http") {
            "/usr/lib/git-core/git-remote-http".to_owned()
        } else {
            word.to_owned()
        }
    });
    // Some machines have one program for both schemes.
    let mut line = words.collect::<Vec<_>>().join(" ").replace("git-remote-https", "git-remote-http");
    if line.starts_with("  total ") && line.ends_with(", 2 attempts") {
        return "  total     2.1 s, $0.01, 4900 tokens, 2 attempts".to_owned();
    }
    for (start, end, instead) in [
        ("(pid ", Some(")"), "7"),
        ("run hello (native) ", None, "01990000"),
        ("runs/local/", None, "01990000"),
    ] {
        let Some(from) = line.find(start).map(|at| at + start.len()) else { continue };
        let length = match end {
            Some(end) => line[from..].find(end).unwrap_or_default(),
            None => line.len() - from,
        };
        line.replace_range(from..from + length, instead);
    }
    line
}

#[test]
fn the_pictures_show_the_demo_as_it_is() {
    let text = demo();
    for (name, columns) in [("demo.svg", 100), ("demo-80.svg", 80)] {
        let drawn = svg(&text, columns);
        let path = root().join("docs/images").join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &drawn).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == drawn,
            "docs/images/{name} is not the demo: UPDATE_DOCS=1 cargo test pictures\n{text}"
        );
    }
}
