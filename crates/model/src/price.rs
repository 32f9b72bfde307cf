//! What tokens cost: a versioned list that is part of the program. A model that is not on it is unpriced, never free.

use crate::wire::TokenUsage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Billionths of a dollar: a price per million tokens is then a whole number per token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Money(pub u64);

impl Money {
    pub fn from_usd(usd: f64) -> Option<Self> {
        let nanos = usd * 1e9;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked on this line"
        )]
        (nanos.is_finite() && (0.0..1e18).contains(&nanos)).then(|| Self(nanos.round() as u64))
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ten_thousandths = self.0.div_ceil(100_000);
        write!(f, "${}.{:04}", ten_thousandths / 10_000, ten_thousandths % 10_000)
    }
}

/// Per token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    pub input: Money,
    pub output: Money,
    pub cache_read: Money,
    pub cache_write: Money,
    pub cache_write_hour: Money,
    /// The longest answer the model gives: reserved where a request sets no bound of its own.
    pub max_output_tokens: u64,
}

impl Price {
    pub fn cost(&self, usage: &TokenUsage) -> Money {
        let TokenUsage { input, output, cache_read, cache_write, cache_write_hour } = *usage;
        let parts = [
            (self.input, input),
            (self.output, output),
            (self.cache_read, cache_read),
            (self.cache_write, cache_write),
            (self.cache_write_hour, cache_write_hour),
        ];
        parts.iter().fold(Money(0), |sum, (price, tokens)| sum.plus(Money(price.0.saturating_mul(*tokens))))
    }

    /// The most that a token of a request can cost, however the vendor caches it.
    pub fn dearest_input(&self) -> Money {
        self.input.max(self.cache_write).max(self.cache_write_hour)
    }
}

#[derive(Debug, Clone)]
pub struct PriceList {
    pub version: String,
    prices: BTreeMap<String, Price>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListForm {
    version: String,
    #[serde(rename = "unit")]
    _unit: String,
    models: BTreeMap<String, PriceForm>,
}

/// In dollars for a million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceForm {
    input: f64,
    output: f64,
    cache_read: f64,
    #[serde(default)]
    cache_write: Option<f64>,
    #[serde(default)]
    cache_write_hour: Option<f64>,
    max_output_tokens: u64,
}

#[derive(Debug)]
pub enum PriceError {
    Parse(serde_json::Error),
    Amount { model: String },
}

impl fmt::Display for PriceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(source) => write!(f, "the price list is not valid: {source}"),
            Self::Amount { model } => write!(f, "the price list has an impossible amount for {model}"),
        }
    }
}

impl std::error::Error for PriceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Parse(source) => Some(source),
            Self::Amount { .. } => None,
        }
    }
}

impl PriceList {
    /// The list that this program was built with.
    ///
    /// # Panics
    /// Never: a test reads the same file.
    pub fn built_in() -> Self {
        #[expect(clippy::expect_used, reason = "the file is part of the program, and a test reads it")]
        Self::parse(include_bytes!("../data/prices.json")).expect("the built-in price list is right")
    }

    pub fn parse(text: &[u8]) -> Result<Self, PriceError> {
        let ListForm { version, _unit, models } = serde_json::from_slice(text).map_err(PriceError::Parse)?;
        let mut prices = BTreeMap::new();
        for (model, form) in models {
            let price = form.into_price().ok_or_else(|| PriceError::Amount { model: model.clone() })?;
            prices.insert(model, price);
        }
        Ok(Self { version, prices })
    }

    /// Finds the longest listed name that the model's name starts with, if only a date or a known suffix follows it.
    pub fn price(&self, model: &str) -> Option<&Price> {
        let model = model.rsplit('/').next().unwrap_or(model);
        self.prices
            .iter()
            .filter(|(name, _)| is_same_model(name, model))
            .max_by_key(|(name, _)| name.len())
            .map(|(_, price)| price)
    }
}

/// Whether `model` is `name`, perhaps with a date or a known suffix.
pub(crate) fn is_same_model(name: &str, model: &str) -> bool {
    let name = name.strip_suffix("[1m]").unwrap_or(name);
    model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || is_dated(rest))
}

/// `-20250929`, `-2025-08-07`, `@20250929`, `[1m]`, `-latest`: the same model under a longer name.
fn is_dated(rest: &str) -> bool {
    let rest = rest.strip_suffix("[1m]").unwrap_or(rest);
    if rest.is_empty() || rest == "-latest" {
        return true;
    }
    let digits = rest.trim_start_matches(['-', '@']);
    digits.len() < rest.len()
        && digits.bytes().filter(u8::is_ascii_digit).count() == 8
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

impl PriceForm {
    fn into_price(self) -> Option<Price> {
        let per_token = |usd_per_million: f64| Money::from_usd(usd_per_million / 1e6);
        let input = per_token(self.input)?;
        Some(Price {
            input,
            output: per_token(self.output)?,
            cache_read: per_token(self.cache_read)?,
            cache_write: self.cache_write.map_or(Some(input), per_token)?,
            cache_write_hour: self.cache_write_hour.or(self.cache_write).map_or(Some(input), per_token)?,
            max_output_tokens: self.max_output_tokens,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_right_and_its_models_are_found() {
        let list = PriceList::built_in();
        assert!(!list.version.is_empty());
        for (name, price) in &list.prices {
            assert!(price.output >= price.input && price.max_output_tokens > 0, "{name}");
            assert_eq!(list.price(name), Some(price));
        }
    }

    #[test]
    fn longer_names_of_a_model_find_it_and_other_models_do_not() {
        let text = r#"{"version":"1","unit":"usd per million tokens","models":{
            "m-4":{"input":1,"output":2,"cache_read":0.1,"max_output_tokens":10},
            "m-4-mini":{"input":0.5,"output":1,"cache_read":0.1,"max_output_tokens":10}}}"#;
        let list = PriceList::parse(text.as_bytes()).unwrap();
        let input = |name: &str| list.price(name).map(|price| price.input.0);
        for name in
            ["m-4", "m-4-20250929", "m-4-2025-09-29", "m-4@20250929", "m-4[1m]", "m-4-latest", "a/m-4"]
        {
            assert_eq!(input(name), Some(1000), "{name}");
        }
        assert_eq!(input("m-4-mini-20250929"), Some(500));
        for name in ["m-40", "m-4-maxi", "m-4.5", "xm-4", "m", ""] {
            assert_eq!(input(name), None, "{name}");
        }
    }

    #[test]
    fn cost_is_exact_and_shown_rounded_up() {
        let price = Price {
            input: Money(3000),
            output: Money(15_000),
            cache_read: Money(300),
            cache_write: Money(3750),
            cache_write_hour: Money(6000),
            max_output_tokens: 1,
        };
        let usage = TokenUsage { input: 1, output: 2, cache_read: 3, cache_write: 4, cache_write_hour: 5 };
        assert_eq!(price.cost(&usage), Money(3000 + 30_000 + 900 + 15_000 + 30_000));
        assert_eq!(Money(1).to_string(), "$0.0001");
        assert_eq!(Money::from_usd(1.5).unwrap().to_string(), "$1.5000");
        assert_eq!(Money::from_usd(f64::NAN), None);
        assert_eq!(Money::from_usd(-1.0), None);
    }
}
