//! Colour for lines of the live view: the word at the start says what happened, and its colour how bad that is.

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";
const BOLD: &str = "1";

/// The colour of a line by its first word.
fn colour(word: &str) -> Option<&'static str> {
    Some(match word {
        "failed" | "rejected" | "broken" => RED,
        "denied" | "refused" | "finding" | "weaker" | "exception" | "review" | "budget" => YELLOW,
        "accepted" | "output" | "changes" | "completed:" => GREEN,
        "retry" | "model" | "kept" => CYAN,
        "says" | "run" => BOLD,
        _ => return None,
    })
}

/// The line with its first word coloured. The caller must have removed control characters.
pub fn paint(line: &str) -> String {
    let start = line.len() - line.trim_start().len();
    let end = line[start..].find([' ', '\n']).map_or(line.len(), |length| start + length);
    let word = &line[start..end];
    match colour(word) {
        // Tool calls are indented further; the names of tools are not coloured.
        Some(colour) if start < 4 => {
            format!("{}\x1b[{colour}m{word}\x1b[0m{}", &line[..start], &line[end..])
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::paint;

    #[test]
    fn the_word_is_coloured_and_the_rest_stays() {
        assert_eq!(paint("  failed    Bash x\n  more"), "  \x1b[31mfailed\x1b[0m    Bash x\n  more");
        for plain in ["    failed x", "  inputs    3 ms", "", "  "] {
            assert_eq!(paint(plain), plain);
        }
    }
}
