//! The scanners, the redactor and the whole program (`fullsend scan input`, if it is built) against ripgrep and, where they
//! are on the PATH, kingfisher and gitleaks, on 100 MB of source text, in seconds of the processor, so that a busy machine
//! does not matter; and how the time of each family grows on input made to be slow.
//!
//!     FULLSEND_BENCH_SOURCE=DIR cargo bench -p scan --bench scan [-- speed|growth]
//!
//! The source is every text file below DIR, repeated until there are 100 MB; this repository if none is named.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

mod worst;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use redact::{Canary, Redactor};
use scan::{Origin, Scanner, Toggles};
use shell::shorten;

const TOTAL: usize = 100_000_000;
const FILE: usize = 1_000_000;
const ROUNDS: usize = 3;
/// A peer that takes longer is measured once.
const LONG: Duration = Duration::from_secs(5);

/// What a person would search for: four shapes of credentials, each with a prefix that ripgrep can look for.
const PREFIXES: [&str; 4] = [
    r"ghp_[A-Za-z0-9]{36}",
    r"AKIA[0-9A-Z]{16}",
    r"xox[baprs]-[A-Za-z0-9-]{10,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
];

/// The same with assignments, for which case does not count: as in our own rules.
const ASSIGNMENTS: [&str; 4] = [
    PREFIXES[0],
    PREFIXES[1],
    PREFIXES[3],
    r#"(?i)(?:password|passwd|secret|token|api_?key)["']?\s*[:=]\s*["']?[A-Za-z0-9+/=_-]{8,}"#,
];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|word| word == part);
    if wanted("speed") {
        speeds();
    }
    if wanted("growth") {
        growth();
    }
}

fn speeds() {
    let place = tempfile::tempdir().unwrap();
    let files = lay_out(place.path());
    println!("name ours_MB/s peer_MB/s ratio");
    let scan = |scanner: &Scanner| {
        best(|| files.iter().map(|file| scanner.scan(fs::read(file).unwrap(), Origin::Tool).len()).sum())
    };
    let ours = scan(&Scanner::default());
    let masking = Redactor::new();
    let masked =
        best(|| files.iter().map(|file| masking.redact(&fs::read_to_string(file).unwrap()).len()).sum());
    // The whole host pipeline, as a person starts it.
    let pipeline = program(&beside("fullsend"), |command| {
        command.args(["scan", "input", "--origin", "tool", "--format", "json"]).args(&files);
    });
    if pipeline.is_none() {
        println!("pipeline - - - (needs the program: cargo build --release -p fullsend)");
    }
    for (name, peer) in peers(place.path()) {
        let ours = [Some(("scan", ours)), Some(("mask", masked)), pipeline.map(|time| ("pipeline", time))];
        for (what, time) in ours.into_iter().flatten() {
            match peer {
                Some(peer) => println!(
                    "{what}-vs-{name} {:.0} {:.0} {:.2}",
                    speed(time),
                    speed(peer),
                    peer.as_secs_f64() / time.as_secs_f64()
                ),
                None => println!("{what}-vs-{name} {:.0} - - (not on the PATH)", speed(time)),
            }
        }
    }
    for (family, _) in worst::TEXTS {
        println!("{family}-alone {:.0} - -", speed(scan(&only(family))));
    }
}

fn peers(source: &Path) -> Vec<(&'static str, Option<Duration>)> {
    let rg = |regexes: &[&str; 4]| {
        program("rg", |command| {
            command.args(["-j1", "-c", "--no-messages", "--no-ignore"]);
            command.args(regexes.iter().flat_map(|regex| ["-e", regex])).arg(source);
        })
    };
    let kingfisher = program("kingfisher", |command| {
        command.args(["scan", "--no-validate", "--no-update-check", "--jobs", "1", "--git-history", "none"]);
        command.arg(source);
    });
    let gitleaks = program("gitleaks", |command| {
        command.args(["detect", "--no-git", "--no-banner", "--exit-code", "0", "--source"]).arg(source);
        command.env("GOMAXPROCS", "1");
    });
    vec![
        ("ripgrep", rg(&PREFIXES)),
        ("ripgrep-with-assignments", rg(&ASSIGNMENTS)),
        ("kingfisher", kingfisher),
        ("gitleaks", gitleaks),
    ]
}

/// Our own program, where a build of the same kind puts it.
fn beside(name: &str) -> String {
    let bench = std::env::current_exe().unwrap();
    bench.parent().and_then(Path::parent).unwrap().join(name).display().to_string()
}

fn only(family: &str) -> Scanner {
    Scanner::new(Toggles::NONE.switched(family, true).unwrap())
}

fn speed(time: Duration) -> f64 {
    TOTAL as f64 / 1e6 / time.as_secs_f64()
}

/// The first round pays for the automata.
fn best(work: impl Fn() -> usize) -> Duration {
    (0..ROUNDS).map(|_| once(&work)).min().unwrap()
}

fn once(work: impl Fn() -> usize) -> Duration {
    let (started, _) = used();
    std::hint::black_box(work());
    (used().0 - started).max(TICK)
}

/// As the kernel counts.
const TICK: Duration = Duration::from_millis(10);

/// What this process and the programs that it ran have used of the processor.
fn used() -> (Duration, Duration) {
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |at: usize| TICK * fields[at].parse::<u32>().unwrap();
    (ticks(11) + ticks(12), ticks(13) + ticks(14))
}

/// The best time of a program, if it is there.
fn program(name: &str, arguments: impl Fn(&mut Command)) -> Option<Duration> {
    let run = || {
        let mut command = Command::new(name);
        arguments(&mut command);
        let (_, started) = used();
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).status().ok()?;
        Some((used().1 - started).max(TICK))
    };
    let first = run()?;
    if first > LONG {
        return Some(first);
    }
    (1..ROUNDS).filter_map(|_| run()).chain([first]).min()
}

/// Files of one megabyte, 100 MB in all, from the source's own text.
fn lay_out(into: &Path) -> Vec<PathBuf> {
    let source = std::env::var_os("FULLSEND_BENCH_SOURCE").map(PathBuf::from);
    let source = source.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let mut text = String::new();
    collect(&source, &mut text);
    assert!(!text.is_empty(), "{} has no text", source.display());
    let text = text.repeat(TOTAL.div_ceil(text.len()) + 1);
    let mut at = 0;
    (0..TOTAL / FILE)
        .map(|number| {
            let path = into.join(format!("{number}.txt"));
            let end = text.ceil_char_boundary(at + FILE);
            fs::write(&path, &text[at..end]).unwrap();
            at = end;
            path
        })
        .collect()
}

fn collect(directory: &Path, text: &mut String) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    entries.sort();
    for path in entries {
        if text.len() >= TOTAL || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            let name = path.file_name().unwrap_or_default();
            if name != ".git" && name != "target" {
                collect(&path, text);
            }
        } else if let Ok(more) = fs::read_to_string(&path)
            // ripgrep treats a file with a zero byte as binary and stops reading.
            && !more.contains('\0')
        {
            text.push_str(&more);
        }
    }
}

/// How the time grows with the size. The last column is the exponent from the first size to the last: 1 is linear.
fn growth() {
    const MEGABYTES: [usize; 4] = [1_000_000, 2_000_000, 5_000_000, 10_000_000];
    println!("worst-case ms_1MB ms_2MB ms_5MB ms_10MB exponent MB/s");
    for (family, shapes) in worst::TEXTS {
        let scanner = only(family);
        for (name, piece) in *shapes {
            curve(family, name, piece, MEGABYTES, &|text| scanner.scan(text, Origin::Web).len());
        }
    }
    let redactor = Redactor::with_known([("it", "a-known-value-of-this-run")]).unwrap();
    for (name, piece) in worst::MASKED {
        curve("redact", name, piece, MEGABYTES, &|text| redactor.redact(text).len());
        curve("redact_json", name, piece, MEGABYTES, &|text| redactor.redact_json(text).len());
    }
    let canary = Canary::new("fsC7k2Qx9mVt4Lz8Rb1Nw6Hp3Y").unwrap();
    for (name, piece) in worst::WATCHED {
        curve("canary", name, piece, MEGABYTES, &|text| canary.findings(text).len());
    }
    for (name, piece) in worst::LOGS {
        let length = |text: &str| shorten("cargo test", text, Some(true)).map_or(0, |short| short.len());
        curve("suppress", name, piece, MEGABYTES, &length);
    }
    println!("worst-case ms_8KiB ms_16KiB ms_32KiB ms_64KiB exponent MB/s");
    for (name, piece) in worst::COMMANDS {
        let sizes = [8 << 10, 16 << 10, 32 << 10, 64 << 10];
        curve("commands", name, piece, sizes, &|text| shell::scan_command(text).len());
    }
}

/// Short texts are read often enough for the kernel's clock.
fn curve(family: &str, name: &str, piece: &str, sizes: [usize; 4], work: &dyn Fn(&str) -> usize) {
    const LEAST: Duration = Duration::from_millis(50);
    let milliseconds = sizes.map(|size| {
        let text = piece.repeat(size / piece.len());
        let mut rounds = 1;
        loop {
            let time = once(|| (0..rounds).map(|_| work(&text)).sum());
            if time >= LEAST {
                return time.as_secs_f64() * 1e3 / f64::from(rounds);
            }
            rounds *= 4;
        }
    });
    let [first, second, third, last] = milliseconds;
    let exponent = (last / first).ln() / (sizes[3] as f64 / sizes[0] as f64).ln();
    println!(
        "{family}/{} {first:.2} {second:.2} {third:.2} {last:.2} {exponent:.2} {:.0}",
        name.replace(' ', "-"),
        sizes[3] as f64 / 1e3 / last
    );
}
