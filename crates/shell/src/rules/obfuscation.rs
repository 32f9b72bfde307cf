//! Commands that hide what they do: decoded and run at once, built from escapes, with `$IFS` for spaces, with names from the
//! output of other commands; and fork bombs.

use redact::{RuleName, Severity, rule};

use super::{FETCHERS, HarmfulCall, harm, is_interpreter};
use crate::parsed::ParsedLine;
use crate::script::Call;

const RULE: RuleName = rule::command::OBFUSCATION;
const ADVICE: &str = "Write the command without encoding or escapes.";

/// Programs that print paths of other programs.
const LOCATORS: &[&str] = &[
    "npm",
    "yarn",
    "pnpm",
    "brew",
    "go",
    "git",
    "which",
    "command",
    "dirname",
    "realpath",
    "readlink",
    "pwd",
    "gem",
    "composer",
    "rustup",
    "rustc",
    "xcrun",
    "poetry",
    "opam",
    "llvm-config",
];

pub(super) fn judge<'v>(line: &'v ParsedLine, judged: &mut Vec<HarmfulCall<'v>>) {
    for stages in &line.script.pipelines {
        let mut decoder = None;
        for stage in stages {
            let shell = line.commands(stage.clone()).find(|call| is_interpreter(call));
            if let (Some(decoder), Some(shell)) = (decoder, shell) {
                let detail = format!("`{}` runs what `{decoder}` decodes", shell.program());
                judged.extend(harm(RULE, Severity::High, detail, ADVICE).map(|harm| (harm, Some(shell))));
            }
            decoder = decoder
                .or_else(|| line.commands(stage.clone()).find(|call| decodes(call)).map(Call::program));
        }
    }
    for call in line.all() {
        judged.extend(of_call(line, call).map(|harm| (harm, Some(call))));
    }
    fork_bomb(line, judged);
}

fn of_call(line: &ParsedLine, call: &Call) -> Option<super::Harm> {
    let inside = || line.inside(call);
    if call.name.is_encoded {
        return harm(
            RULE,
            Severity::High,
            format!("`{}` is written with escape sequences", call.name.text),
            ADVICE,
        );
    }
    let has_spaces = |text: &str| text.contains("$IFS");
    if has_spaces(&call.name.text) || call.words().any(has_spaces) {
        return harm(RULE, Severity::High, "`$IFS` stands for spaces", ADVICE);
    }
    // `$(npm bin)/eslint` names a directory, and then a program in plain words.
    let is_located = call.name.text.contains(")/") && inside().all(|inner| inner.is(LOCATORS));
    if !call.name.inner.is_empty() && !is_located {
        let detail = "the name of the command is the output of another command";
        return harm(RULE, Severity::High, detail, ADVICE);
    }
    if is_interpreter(call) && inside().any(decodes) && !inside().any(|inner| inner.is(FETCHERS)) {
        return harm(
            RULE,
            Severity::High,
            format!("`{}` runs what was just decoded", call.program()),
            ADVICE,
        );
    }
    (call.is(&["eval"]) && call.arguments.iter().any(|word| word.is_dynamic && word.inner.is_empty()))
        .then_some(())
        .and_then(|()| harm(RULE, Severity::Medium, "`eval` runs the content of a variable", ADVICE))
}

fn decodes(call: &Call) -> bool {
    let words = || call.words();
    match call.program() {
        "base64" | "base32" | "basenc" | "gbase64" => {
            call.has_short('d') || call.has_short('D') || call.has_long("--decode")
        }
        "xxd" => call.has_short('r'),
        "openssl" => {
            words().any(|word| matches!(word, "enc" | "base64" | "aes-256-cbc"))
                && words().any(|word| word == "-d")
        }
        "uudecode" | "rev" => true,
        "gunzip" | "zcat" | "bunzip2" | "unxz" => true,
        "tr" => words().any(|word| word.contains("A-Z") || word.contains("a-z")),
        "printf" | "echo" => words().any(|word| {
            spells_letter(word)
                || word.matches("\\x").count() >= 3
                || word.matches("\\0").count() >= 3
                || word.matches("\\1").count() >= 3
        }),
        "perl" | "python" | "python3" => words().any(|word| {
            word.contains("b64decode") || word.contains("decode_base64") || word.contains("fromhex")
        }),
        _ => false,
    }
}

/// `\x72`: a letter or a digit that could stand there itself.
fn spells_letter(word: &str) -> bool {
    let digits =
        word.match_indices("\\x").filter_map(|(at, sign)| word.get(at + sign.len()..at + sign.len() + 2));
    digits.filter_map(|digits| u8::from_str_radix(digits, 16).ok()).any(|byte| byte.is_ascii_alphanumeric())
}

/// `:(){ :|:& };:`
fn fork_bomb<'v>(line: &'v ParsedLine, judged: &mut Vec<HarmfulCall<'v>>) {
    for (name, body) in &line.script.functions {
        let calls_itself = line.commands(body.clone()).filter(|call| call.name.text == *name).count() >= 2;
        if calls_itself {
            judged.extend(
                harm(
                    rule::command::FORK_BOMB,
                    Severity::Critical,
                    format!("`{name}` starts itself twice"),
                    "Remove it.",
                )
                .map(|harm| (harm, None)),
            );
        }
    }
}
