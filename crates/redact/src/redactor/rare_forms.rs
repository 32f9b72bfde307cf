//! Encodings that tools write less often: base32, UTF-32, another case, lists of numbers, and base64 of another encoding.
//! They are looked for only for whole values, because each value has many of them.

use std::collections::BTreeSet;

use super::forms::{base64_forms, hex};

/// Shorter forms are in ordinary text.
const MIN_FORM: usize = 12;

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

pub(super) fn rare_forms(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms: BTreeSet<Vec<u8>> = BTreeSet::new();
    forms.extend([value.to_ascii_lowercase(), value.to_ascii_uppercase()]);
    forms.insert(value.iter().rev().copied().collect());
    forms.extend(base32_forms(value));
    let mut inner = base64_forms(value);
    inner.push(hex(value, false).into_bytes());
    if let Ok(text) = std::str::from_utf8(value) {
        inner.push(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
        inner.push(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
        inner.push(text.chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect());
        inner.push(text.chars().flat_map(|letter| u32::from(letter).to_be_bytes()).collect());
        forms.extend(inner.iter().rev().take(2).cloned());
    }
    let is_long = |form: &Vec<u8>| form.len() >= MIN_FORM;
    forms.extend(inner.iter().filter(|form| is_long(form)).flat_map(|form| base64_forms(form)));
    forms.extend(base64_forms(value).iter().map(|form| hex(form, false).into_bytes()));
    forms.retain(is_long);
    forms
}

/// As lists of numbers look without the commas and spaces between them: `[103, 104]`, `147 150`, `0x67, 0x68`.
pub(super) fn number_forms(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let decimal: String = value.iter().map(u8::to_string).collect();
    let with_prefix = |is_upper: bool| -> String {
        value.iter().map(|byte| format!("0x{}", hex(&[*byte], is_upper))).collect()
    };
    let octal: String = value.iter().map(|byte| format!("{byte:03o}")).collect();
    [decimal, octal, with_prefix(false), with_prefix(true)].into_iter().map(String::into_bytes)
}

/// The characters of base32 that depend on the value alone, wherever it is in the encoded bytes, in both cases.
fn base32_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for offset in 0..5usize {
        let mut shifted = vec![0u8; offset];
        shifted.extend_from_slice(value);
        let first = (offset * 8).div_ceil(5);
        let last = shifted.len() * 8 / 5;
        let upper: Vec<u8> = (first..last).map(|at| BASE32[five_bits(&shifted, at)]).collect();
        forms.push(upper.to_ascii_lowercase());
        forms.push(upper);
    }
    forms
}

/// The group of five bits at this place.
fn five_bits(bytes: &[u8], at: usize) -> usize {
    (at * 5..at * 5 + 5).fold(0, |group, bit| {
        let is_set = bytes[bit / 8] >> (7 - bit % 8) & 1;
        group << 1 | usize::from(is_set)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    const VALUE: &str = "ghp_Zk3vXq81LmPw72TyBn";

    #[track_caller]
    fn check(written: impl AsRef<[u8]>) {
        let is_there = rare_forms(VALUE.as_bytes())
            .iter()
            .any(|form| memchr::memmem::find(written.as_ref(), form).is_some());
        assert!(is_there, "{}", String::from_utf8_lossy(written.as_ref()));
    }

    /// Written by `base32` of coreutils and by `python3 -m base64`.
    #[test]
    fn base32_is_found_wherever_the_value_starts() {
        check("M5UHAX22NMZXMWDRHAYUY3KQO43TEVDZIJXA====");
        check("m5uhax22nmzxmwdrhayuy3kqo43tevdzijxa");
        check("OVZWK4R2M5UHAX22NMZXMWDRHAYUY3KQO43TEVDZIJXCC===");
        check("PBTWQ4C7LJVTG5SYOE4DCTDNKB3TOMSUPFBG4===");
    }

    #[test]
    fn an_encoding_of_an_encoding_is_found() {
        for before in ["", "x", "xy"] {
            let once = STANDARD.encode(format!("{before}{VALUE}!"));
            for again in ["", "a", "ab"] {
                check(STANDARD.encode(format!("{again}{once}")));
                check(URL_SAFE_NO_PAD.encode(format!("{again}{once}")));
            }
        }
        let wide: Vec<u8> = format!("user:{VALUE}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(STANDARD.encode(wide));
        let wider: Vec<u8> = VALUE.chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
        check(STANDARD.encode(wider));
        check(STANDARD.encode(hex(VALUE.as_bytes(), false)));
        check(hex(STANDARD.encode(VALUE).as_bytes(), false));
    }

    #[test]
    fn another_case_and_wide_characters_are_found() {
        check(VALUE.to_uppercase());
        check(VALUE.to_lowercase());
        check(VALUE.chars().flat_map(|letter| u32::from(letter).to_be_bytes()).collect::<Vec<u8>>());
        assert_eq!(
            number_forms(b"gh").map(|form| String::from_utf8(form).unwrap()).collect::<Vec<_>>(),
            ["103104", "147150", "0x670x68", "0x670x68"]
        );
    }
}
