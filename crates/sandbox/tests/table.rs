//! The summary of the attack suite: number × {root, user} × {stopped, works without its layer}. No cell is empty.

use crate::attacks;
use crate::world::Who;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    Held,
    Bit,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Bit => "bit",
        })
    }
}

/// Answers by attack, who and question.
#[derive(Default)]
pub(crate) struct Table {
    cells: BTreeMap<(u32, String, String), String>,
}

/// How the half that runs under another uid reports its cells.
const MARK: &str = "CELL";

impl Table {
    pub(crate) fn put(&mut self, number: u32, who: Who, question: Question, answer: &str) {
        self.cells.insert((number, who.to_string(), question.to_string()), answer.to_owned());
    }

    pub(crate) fn tell(&self) {
        for ((number, who, question), answer) in &self.cells {
            println!("{MARK}\t{number}\t{who}\t{question}\t{answer}");
        }
    }

    /// Takes over a line of the other half, if it is a cell.
    pub(crate) fn hear(&mut self, line: &str) -> bool {
        let parts: Vec<&str> = line.split('\t').collect();
        let [MARK, number, who, question, answer] = parts[..] else { return false };
        self.cells.insert((number.parse().unwrap(), who.to_owned(), question.to_owned()), answer.to_owned());
        true
    }

    /// For the summary of the gate, beside the attacks of other suites.
    pub(crate) fn keep(&self) {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/attacks");
        let named = |number: u32| attacks::ALL.iter().find(|attack| attack.number == number);
        let rows = self.cells.iter().map(|((number, who, question), answer)| {
            let name = named(*number).map_or("", |attack| attack.name);
            format!("{number}\t{name}\t{who}\t{question}\t{answer}\n")
        });
        // If it cannot be written, there is no summary, and the printed table counts.
        let rows: String = rows.collect();
        drop(
            std::fs::create_dir_all(&directory)
                .and_then(|()| std::fs::write(directory.join("sandbox.tsv"), rows)),
        );
    }

    pub(crate) fn print(&self) {
        if self.cells.is_empty() {
            return;
        }
        println!("\n  #  attack                        root held  root bit  user held  user bit");
        let mut notes: Vec<String> = Vec::new();
        for attack in attacks::ALL {
            let columns = [("root", "held"), ("root", "bit"), ("user", "held"), ("user", "bit")];
            let row = columns.map(|(who, question)| {
                let key = (attack.number, who.to_owned(), question.to_owned());
                self.cells.get(&key).map_or("not run", String::as_str)
            });
            if row.iter().all(|cell| *cell == "not run") {
                continue;
            }
            let short = row.map(|cell| match cell {
                "yes" | "NO" | "not run" => cell.to_owned(),
                reason => {
                    let known = notes.iter().position(|note| note == reason);
                    let index = known.unwrap_or_else(|| {
                        notes.push(reason.to_owned());
                        notes.len() - 1
                    });
                    format!("[{}]", index + 1)
                }
            });
            let [a, b, c, d] = short;
            println!("{:>3}  {:<28}  {a:<9}  {b:<8}  {c:<9}  {d}", attack.number, attack.name);
        }
        for (index, note) in notes.iter().enumerate() {
            println!("[{}] {note}", index + 1);
        }
    }
}
