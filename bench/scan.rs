//! The scanners against ripgrep and, where they are on the PATH, kingfisher and gitleaks, on 100 MB of source text, in
//! seconds of the processor, so that a busy machine does not matter; and how the time of each family grows on input made to be slow.
//!
//!     FULLSEND_BENCH_SOURCE=DIR cargo bench -p scan --bench scan
//!
//! The source is every text file below DIR, repeated until there are 100 MB; this repository if none is named.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use scan::{Origin, Redactor, Scanner, Toggles};

const TOTAL: usize = 100_000_000;
const FILE: usize = 1_000_000;
const ROUNDS: usize = 3;

/// What a person would search for: four shapes of credentials.
const REGEXES: [&str; 4] = [
    r"ghp_[A-Za-z0-9]{36}",
    r"AKIA[0-9A-Z]{16}",
    r"xox[baprs]-[A-Za-z0-9-]{10,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
];

fn main() {
    let place = tempfile::tempdir().unwrap();
    let files = lay_out(place.path());
    println!("name ours_MB/s peer_MB/s ratio");
    let scanner = Scanner::default();
    let ours =
        best(|| files.iter().map(|file| scanner.scan(fs::read(file).unwrap(), Origin::Tool).len()).sum());
    let masking = Redactor::new();
    let masked =
        best(|| files.iter().map(|file| masking.redact(&fs::read_to_string(file).unwrap()).len()).sum());
    let rg = program("rg", |command| {
        command.args(["-j1", "-c", "--no-messages", "--no-ignore"]);
        command.args(REGEXES.iter().flat_map(|regex| ["-e", regex])).arg(place.path());
    });
    let kingfisher = program("kingfisher", |command| {
        command.args(["scan", "--no-validate", "--jobs", "1", "--git-history", "none"]).arg(place.path());
    });
    let gitleaks = program("gitleaks", |command| {
        command.args(["detect", "--no-git", "--no-banner", "--exit-code", "0", "--source"]).arg(place.path());
        command.env("GOMAXPROCS", "1");
    });
    for (name, peer) in [("ripgrep", rg), ("kingfisher", kingfisher), ("gitleaks", gitleaks)] {
        for (what, time) in [("scan", ours), ("mask", masked)] {
            match peer {
                Some(peer) => println!(
                    "{what}-vs-{name} {:.0} {:.0} {:.2}",
                    speed(time),
                    speed(peer),
                    peer.as_secs_f64() / time.as_secs_f64()
                ),
                None => println!("{what}-vs-{name} {:.0} - - ({name} is not on the PATH)", speed(time)),
            }
        }
    }
    growth();
}

fn speed(time: Duration) -> f64 {
    TOTAL as f64 / 1e6 / time.as_secs_f64()
}

fn best(work: impl Fn() -> usize) -> Duration {
    let once = || {
        let (started, _) = used();
        std::hint::black_box(work());
        used().0 - started
    };
    (0..ROUNDS).map(|_| once()).min().unwrap().max(TICK)
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
    (0..ROUNDS).map(|_| run()).min().flatten()
}

/// Files of one megabyte, 100 MB in all, from the source's own text.
fn lay_out(into: &Path) -> Vec<PathBuf> {
    let source = std::env::var_os("FULLSEND_BENCH_SOURCE").map(PathBuf::from);
    let source = source.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let mut text = String::new();
    collect(&source, &mut text);
    assert!(!text.is_empty(), "{} has no text", source.display());
    let mut bytes = text.bytes().cycle();
    (0..TOTAL / FILE)
        .map(|number| {
            let path = into.join(format!("{number}.txt"));
            fs::write(&path, bytes.by_ref().take(FILE).collect::<Vec<u8>>()).unwrap();
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
            // With a zero byte in it a file is no text to ripgrep, which then stops reading.
            && more.is_ascii()
            && !more.contains('\0')
        {
            text.push_str(&more);
        }
    }
}

/// Input made to be slow for each family, and what twice as much of it costs: 2 is linear.
fn growth() {
    let only = |name: &str| Scanner::new(Toggles::NONE.switched(name, true).unwrap());
    let cases: [(&str, &str, &str); 12] = [
        ("unicode_normalizer", "zero-width", "a\u{200b}"),
        ("unicode_normalizer", "tags", "\u{e0061}\u{e007f}"),
        ("unicode_normalizer", "combining", "a\u{301}\u{302}\u{303}"),
        ("unicode_normalizer", "osc", "\u{1b}]0;"),
        ("context_injection", "triggers", "ignore all previous "),
        ("context_injection", "comments", "<!-- <!--"),
        ("context_injection", "base64", "aWdub3JlIGFsbCBwcmV2aW91cyBpbnN0cnVjdGlvbnM "),
        ("context_injection", "escapes", "\\u0069\\x69&#105;%69"),
        ("ssrf_validator", "addresses", "http://127.0.0.1://"),
        ("secret_redactor", "assignments", "password=\"a1b2c3d4\" "),
        ("secret_redactor", "keys", "-----BEGIN PRIVATE KEY-----\n"),
        ("secret_redactor", "prefixes", "ghp_sk-AKIAxoxb-eyJ"),
    ];
    println!("worst-case ms_5MB ms_10MB growth MB/s");
    for (family, name, piece) in cases {
        let scanner = only(family);
        let time = |bytes: usize| {
            let text = piece.repeat(bytes / piece.len());
            best(|| scanner.scan(&text, Origin::Web).len()).as_secs_f64() * 1e3
        };
        let (half, whole) = (time(5_000_000), time(10_000_000));
        println!("{family}/{name} {half:.0} {whole:.0} {:.2} {:.0}", whole / half, 1e4 / whole);
    }
    let time = |bytes: usize| {
        let command = "echo $(".repeat(bytes / 7);
        best(|| Scanner::default().scan_command(&command).len()).as_secs_f64() * 1e3
    };
    println!(
        "commands/nested {:.1} {:.1} (longer than 64 KiB is refused unread)",
        time(5_000_000),
        time(10_000_000)
    );
    let redactor = Redactor::with_known([("it", "a-known-value-of-this-run")]).unwrap();
    let time = |bytes: usize| {
        let text = "a-known-value-of-this-ru".repeat(bytes / 24);
        best(|| redactor.redact(&text).len()).as_secs_f64() * 1e3
    };
    let (half, whole) = (time(5_000_000), time(10_000_000));
    println!("redactor/almost-known {half:.0} {whole:.0} {:.2} {:.0}", whole / half, 1e4 / whole);
}
