//! Times as AWS writes them in credentials: `2015-08-30T12:36:00Z`.

use std::time::SystemTime;

use time::{Date, Month, Time};

/// `2015-08-30T12:36:00Z`. Parts of a second are dropped.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    if !text.ends_with('Z') {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u8>().ok();
    let month = Month::try_from(number(5, 7)?).ok()?;
    let date = Date::from_calendar_date(text.get(0..4)?.parse().ok()?, month, number(8, 10)?).ok()?;
    let time = Time::from_hms(number(11, 13)?, number(14, 16)?, number(17, 19)?).ok()?;
    Some(date.with_time(time).assume_utc().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_read() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2015-08-30T12:36:00Z", 1_440_938_160),
            ("2024-02-29T23:59:59.123Z", 1_709_251_199),
            ("2100-03-01T00:00:01Z", 4_107_542_401),
        ] {
            assert_eq!(parse(text), Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)));
        }
        for text in
            ["", "2015-08-30", "2015-08-30T12:36:00+02:00", "2015-13-30T12:36:00Z", "2015-02-30T12:36:00Z"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
