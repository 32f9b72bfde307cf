//! A run on a real terminal: the line at the bottom says what happens now, what matters stays above it, and at the end
//! nothing is left but the outcome.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::support::{Ran, World, example, program};

/// What was ever at the bottom of the screen, and what is left on it.
struct Screen {
    lines: Vec<String>,
    bottom: Vec<String>,
}

/// As much of a terminal as the program uses; any other sequence is a failure.
fn screen(bytes: &str) -> Screen {
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut column = 0;
    let mut bottom = Vec::new();
    let mut letters = bytes.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' => column = 0,
            '\n' => {
                lines.push(line.drain(..).collect::<String>());
                column = 0;
            }
            '\u{1b}' => {
                let sequence: String = [letters.next(), letters.next()].into_iter().flatten().collect();
                assert_eq!(sequence, "[K", "an unknown sequence in {bytes:?}");
                if !line.is_empty() {
                    bottom.push(line.iter().collect());
                }
                line.truncate(column);
            }
            letter => {
                line.truncate(column);
                line.push(letter);
                column += 1;
            }
        }
    }
    lines.push(line.into_iter().collect());
    Screen { lines, bottom }
}

fn on_terminal(world: &World, command: &str) -> (Ran, Screen) {
    let line = format!("stty rows 40 cols 100; exec {} {command}", program().display());
    let words = ["-qec", &line, "/dev/null"].map(OsStr::new);
    let ran = world.run_program(Path::new("/usr/bin/script"), &words);
    let screen = screen(&ran.out);
    (ran, screen)
}

#[test]
fn a_terminal_shows_what_happens_now_and_is_left_clean() {
    let world = example("hello").env("TERM", "xterm-256color");
    // One with a price.
    let harness = fs::read_to_string(world.path("repo/.fullsend/harness/hello.yaml")).unwrap();
    world.write("repo/.fullsend/harness/hello.yaml", format!("{harness}model: claude-sonnet-4-5\n"));
    let (ran, screen) = on_terminal(&world, "run hello");
    assert_eq!(ran.code, 0, "{}", ran.out);
    for (part, why) in [
        ("inputs 0s", "the step and its time"),
        ("Bash sh test.sh", "the tool that runs"),
        (" tokens · ", "tokens"),
        (" · $0.", "cost"),
        (" · 1 refused", "refusals"),
    ] {
        assert!(screen.bottom.iter().any(|line| line.contains(part)), "{why}: {:#?}", screen.bottom);
    }
    assert!(screen.bottom.iter().all(|line| line.chars().count() < 100), "never wider than the terminal");
    let text = screen.lines.join("\n");
    assert!(text.contains("  accepted  attempt 2") && text.contains("  publish"), "{text}");
    let [.., last, rest] = &screen.lines[..] else { panic!("{text}") };
    assert!(last.starts_with("completed: $ROOT") && rest.is_empty(), "{text}");
}

#[test]
fn the_first_real_error_is_the_last_line_of_the_terminal() {
    let world = example("hello").env("TERM", "xterm");
    world.write(
        "repo/.fullsend/schemas/hello.json",
        r#"{"type":"object","required":["fixed","file","cause","reviewer"]}"#,
    );
    let (ran, screen) = on_terminal(&world, "run hello");
    assert_eq!(ran.code, 5, "{}", ran.out);
    let [.., last, rest] = &screen.lines[..] else { panic!("{:?}", screen.lines) };
    assert!(last.starts_with("fullsend: invalid_output") && last.contains("reviewer"), "{last}");
    assert!(rest.is_empty());
}

/// A person who types.
#[test]
fn a_kept_workspace_is_entered_in_a_terminal_of_its_own() {
    let world = example("hello");
    world.write(
        "repo/.fullsend/scenarios/hello.json",
        r#"{"turns":[[{"shell":"echo here > left"}],[{"text":"No."}],[{"text":"No."}]]}"#,
    );
    assert_eq!(world.run(&["run", "hello", "--quiet", "--keep", "on-failure"]).code, 5);
    let shell =
        format!("stty rows 33 cols 99; {} enter latest; echo code \\$?; stty -a", program().display());
    let typed = "tty; stty size; cat repo/left; exit 5\\n";
    let line = format!("(sleep 2; printf '{typed}'; sleep 6) | timeout 60 script -qec \"{shell}\" /dev/null");
    let ran = world.run_program(Path::new("/bin/sh"), &[OsStr::new("-c"), OsStr::new(&line)]);
    let out = ran.out.replace('\r', "");
    for part in ["/dev/pts/0\n", "33 99\n", "here\n", "code 1\n"] {
        assert!(out.contains(part), "{part}: {out} {}", ran.err);
    }
    let after = out.rsplit("code 1").next().unwrap();
    assert!(after.contains(" icanon") && after.contains(" echo "), "the terminal is as it was: {after}");
}
