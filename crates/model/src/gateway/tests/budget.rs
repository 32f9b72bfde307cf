//! Budgets of the gateway: dollars, turns and tokens.

use super::*;

#[test]
fn a_dollar_budget_refuses_a_model_without_a_price() {
    let usd = Some(Money::from_usd(10.0).unwrap());
    let gateway = gateway(
        &plain(),
        TestSetup { budget: BudgetLimits { usd, ..BudgetLimits::default() }, ..TestSetup::default() },
    );
    let mut request = request("go", true);
    request.model = "unheard-of".into();
    let error = gateway.ask(&request).unwrap_err().to_string();
    assert!(error.contains("unheard-of has no price"), "{error}");
}

#[test]
fn turns_and_tokens_are_bounded_too() {
    for (budget, reason) in [
        (BudgetLimits { turns: Some(2), ..BudgetLimits::default() }, "2 of 2 turns are used"),
        (BudgetLimits { tokens: Some(2600), ..BudgetLimits::default() }, "of 2600 tokens are spent"),
    ] {
        let gateway = gateway(
            &json!({"turns": [[{"text": "x"}, {"usage": {"output": 700}}]]}),
            TestSetup { budget, ..TestSetup::default() },
        );
        gateway.ask(&request("one", true)).unwrap();
        gateway.ask(&request("two", false)).unwrap();
        let error = gateway.ask(&request("three", true)).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
