//! If one policy is said to lie within another, then nothing passes under the first that the second refuses.

use policy::subset;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::generate::{HttpSpec, altered, narrowed, spec};
use crate::universe::{decisions, widening};

fn check(inner: &crate::generate::Spec, outer: &crate::generate::Spec) -> Result<(), String> {
    let (Some(low), Some(high)) = (inner.read(), outer.read()) else { return Ok(()) };
    let Ok(confined) = subset(&low, &high) else { return Ok(()) };
    match widening(&confined, &high) {
        None => Ok(()),
        Some(found) => Err(format!("{found}\n--- inner\n{}--- outer\n{}", inner.text(), outer.text())),
    }
}

proptest::proptest! {
    #![proptest_config(crate::config(256, "subset"))]

    #[test]
    fn nothing_passes_below_that_is_refused_above((inner, outer) in narrowed()) {
        let outcome = check(&inner, &outer);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn nothing_passes_below_that_is_refused_above_after_any_change((inner, outer) in altered()) {
        let outcome = check(&inner, &outer);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn nothing_passes_below_that_is_refused_above_in_unrelated_policies(inner in spec(), outer in spec()) {
        let outcome = check(&inner, &outer);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn every_policy_lies_within_itself(outer in spec()) {
        if let Some(policy) = outer.read() {
            let within = subset(&policy, &policy);
            prop_assert!(within.is_ok(), "{:?}\n{}", within.unwrap_err(), outer.text());
        }
    }

    #[test]
    fn a_deny_rule_never_allows_more(before in spec(), which in 0..4usize, path in 0..3usize) {
        let mut after = before.clone();
        let readers = after.rules.iter_mut().flat_map(|rule| &mut rule.endpoints).filter(|endpoint| endpoint.reads());
        let Some(endpoint) = readers.into_iter().nth(which) else { return Ok(()) };
        let path = ["**", "/x/**", "/x/a"][path];
        endpoint.deny.push(HttpSpec { method: ["*", "GET", "POST", "HEAD"][which], path, query: None });
        if let (Some(old), Some(new)) = (before.read(), after.read()) {
            let more = decisions(&old).iter().zip(decisions(&new)).any(|(old, new)| new && !old);
            prop_assert_eq!(more, false, "{}", after.text());
        }
    }
}

/// The properties above would be empty if `subset` refused everything.
#[test]
fn many_pairs_are_accepted() {
    let mut runner = TestRunner::deterministic();
    let mut accepted = 0;
    let mut changed = 0;
    let mut read = 0;
    for _ in 0..600 {
        let (inner, outer) = narrowed().new_tree(&mut runner).unwrap().current();
        let (Some(low), Some(high)) = (inner.read(), outer.read()) else { continue };
        read += 1;
        if subset(&low, &high).is_ok() {
            accepted += 1;
            changed += usize::from(inner.text() != outer.text());
        }
    }
    assert!(
        read > 300 && accepted * 2 > read && changed * 4 > read,
        "{read} read, {accepted} accepted, {changed} of them changed"
    );
}
