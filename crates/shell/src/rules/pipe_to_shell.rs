//! Running downloaded code unread: `curl … | sh`, `bash <(curl …)`, `eval "$(wget …)"`, and the same with a file
//! in between.

use redact::{RuleName, Severity, rule};

use super::{FETCHERS, HarmfulCall, harm, is_interpreter};
use crate::parsed::ParsedLine;
use crate::script::Call;

const RULE: RuleName = rule::command::PIPE_TO_SHELL;
const ADVICE: &str = "Download to a file with one command, read it, then run it with another.";

pub(super) fn judge<'v>(line: &'v ParsedLine, judged: &mut Vec<HarmfulCall<'v>>) {
    for stages in &line.script.pipelines {
        let mut fetcher = None;
        for stage in stages {
            let runs = line.commands(stage.clone()).find(|call| is_interpreter(call) && reads_program(call));
            if let (Some(fetcher), Some(shell)) = (fetcher, runs) {
                judged.extend(found(fetcher, shell).map(|harm| (harm, Some(shell))));
            }
            fetcher = fetcher.or_else(|| line.commands(stage.clone()).find(|call| call.is(FETCHERS)));
        }
    }
    for call in line.all().filter(|call| is_interpreter(call)) {
        let fetcher = line.inside(call).find(|inner| inner.is(FETCHERS));
        judged.extend(fetcher.and_then(|fetcher| found(fetcher, call)).map(|harm| (harm, Some(call))));
    }
    through_a_file(line, judged);
}

fn found(fetcher: &Call, shell: &Call) -> Option<super::Harm> {
    let detail =
        format!("`{}` runs what `{}` downloads, and nobody has read it", shell.program(), fetcher.program());
    harm(RULE, Severity::High, detail, ADVICE)
}

/// `python script.py` and `node -e …` take their program from elsewhere and read their input as data.
fn reads_program(call: &Call) -> bool {
    let is_input = |word: &str| matches!(word, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0");
    let has_program = call.operands().any(|word| !is_input(&word.text));
    call.is(&["source", ".", "eval"]) || call.has_short('s') || !has_program
}

/// `curl -o x URL; sh x` and `wget URL && chmod +x x && ./x`.
fn through_a_file<'v>(line: &'v ParsedLine, judged: &mut Vec<HarmfulCall<'v>>) {
    let mut files: Vec<String> = Vec::new();
    for call in line.all() {
        if call.is(FETCHERS) {
            files.extend(saved_as(call));
            continue;
        }
        let is_file = |text: &str| files.iter().any(|file| same_file(file, text));
        let runs_file = is_file(&call.name.text)
            || (is_interpreter(call) && call.operands().take(1).any(|word| is_file(&word.text)));
        if runs_file {
            let detail =
                format!("`{}` was downloaded by the same command, and nobody has read it", call.name.text);
            judged.extend(harm(RULE, Severity::High, detail, ADVICE).map(|harm| (harm, Some(call))));
        }
    }
}

fn saved_as(call: &Call) -> Vec<String> {
    let named = call.value_of(&["-o", "-O", "--output", "--output-document"]).map(str::to_owned);
    let redirected = call
        .redirects
        .iter()
        .filter(|redirect| redirect.writes())
        .map(|redirect| redirect.target.text.clone());
    let last_part = |word: &str| {
        word.split(['?', '#']).next().and_then(|path| path.rsplit('/').next()).map(str::to_owned)
    };
    let remote = call
        .words()
        .filter(|word| word.contains("://"))
        .filter_map(last_part)
        .filter(|name| !name.is_empty());
    let keeps_name = call.is(&["wget", "aria2c"]) || call.has_short('O') || call.has_long("--remote-name");
    named.into_iter().chain(redirected).chain(remote.filter(|_| keeps_name)).collect()
}

fn same_file(file: &str, text: &str) -> bool {
    !file.is_empty() && text.trim_start_matches("./") == file.trim_start_matches("./")
}
