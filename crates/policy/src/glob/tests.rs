//! Patterns against a table of OpenShell's observed behaviour, and against globset on random input.

use globset::GlobBuilder;
use proptest::prelude::{Just, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof};

use super::{Pattern, PatternError, ProofBudget, Separator};

fn pattern(text: &str, separator: Separator) -> Pattern {
    Pattern::glob(text, separator).unwrap()
}

/// `(pattern, texts that match, texts that do not)`, separated by spaces.
type Row = (&'static str, &'static str, &'static str);

fn check(separator: Separator, rows: &[Row]) {
    for (text, matching, others) in rows {
        let pattern = pattern(text, separator);
        for candidate in matching.split_whitespace() {
            assert!(pattern.matches(candidate.as_bytes()), "{text} must match {candidate}");
        }
        for candidate in others.split_whitespace() {
            assert!(!pattern.matches(candidate.as_bytes()), "{text} must not match {candidate}");
        }
    }
}

#[test]
fn paths_are_matched_component_by_component() {
    check(
        Separator::Slash,
        &[
            (
                "/repos/*/issues",
                "/repos/a/issues /repos//issues",
                "/repos/a/b/issues /repos/issues /repos/a/issues/",
            ),
            ("/deep/**", "/deep/x /deep/x/y /deep/", "/deep /deeper/x /x/deep/y"),
            ("**", "/ /a /a/b/c", ""),
            ("/**", "/ /a /a/b", ""),
            ("/a/**/z", "/a/z /a/b/z /a/b/c/z", "/az /a/bz /a/z/"),
            ("**/z", "/z /a/z /a/b/z z", "/az /z/"),
            ("/a/*", "/a/b /a/", "/a/b/c /a"),
            ("/a*", "/a /ab", "/a/b /b"),
            ("/a**", "/a /ab", "/a/b"),
            ("/a/b?", "/a/bc", "/a/b /a/b/ /a/bcd"),
            ("/v[12]/x", "/v1/x /v2/x", "/v3/x /v12/x"),
            ("/v[!12]/x", "/v3/x", "/v1/x"),
            ("/v[^1]/x", "/v2/x", "/v1/x"),
            ("/v[a-c-]/x", "/va/x /vc/x /v-/x", "/vd/x"),
            ("/v[]]/x", "/v]/x", "/v/x"),
            ("/{a,bc}/x", "/a/x /bc/x", "/b/x /ac/x /abc/x"),
            ("/{a*,b?}/x", "/a/x /aaa/x /bb/x", "/b/x"),
            ("/a\\*", "/a*", "/ab /a"),
            ("/a,b", "/a,b", "/a"),
            ("", "", "/ a"),
        ],
    );
}

#[test]
fn hosts_and_query_values_are_matched_label_by_label() {
    check(
        Separator::Dot,
        &[
            ("*.example.com", "a.example.com", "example.com a.b.example.com a.example.org"),
            ("**.example.com", "a.example.com a.b.example.com", "example.com xexample.com"),
            ("*-x.a.b", "foo-x.a.b -x.a.b", "foo.x.a.b a-x.c.a.b"),
            (
                "*.s3.*.amazonaws.com",
                "b.s3.eu-west-1.amazonaws.com",
                "s3.eu.amazonaws.com b.s3.a.b.amazonaws.com",
            ),
            ("v1.*", "v1.2 v1.", "v1.2.3 v1 v1x2"),
            ("v1.**", "v1.2 v1.2.3", "v1 v1x"),
            ("*", "a a/b", "a.b"),
            ("**", "a a.b a/b.c", ""),
            ("a**b", "ab axb", "a.b"),
            ("a.**.b", "a.x.b a.x.y.b a..b", "a.b ab"),
            ("open", "open", "opened Open"),
        ],
    );
}

#[test]
fn broken_patterns_are_refused() {
    for (text, expected) in [
        ("/[a", PatternError::Unclosed('[')),
        ("/{a", PatternError::Unclosed('{')),
        ("/a}", PatternError::Unopened('}')),
        ("/[b-a]", PatternError::BadRange('b', 'a')),
        ("/[\u{e9}]", PatternError::NonAsciiClass),
        ("/a\\", PatternError::DanglingEscape),
        ("/{a,**}", PatternError::StarsInBraces),
        ("/{a,{b}}", PatternError::Nested),
        (&"a".repeat(1025), PatternError::TooLong),
        (&format!("{{{0}}}{{{0}}}", vec!["a"; 255].join(",")), PatternError::TooComplex),
    ] {
        assert_eq!(Pattern::glob(text, Separator::Slash), Err(expected), "{text}");
    }
}

#[test]
fn inclusion_and_overlap_are_proved() {
    for (one, two, within, overlaps) in [
        ("/a", "/a", true, true),
        ("/a", "/*", true, true),
        ("/*", "/a", false, true),
        ("/*", "/**", true, true),
        ("/**", "/*", false, true),
        ("/a/*/c", "/a/**", true, true),
        ("/a/*/c", "/a/**/c", true, true),
        ("/a/**/c", "/a/*/c", false, true),
        ("/a/{b,c}", "/a/[b-d]", true, true),
        ("/a/[b-d]", "/a/{b,c}", false, true),
        ("/a*b", "/a*", true, true),
        ("/a*", "/b*", false, false),
        ("/a/**", "/b/**", false, false),
        ("/*/x", "/a/*", false, true),
        ("**", "/**", false, true),
        ("/**", "**", true, true),
        ("/a/**", "/a/**/**", true, true),
        ("/a?", "/a*", true, true),
        ("*", "**", true, true),
    ] {
        let left = pattern(one, Separator::Slash);
        let right = pattern(two, Separator::Slash);
        assert_eq!(left.within(&right, &ProofBudget::default()), within, "{one} within {two}");
        assert_eq!(left.overlaps(&right, &ProofBudget::default()), overlaps, "{one} overlaps {two}");
        assert_eq!(right.overlaps(&left, &ProofBudget::default()), overlaps, "{two} overlaps {one}");
    }
}

/// As the engine behind OpenShell calls globset: other separators are spelled with slashes.
fn reference(text: &str, candidate: &str, separator: Separator) -> Option<bool> {
    let spell = |text: &str| match separator {
        Separator::Slash => text.to_owned(),
        Separator::Dot => text.replace('/', "\0").replace('.', "/./"),
    };
    let glob = GlobBuilder::new(&spell(text)).literal_separator(true).build().ok()?;
    Some(glob.compile_matcher().is_match(spell(candidate)))
}

fn glob_text(separator: char) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "-"]).prop_map(str::to_owned),
        3 => Just(separator.to_string()),
        3 => prop::sample::select(vec!["*", "**", "?", "[ab]", "[!a]", "{a,b}", "{a*,b?}"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn plain_text(separator: char) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!['a', 'b', '-', separator]), 0..8)
        .prop_map(|characters| characters.into_iter().collect())
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(600))]

    #[test]
    fn slashes_are_read_as_globset_reads_them(text in glob_text('/'), candidate in plain_text('/')) {
        if let (Ok(pattern), Some(expected)) =
            (Pattern::glob(&text, Separator::Slash), reference(&text, &candidate, Separator::Slash))
        {
            prop_assert_eq!(pattern.matches(candidate.as_bytes()), expected, "{} on {}", text, candidate);
        }
    }

    #[test]
    fn dots_are_read_as_globset_reads_them(text in glob_text('.'), candidate in plain_text('.')) {
        // A class that excludes something may match one of the slashes that spell a dot; ours never does.
        if let (false, Ok(pattern), Some(expected)) = (
            text.contains("[!"),
            Pattern::glob(&text, Separator::Dot),
            reference(&text, &candidate, Separator::Dot),
        ) {
            prop_assert_eq!(pattern.matches(candidate.as_bytes()), expected, "{} on {}", text, candidate);
        }
    }

    #[test]
    fn what_is_proved_holds(one in glob_text('/'), two in glob_text('/'), candidate in plain_text('/')) {
        if let (Ok(left), Ok(right)) = (Pattern::glob(&one, Separator::Slash), Pattern::glob(&two, Separator::Slash)) {
            let in_left = left.matches(candidate.as_bytes());
            let in_right = right.matches(candidate.as_bytes());
            prop_assert!(!(left.within(&right, &ProofBudget::default()) && in_left && !in_right), "{} within {}: {}", one, two, candidate);
            prop_assert!(left.overlaps(&right, &ProofBudget::default()) || !(in_left && in_right), "{} apart {}: {}", one, two, candidate);
        }
    }

    #[test]
    fn no_pattern_makes_it_panic(text in "[\\[\\]{}!^*?,\\\\/.a-]{0,40}", candidate in "\\PC{0,20}") {
        if let Ok(pattern) = Pattern::glob(&text, Separator::Dot) {
            pattern.matches(candidate.as_bytes());
            prop_assert!(pattern.within(&pattern, &ProofBudget::default()));
        }
    }
}
