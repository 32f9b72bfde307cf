//! Overwrites known values in bytes that arrive in portions, such as a response on its way into the sandbox. The number of
//! bytes stays the same, so that lengths and offsets stay valid. Bytes are held back only while they may be the start of a
//! value.

use super::Redactor;
use super::form_index::KnownScan;

const MASK: u8 = b'*';
/// A shorter start of a value is not held back: it reveals nothing, and most texts have one.
const MIN_HELD: usize = 4;

/// Feed it with `push`; call `flush` if bytes must not wait, such as at the end.
#[derive(Debug, Default)]
pub struct StreamMasker {
    /// The last bytes, unmasked. Those before `passed` have been returned and help to recognise what follows.
    window: Vec<u8>,
    passed: usize,
    /// Values within a line are left as they are.
    only_over_lines: bool,
}

impl StreamMasker {
    /// Overwrites only values that are broken into lines. A redactor that works line by line finds the others.
    pub fn over_lines() -> Self {
        Self { only_over_lines: true, ..Self::default() }
    }

    fn scan(&self, redactor: &Redactor) -> KnownScan {
        if self.only_over_lines {
            redactor.known.scan_over_lines(&self.window)
        } else {
            redactor.known.scan(&self.window)
        }
    }

    /// Returns what may pass, masked.
    pub fn push(&mut self, redactor: &Redactor, portion: &[u8]) -> Vec<u8> {
        self.window.extend_from_slice(portion);
        let mut scan = self.scan(redactor);
        let length = self.window.len();
        let most = redactor.known.longest_reach();
        let held = scan.unfinished.filter(|start| (MIN_HELD..=most).contains(&(length - start)));
        if held.is_none() {
            // A start that is followed by more line ends than a value has: it waits no longer.
            scan.values.append(&mut scan.cut);
        }
        let end = held.unwrap_or(self.window.len()).max(self.passed);
        self.pass(redactor, end, &scan.values)
    }

    /// Returns the bytes that were held back. A long start of a value is masked, and the rest of the value is masked when
    /// it comes.
    pub fn flush(&mut self, redactor: &Redactor) -> Vec<u8> {
        let mut scan = self.scan(redactor);
        let end = self.window.len();
        scan.values.append(&mut scan.cut);
        self.pass(redactor, end, &scan.values)
    }

    /// Whether bytes are held back.
    pub fn has_held_bytes(&self) -> bool {
        self.passed < self.window.len()
    }

    fn pass(&mut self, redactor: &Redactor, end: usize, values: &[std::ops::Range<usize>]) -> Vec<u8> {
        let mut out = self.window[self.passed..end].to_vec();
        for value in values {
            let start = value.start.max(self.passed);
            let stop = value.end.min(end);
            if start < stop {
                out[start - self.passed..stop - self.passed].fill(MASK);
            }
        }
        self.passed = end;
        let keep = redactor.known.longest_reach();
        let surplus = self.passed.saturating_sub(keep);
        self.window.drain(..surplus);
        self.passed -= surplus;
        out
    }
}

impl Redactor {
    /// Overwrites the known values that are broken into lines.
    pub fn mask_over_lines(&self, text: &[u8]) -> Vec<u8> {
        let mut masker = StreamMasker::over_lines();
        let mut masked = masker.push(self, text);
        masked.extend(masker.flush(self));
        masked
    }

    /// Overwrites the known values in a whole message.
    pub fn mask_in_place(&self, bytes: &mut [u8]) {
        let mut masker = StreamMasker::default();
        let mut masked = masker.push(self, bytes);
        masked.extend(masker.flush(self));
        bytes.copy_from_slice(&masked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    const VALUE: &str = "ghp_Zk3vXq81LmPw72TyBn";

    static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
        Redactor::with_known([("TOKEN", VALUE), ("OTHER", "correct horse/battery+9?")]).unwrap()
    });

    fn masked(portions: &[&[u8]]) -> String {
        let redactor = &*REDACTOR;
        let mut masker = StreamMasker::default();
        let mut out: Vec<u8> = portions.iter().flat_map(|portion| masker.push(redactor, portion)).collect();
        out.extend(masker.flush(redactor));
        assert_eq!(out.len(), portions.concat().len());
        String::from_utf8(out).unwrap()
    }

    fn stars(text: &str) -> String {
        "*".repeat(text.len())
    }

    #[test]
    fn values_are_overwritten_in_every_form() {
        use base64::Engine;
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("user:{VALUE}"));
        assert_eq!(masked(&[format!("a {VALUE} b").as_bytes()]), format!("a {} b", stars(VALUE)));
        assert!(!masked(&[basic.as_bytes()]).contains(&basic[8..]));
        let percent = "correct%20horse%2Fbattery%2B9%3F";
        assert_eq!(masked(&[percent.as_bytes()]), stars(percent));
        assert_eq!(masked(&[b"nothing of it"]), "nothing of it");
    }

    #[test]
    fn a_value_that_is_cut_off_is_overwritten_too() {
        let most = &VALUE[..VALUE.len() - 1];
        assert_eq!(
            masked(&[format!("{{\"t\":\"{most}\"}}").as_bytes()]),
            format!("{{\"t\":\"{}\"}}", stars(most))
        );
        assert_eq!(masked(&[format!("a {}", &VALUE[..10]).as_bytes()]), format!("a {}", "*".repeat(10)));
        // The first characters of a token are not secret.
        assert_eq!(masked(&[b"ghp_Zk3 other"]), "ghp_Zk3 other");
    }

    /// Without its first or last characters a token can be guessed. A start that tokens of one issuer share is shown.
    #[test]
    fn half_of_a_value_is_overwritten() {
        for part in [&VALUE[1..], &VALUE[1..VALUE.len() - 1], &VALUE[2..18], &VALUE[6..]] {
            let text = format!("{{\"t\":\"{part}\"}}");
            let expected = format!("{{\"t\":\"{}\"}}", stars(part));
            assert_eq!(masked(&[text.as_bytes()]), expected);
            let out = masked(&text.as_bytes().chunks(3).collect::<Vec<_>>());
            assert!(out.matches('*').count() + 16 > part.len(), "{out}");
        }
        let start = format!("{} other", &VALUE[..15]);
        assert_eq!(masked(&[start.as_bytes()]), start);
        assert_eq!(masked(&[b"a72TyBn"]), "a72TyBn");
        let file =
            "{\n  \"token_uri\": \"https://accounts.test/token\",\n  \"key\": \"Zk3vXq81LmPw72TyBn\"\n}";
        let redactor = Redactor::with_known([("FILE", file)]).unwrap();
        let mut answer = b"ask https://accounts.test/token now".to_vec();
        redactor.mask_in_place(&mut answer);
        assert_eq!(answer, b"ask https://accounts.test/token now");
    }

    /// As `base64 -w`, PEM, hexdumps, JSON and HTML break them.
    #[test]
    fn values_that_are_broken_into_lines_are_overwritten() {
        use base64::Engine;
        use base64::engine::general_purpose::{STANDARD, URL_SAFE};
        let long = format!("{}{VALUE}{}", "before it ".repeat(5), " after it".repeat(9));
        let hex: String = long.bytes().map(|byte| format!("{byte:02x}")).collect();
        let alone: String = VALUE.bytes().map(|byte| format!("{byte:02X}")).collect();
        let texts = [STANDARD.encode(&long), URL_SAFE.encode(&long), STANDARD.encode(VALUE), hex, alone];
        let breaks = [
            "\n", "\r\n", "\\n", "\\r\\n", "\n    ", "\\\\n", "%0D%0A", "&#10;", "\\u000a", "<br>\n",
            "\",\n\"",
        ];
        for (text, between) in texts.iter().flat_map(|text| breaks.map(|between| (text, between))) {
            for width in [1, 20, 64, 76] {
                let lines: Vec<&str> =
                    text.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
                let broken = format!("x {} y", lines.join(between));
                let secret: Vec<char> = masked(&[broken.as_bytes()]).chars().filter(|c| *c == '*').collect();
                for size in [3, 33] {
                    let portions: Vec<&[u8]> = broken.as_bytes().chunks(size).collect();
                    let out = masked(&portions);
                    let stars = out.matches('*').count();
                    assert!(stars >= VALUE.len(), "{width} {between:?} {size}: {out}");
                    assert!(stars + 8 >= secret.len(), "{width} {between:?} {size}: {out}");
                    assert_eq!(out.matches(between).count(), broken.matches(between).count(), "{out}");
                }
            }
        }
    }

    /// As Go, Mustache and other encoders of HTML, URLs and JSON write them, and as somebody who hides them would.
    #[test]
    fn values_with_escaped_characters_are_overwritten() {
        let value = "lab+secret/val&ue=7731Qz==";
        let redactor = Redactor::with_known([("TOKEN", value)]).unwrap();
        let some = |escape: &dyn Fn(u8) -> String, every: usize| -> String {
            let one = |(at, byte): (usize, u8)| {
                if at % every == 0 { escape(byte) } else { char::from(byte).to_string() }
            };
            value.bytes().enumerate().map(one).collect()
        };
        let mut texts = vec![
            "lab&#43;secret/val&amp;ue=7731Qz==".to_owned(),
            "lab+secret&#x2F;val&amp;ue&#x3D;7731Qz&#x3D;&#x3D;".to_owned(),
            "lab&plus;secret&sol;val&amp;ue&equals;7731Qz&equals;&equals;".to_owned(),
            "lab%2bsecret%2Fval%26ue%3D7731Qz%3d%3D".to_owned(),
            "lab\\u002bsecret\\/val\\u0026ue\\u003d7731Qz==".to_owned(),
        ];
        for every in [1, 2, 5] {
            texts.push(some(&|byte| format!("&#{byte};"), every));
            texts.push(some(&|byte| format!("&#x{byte:05x};"), every));
            texts.push(some(&|byte| format!("%{byte:02x}"), every));
            texts.push(some(&|byte| format!("\\u{byte:04X}"), every));
            texts.push(some(&|byte| format!("\\x{byte:02x}"), every));
        }
        for text in texts {
            let whole = format!("x {text} y");
            for size in [whole.len(), 7, 1] {
                let mut masker = StreamMasker::default();
                let mut out: Vec<u8> = whole
                    .as_bytes()
                    .chunks(size)
                    .flat_map(|portion| masker.push(&redactor, portion))
                    .collect();
                out.extend(masker.flush(&redactor));
                let shown = String::from_utf8(out).unwrap();
                assert_eq!(shown.len(), whole.len());
                let kept = broken_out(&shown);
                assert!(!kept.contains("secret") && !kept.contains("7731"), "{size}: {text}: {shown}");
            }
        }
    }

    fn broken_out(text: &str) -> String {
        String::from_utf8_lossy(&super::super::broken::join(text.as_bytes()).bytes).into_owned()
    }

    #[test]
    fn a_start_is_not_held_back_for_ever() {
        let redactor = &*REDACTOR;
        let mut masker = StreamMasker::default();
        masker.push(redactor, &VALUE.as_bytes()[..12]);
        for _ in 0..1_000 {
            masker.push(redactor, &[b'\n'; 100]);
        }
        assert!(masker.window.len() < 10_000, "{}", masker.window.len());
        assert!(!masker.has_held_bytes());
    }

    #[test]
    fn ordinary_bytes_are_not_held_back() {
        let redactor = &*REDACTOR;
        let mut masker = StreamMasker::default();
        assert_eq!(masker.push(redactor, b"data: 1\n\n"), b"data: 1\n\n");
        assert_eq!(masker.push(redactor, b"ends with ghp"), b"ends with ghp");
        assert!(!masker.has_held_bytes());
        assert_eq!(masker.push(redactor, b"_Zk3"), b"");
        assert!(masker.has_held_bytes());
        assert_eq!(masker.push(redactor, b"!"), b"_Zk3!");
    }

    #[test]
    fn a_flush_in_the_middle_of_a_value_reveals_no_more_than_its_first_characters() {
        let redactor = &*REDACTOR;
        for size in 1..VALUE.len() {
            let mut masker = StreamMasker::default();
            let mut out = Vec::new();
            for portion in VALUE.as_bytes().chunks(size) {
                out.extend(masker.push(redactor, portion));
                out.extend(masker.flush(redactor));
            }
            let shown = out.iter().filter(|byte| **byte != MASK).count();
            assert!(
                shown < super::super::form_index::MIN_FRAGMENT,
                "{size}: {}",
                String::from_utf8_lossy(&out)
            );
        }
    }

    proptest! {
        #[test]
        fn borders_do_not_matter(before in "[a-z ]{0,40}", after in "[a-z ]{0,40}", size in 1usize..60) {
            let text = format!("{before}|{VALUE}|{after}");
            let portions: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let out = masked(&portions);
            let shown = out.matches('*').count();
            prop_assert!(shown + 3 >= VALUE.len(), "{out}");
            let without_first = &VALUE[3..];
            prop_assert!(!out.contains(without_first));
            let starts_with = format!("{before}|");
            let ends_with = format!("|{after}");
            prop_assert!(out.starts_with(&starts_with) && out.ends_with(&ends_with));
        }
    }
}
