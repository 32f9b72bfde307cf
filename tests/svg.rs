//! A terminal as a picture: lines with ANSI colours become an SVG of a given width. Long lines wrap, as in a terminal.

use std::fmt::Write;

/// Pixels of one character and one line.
const LETTER: f64 = 8.0;
const LINE: usize = 18;
const MARGIN: usize = 12;

/// One letter and its colour.
#[derive(Clone, Copy)]
struct Cell {
    letter: char,
    style: Style,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Style {
    colour: Option<&'static str>,
    bold: bool,
}

impl Style {
    /// The style after an escape sequence, such as `31`.
    fn after(self, code: &str) -> Self {
        match code {
            "0" | "" => Self::default(),
            "1" => Self { bold: true, ..self },
            "31" => Self { colour: Some("#ff7b72"), ..self },
            "32" => Self { colour: Some("#7ee787"), ..self },
            "33" => Self { colour: Some("#e3b341"), ..self },
            "36" => Self { colour: Some("#76e3ea"), ..self },
            other => panic!("the terminal got an unknown colour {other}"),
        }
    }
}

/// The cells of a text, line by line, at most `columns` wide.
fn cells(text: &str, columns: usize) -> Vec<Vec<Cell>> {
    let mut lines = Vec::new();
    let mut style = Style::default();
    for line in text.lines() {
        let mut row: Vec<Cell> = Vec::new();
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            if letter == '\x1b' {
                let sequence: String = letters.by_ref().take_while(|letter| *letter != 'm').collect();
                style = style.after(sequence.trim_start_matches('['));
                continue;
            }
            if row.len() == columns {
                lines.push(std::mem::take(&mut row));
            }
            row.push(Cell { letter, style });
        }
        lines.push(row);
    }
    lines
}

/// The picture of a terminal that shows this text.
pub fn svg(text: &str, columns: usize) -> String {
    let lines = cells(text, columns);
    let width = (columns as f64).mul_add(LETTER, 2.0 * MARGIN as f64);
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#161b22\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"13\" fill=\"#c9d1d9\" \
         xml:space=\"preserve\">\n"
    );
    for (index, row) in lines.iter().enumerate() {
        let y = MARGIN + index * LINE + 13;
        let mut start = 0;
        for part in row.chunk_by(|one, other| one.style == other.style) {
            let words: String = part.iter().map(|cell| cell.letter).collect();
            let length = part.len() as f64 * LETTER;
            if !words.trim().is_empty() {
                let x = (start as f64).mul_add(LETTER, MARGIN as f64);
                let fill =
                    part[0].style.colour.map(|colour| format!(" fill=\"{colour}\"")).unwrap_or_default();
                let bold = if part[0].style.bold { " font-weight=\"bold\"" } else { "" };
                writeln!(
                    picture,
                    "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\"{fill}{bold}>{}</text>",
                    escaped(&words)
                )
                .unwrap();
            }
            start += part.len();
        }
    }
    picture.push_str("</g>\n</svg>\n");
    picture
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn colours_and_wrapped_lines_are_drawn() {
    let picture = svg("a \x1b[31mbad\x1b[0m <end>\n12345678901234", 12);
    assert!(picture.contains(">bad</text>") && picture.contains("#ff7b72"), "{picture}");
    assert!(picture.contains("> &lt;end&gt;</text>"), "{picture}");
    assert!(picture.contains(">123456789012</text>") && picture.contains(">34</text>"), "{picture}");
    assert!(picture.contains("height=\"78\""), "three lines: {picture}");
}
