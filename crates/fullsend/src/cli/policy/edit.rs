//! Adds lines to a harness and a policy as people write them: comments and order stay. A file in an unusual form is not
//! changed; the caller prints the lines instead. The caller also checks the result.

/// The harness with these names in its `network:` list. `None` if the list is written in a form that is not known here.
pub fn with_networks(text: &str, names: &[String]) -> Option<String> {
    let Some((before, rest, after)) = split_at_key(text, "network") else {
        return Some(format!("{}network: [{}]\n", with_line_end(text), names.join(", ")));
    };
    let plain = rest.split(" #").next().unwrap_or(rest).trim_end();
    let comment = &rest[plain.len()..];
    let plain = plain.trim_start();
    if let Some(inner) = plain.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        let old = inner.trim().trim_end_matches(',');
        let comma = if old.is_empty() { "" } else { ", " };
        return Some(format!("{before}network: [{old}{comma}{}]{comment}\n{after}", names.join(", ")));
    }
    if !plain.is_empty() {
        return None;
    }
    let item =
        after.lines().find(|line| !is_blank(line)).filter(|line| line.trim_start().starts_with("- "))?;
    let indent = &item[..item.len() - item.trim_start().len()];
    let items: String = names.iter().map(|name| format!("{indent}- {name}\n")).collect();
    Some(format!("{before}network:{rest}\n{items}{after}"))
}

/// The policy with the rules of `addition`, a document that has `network_policies` alone.
pub fn with_rules(text: &str, addition: &str) -> Option<String> {
    let Some((before, rest, after)) = split_at_key(text, "network_policies") else {
        return Some(format!("{}{addition}", with_line_end(text)));
    };
    match rest.split(" #").next().unwrap_or(rest).trim() {
        "{}" => Some(format!("{before}{addition}{after}")),
        "" => {
            let first = after.lines().find(|line| !is_blank(line)).filter(|line| line.starts_with(' '))?;
            let indent = " ".repeat(first.len() - first.trim_start().len());
            let body = addition.lines().skip(1).map(|line| {
                let below = line.strip_prefix("  ").unwrap_or(line);
                format!("{indent}{below}\n")
            });
            Some(format!("{before}network_policies:{rest}\n{}{after}", body.collect::<String>()))
        }
        _ => None,
    }
}

/// The text before the line of a top-level key, the text after its colon, and the text after the line.
fn split_at_key<'t>(text: &'t str, key: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')) {
            return Some((&text[..start], rest.trim_end(), &text[start + line.len()..]));
        }
        start += line.len();
    }
    None
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

fn with_line_end(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_goes_into_the_list_as_it_is_written() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(with_networks(text, &["pip".to_owned()]).as_deref(), expected, "{text}");
        };
        check("agent: a.md", Some("agent: a.md\nnetwork: [pip]\n"));
        check("network: [npm]\nagent: a.md\n", Some("network: [npm, pip]\nagent: a.md\n"));
        check("network: []  # none\n", Some("network: [pip]  # none\n"));
        check("network:\n  # ours\n  - npm\nx: 1\n", Some("network:\n  - pip\n  # ours\n  - npm\nx: 1\n"));
        check("network: [npm,\n  go]\n", None);
        check("network: *list\n", None);
    }

    #[test]
    fn rules_go_below_the_others() {
        let addition = "network_policies:\n  new:\n    endpoints: []\n";
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(with_rules(text, addition).as_deref(), expected, "{text}");
        };
        check("version: 1\n", Some("version: 1\nnetwork_policies:\n  new:\n    endpoints: []\n"));
        check("network_policies: {}\nx: 1\n", Some("network_policies:\n  new:\n    endpoints: []\nx: 1\n"));
        check(
            "network_policies:  # ours\n    old:\n      a: 1\n",
            Some("network_policies:  # ours\n    new:\n      endpoints: []\n    old:\n      a: 1\n"),
        );
        check("network_policies: {a: {}}\n", None);
    }
}
