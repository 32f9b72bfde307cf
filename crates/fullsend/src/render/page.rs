//! The page of a run: one HTML file that needs nothing else. It contains the data of the run as JSON, and the script
//! and the style of `web/`. Its content security policy lets the browser run only this script and fetch nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::record::page::RunPage;

const SCRIPT: &str = include_str!("../../../../web/dist/page.js");
const STYLE: &str = include_str!("../../../../web/dist/page.css");

/// The page as one HTML document.
pub fn html(page: &RunPage) -> String {
    let title =
        format!("{} · {} · fullsend", page.run.harness, page.run.outcome.map_or("running", |it| it.as_str()));
    document(&title, &embedded(&serde_json::to_string(page).unwrap_or_default()))
}

fn document(title: &str, data: &str) -> String {
    let policy = policy();
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <noscript>This page needs JavaScript. `fullsend runs show` prints the same in a terminal.</noscript>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// The page without data, which it fetches from its own server, and the content security policy of the response.
pub fn live() -> (String, String) {
    let policy = format!("{}; connect-src 'self'; frame-ancestors 'none'", policy());
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>fullsend</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<noscript>This page needs JavaScript.</noscript>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    (html, policy)
}

/// The content security policy: a browser may run the page's script and use its style, nothing else.
fn policy() -> String {
    [
        "default-src 'none'",
        &format!("script-src '{}'", source_hash(SCRIPT)),
        &format!("style-src '{}'", source_hash(STYLE)),
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    .join("; ")
}

/// The hash by which a policy names an inline script or style.
fn source_hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// JSON, escaped so that it cannot end the element around it.
fn embedded(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + json.len() / 16);
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => text.push(other),
        }
    }
    text
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_leave_its_element_and_reads_back_as_it_was() {
        for hostile in
            ["</script><script>alert(1)</script>", "<!--<script>", "&lt;/script&gt;", "\u{2028}]]>"]
        {
            let json = serde_json::to_string(hostile).unwrap();
            let text = embedded(&json);
            assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
            assert_eq!(serde_json::from_str::<String>(&text).unwrap(), hostile);
        }
    }

    #[test]
    fn the_policy_of_the_page_names_its_script_and_style_and_nothing_else() {
        let page = document("a <b> & \"c\"", "{}");
        assert!(page.contains("<title>a &lt;b&gt; &amp; &quot;c&quot;</title>"), "{page}");
        let policy = page.split("content=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
    }
}
