//! Charsets of media types: a text that is not based on ASCII cannot be searched byte by byte.

/// The charset of a media type in which a value would not be written in its ASCII bytes.
pub(super) fn strange_charset(content_type: &[u8]) -> Option<String> {
    const ASCII_BASED: &[&str] = &[
        "utf-8",
        "utf8",
        "us-ascii",
        "ascii",
        "iso-8859-",
        "iso8859",
        "latin1",
        "windows-125",
        "gb",
        "big5",
        "euc-",
        "shift_jis",
        "koi8-",
    ];
    let text = String::from_utf8_lossy(content_type).to_ascii_lowercase();
    let parameters = text.split([';', ',']).skip(1).filter_map(|parameter| parameter.split_once('='));
    // Parsers differ in the spaces that they accept, and in which of two charsets they use.
    let charsets = parameters.filter(|(name, _)| matches!(name.trim(), "charset" | "charset*"));
    charsets.map(|(_, charset)| charset.trim().trim_matches(['"', '\'']).trim().to_owned()).find(|charset| {
        let is_readable = ASCII_BASED.iter().any(|known| charset.starts_with(known));
        !is_readable
    })
}
