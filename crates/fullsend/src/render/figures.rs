//! Figures for people: how long, how much, how many.

use crate::record::Record;

/// `340 ms`, `3.2 s`, `42 s`, `3 min 5 s`, `1 h 4 min`.
pub fn duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => format!("{seconds}.{} s", millis % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `$0.0123`, `unpriced`, or nothing if no model answered.
pub fn cost(record: &Record) -> Option<String> {
    let unpriced = record.usage.values().any(|used| used.usd.is_none());
    match record.usd() {
        _ if record.usage.is_empty() => None,
        None => Some("unpriced".to_owned()),
        Some(usd) if unpriced => Some(format!("${usd:.4} and unpriced models")),
        Some(usd) => Some(format!("${usd:.4}")),
    }
}

/// `1 file`, `2 files`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ModelUsage;

    #[test]
    fn durations_have_two_figures() {
        for (millis, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (3_250, "3.2 s"),
            (42_900, "42 s"),
            (185_000, "3 min 5 s"),
            (3_840_000, "1 h 4 min"),
        ] {
            assert_eq!(duration(millis), expected);
        }
    }

    #[test]
    fn a_model_without_a_price_costs_not_nothing() {
        let mut record = Record::default();
        assert_eq!(cost(&record), None);
        record.usage.insert("a".to_owned(), ModelUsage::default());
        assert_eq!(cost(&record).as_deref(), Some("unpriced"));
        record.usage.insert("b".to_owned(), ModelUsage { usd: Some(0.25), ..ModelUsage::default() });
        assert_eq!(cost(&record).as_deref(), Some("$0.2500 and unpriced models"));
    }
}
