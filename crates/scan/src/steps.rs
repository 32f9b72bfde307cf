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
    use crate::{Origin, Scanner, Toggles};

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
    fn no_text_is_read_again_and_again() {
        for (family, shapes) in worst::TEXTS {
            let scanner = Scanner::new(Toggles::NONE.switched(family, true).unwrap());
            for (name, piece) in *shapes {
                check(&format!("{family}, {name}"), piece, &|text| drop(scanner.scan(text, Origin::Web)));
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
}
