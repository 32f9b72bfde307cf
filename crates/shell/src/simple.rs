//! Command lines that run one program and nothing else.

use crate::parse;
use crate::script::Redirect;

/// A command line that runs one program with plain words, as checks are started.
pub(crate) struct SimpleCall {
    pub(crate) program: String,
    pub(crate) words: Vec<String>,
}

/// The one program of a command line whose status and output are those of the line; `cd x &&` before it is allowed,
/// anything else beside it is not.
pub(crate) fn simple_call(command: &str) -> Option<SimpleCall> {
    let script = parse::parse(command);
    let (call, before) = script.calls.split_last()?;
    let is_plain = script.pipelines.is_empty()
        && script.is_straight
        && !script.has_errors
        && !script.is_too_deep
        && before.iter().all(|call| call.is(&["cd"]))
        && call.redirects.iter().all(Redirect::joins);
    let is_known = call.arguments.iter().chain([&call.name]).all(|word| !word.is_dynamic);
    (is_plain && is_known).then(|| SimpleCall {
        program: call.program().to_owned(),
        words: call.words().map(str::to_owned).collect(),
    })
}
