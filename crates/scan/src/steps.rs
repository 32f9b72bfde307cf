//! Counts, in tests, how far rules look around the places that the one-pass search gives them. What a text costs is that
//! walk and these looks; the tests here hold them to a fixed number for each byte, whatever the text. Outside of tests
//! nothing is counted.

#[cfg(test)]
#[path = "../../../bench/scan/worst.rs"]
mod worst;

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A rule has looked at so many bytes.
#[inline(always)]
pub(crate) fn count(bytes: usize) {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + bytes));
    #[cfg(not(test))]
    let _ = bytes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Canary, Origin, Redactor, Scanner, Toggles, suppress};

    /// A byte may be looked at this often: for a comment of forty bytes with an order in it, the three thousand around it
    /// are read for their subject, and that a few times over.
    const MOST: usize = 600;

    fn steps(work: impl FnOnce()) -> usize {
        let before = STEPS.with(std::cell::Cell::get);
        work();
        STEPS.with(std::cell::Cell::get) - before
    }

    /// Four times as much text takes four times as many steps, and no more than a fixed number for each byte.
    #[track_caller]
    fn check(name: &str, piece: &str, work: &dyn Fn(&str)) {
        let [small, large] = [1 << 14, 1 << 16].map(|size: usize| piece.repeat(size / piece.len()));
        let (few, many) = (steps(|| work(&small)), steps(|| work(&large)));
        assert!(many <= MOST * large.len(), "{name}: {} steps for a byte", many / large.len());
        assert!(many <= 5 * few + large.len(), "{name}: {few} steps, and for four times as much text {many}");
    }

    #[test]
    fn no_text_is_read_again_and_again() {
        for (family, shapes) in worst::TEXTS {
            let scanner = Scanner::new(Toggles::NONE.switched(family, true).unwrap());
            for (name, piece) in *shapes {
                check(&format!("{family}, {name}"), piece, &|text| drop(scanner.scan(text, Origin::Web)));
            }
        }
        let redactor = Redactor::with_known([("it", "a-known-value-of-this-run")]).unwrap();
        for (name, piece) in worst::MASKED {
            check(name, piece, &|text| drop(redactor.redact(text)));
            check(name, piece, &|text| drop(redactor.redact_json(text)));
        }
    }

    #[test]
    fn no_portion_and_no_log_is_read_again_and_again() {
        let canary = Canary::new("fsC7k2Qx9mVt4Lz8Rb1Nw6Hp3Y").unwrap();
        for (name, piece) in worst::WATCHED {
            check(&format!("canary, {name}"), piece, &|text| drop(canary.findings(text)));
        }
        for (name, piece) in worst::LOGS {
            for succeeded in [None, Some(true)] {
                check(&format!("log, {name}"), piece, &|text| drop(suppress("cargo test", text, succeeded)));
            }
        }
    }

    /// The beginnings of links cost little more than other text: where one ends, the next one need not ask again.
    #[test]
    fn links_are_read_once() {
        let scanner = Scanner::new(Toggles::NONE.switched("context_injection", true).unwrap());
        for piece in ["](", "](x \"y", "](x", "](x \"y\n"] {
            let text = piece.repeat(1 << 12);
            let taken = steps(|| drop(scanner.scan(&text, Origin::Web)));
            assert!(taken <= 8 * text.len(), "{piece}: {} steps for a byte", taken / text.len());
        }
    }

    /// The parser's own reading is counted too; it is cut off where it would not end.
    #[test]
    fn no_command_is_read_again_and_again() {
        for (name, piece) in worst::COMMANDS {
            let text = piece.repeat((60 << 10) / piece.len());
            let taken = steps(|| drop(Scanner::default().scan_command(&text)));
            assert!(taken <= MOST * text.len(), "{name}: {} steps for a byte", taken / text.len());
        }
    }
}
