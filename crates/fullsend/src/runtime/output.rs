//! Writes the result of agents that return it as text or structured output to the output file, where the quarantine finds
//! it. It does not check the result.

use serde_json::Value as Json;

use super::attempt::{Ending, RuntimeError};
use super::launch::LaunchContext;
use super::{paths, state};

/// Structured output replaces what the agent wrote to the file.
pub fn structured(context: &LaunchContext<'_>, output: &Json) -> Result<(), RuntimeError> {
    put(context, &format!("{output:#}\n"))
}

/// The output file as it is now, to see later whether the agent wrote it in this attempt.
pub fn read(context: &LaunchContext<'_>) -> Result<Option<Vec<u8>>, RuntimeError> {
    state::read_file(context.sandbox.root(), &path(context))
        .map_err(|source| RuntimeError::State { what: "the output cannot be read", source })
}

/// A final message that is a JSON document is the result, unless the agent wrote the file since `before`.
pub fn final_message(
    context: &LaunchContext<'_>,
    words: &str,
    before: Option<&[u8]>,
) -> Result<Ending, RuntimeError> {
    let stopped = Ending::Stopped { last_words: words.to_owned() };
    let expected = context.inputs.checked().expected.as_ref();
    let from_caller = expected.and_then(|expected| (expected.from_words)(words));
    let Some(document) = from_caller.or_else(|| document(words)) else { return Ok(stopped) };
    let file = context.inputs.checked().result_document().file;
    if read(context)?.as_deref() != before || !file.ends_with(".json") {
        return Ok(stopped);
    }
    structured(context, &document)?;
    Ok(Ending::Finished)
}

/// The whole text, or the one fenced block in it.
fn document(words: &str) -> Option<Json> {
    let trimmed = words.trim();
    let fenced = || {
        let (_, rest) = trimmed.split_once("```json\n")?;
        let (inner, after) = rest.split_once("\n```")?;
        (!after.contains("```json")).then_some(inner)
    };
    let parse = |text: &str| serde_json::from_str::<Json>(text).ok().filter(Json::is_object);
    parse(trimmed).or_else(|| parse(fenced()?))
}

fn put(context: &LaunchContext<'_>, text: &str) -> Result<(), RuntimeError> {
    state::write(context.sandbox, &path(context), text.as_bytes())
        .map_err(|source| RuntimeError::State { what: "the output cannot be written", source })
}

fn path(context: &LaunchContext<'_>) -> String {
    let file = context.inputs.checked().result_document().file;
    format!("{}/{file}", paths::OUTPUT)
}

#[cfg(test)]
mod tests {
    use super::document;
    use serde_json::json;

    #[test]
    fn a_document_is_the_whole_text_or_its_one_block() {
        let check = |words: &str, found: bool| {
            assert_eq!(document(words), found.then(|| json!({ "a": 1 })), "{words}");
        };
        check(" {\"a\": 1}\n", true);
        check("Here it is:\n```json\n{\"a\": 1}\n```\nDone.", true);
        check("```json\n{\"a\": 1}\n```\n```json\n{\"a\": 2}\n```", false);
        check("I wrote {\"a\": 1}.", false);
        check("\"a\"", false);
        check("", false);
    }
}
