//! Counts, in tests, how many bytes the rules of this crate read around the literals that the search finds. Tests limit
//! that number for each byte of text. Outside of tests nothing is counted.

#[cfg(test)]
#[expect(dead_code, reason = "the texts of the other crates")]
#[path = "../../../bench/scan/worst.rs"]
mod worst;

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts the bytes that a rule has read.
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
    use crate::{scan_command, shorten};

    /// How often a byte may be read: for a short comment with an order in it, the rules read the three thousand bytes
    /// around it a few times.
    const MAX_STEPS: usize = 600;

    fn steps(work: impl FnOnce()) -> usize {
        let before = STEPS.with(std::cell::Cell::get);
        work();
        STEPS.with(std::cell::Cell::get) - before
    }

    /// Four times as much text takes four times as many steps, and no more than a fixed number for each byte.
    #[track_caller]
    fn check(name: &str, piece: &str, work: &dyn Fn(&str)) {
        let [small, large] = [1 << 14, 1 << 16].map(|size: usize| piece.repeat(size / piece.len()));
        let few = steps(|| work(&small));
        let many = steps(|| work(&large));
        assert!(many <= MAX_STEPS * large.len(), "{name}: {} steps for a byte", many / large.len());
        assert!(many <= 5 * few + large.len(), "{name}: {few} steps, and for four times as much text {many}");
    }

    #[test]
    fn no_log_is_read_again_and_again() {
        for (name, piece) in worst::LOGS {
            for succeeded in [None, Some(true)] {
                check(&format!("log, {name}"), piece, &|text| drop(shorten("cargo test", text, succeeded)));
            }
        }
    }

    /// The parser's own reading is counted too; it is stopped if it would not end.
    #[test]
    fn no_command_is_read_again_and_again() {
        for (name, piece) in worst::COMMANDS {
            let text = piece.repeat((60 << 10) / piece.len());
            let taken = steps(|| drop(scan_command(&text)));
            assert!(taken <= MAX_STEPS * text.len(), "{name}: {} steps for a byte", taken / text.len());
        }
    }
}
