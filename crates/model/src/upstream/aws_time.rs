//! Times as AWS writes them: `20150830T123600Z` in signatures, `2015-08-30T12:36:00Z` in credentials.

use std::time::SystemTime;

use time::{Date, Month, OffsetDateTime, Time};

pub(super) fn timestamp(now: SystemTime) -> String {
    let at = OffsetDateTime::from(now);
    let month = u8::from(at.month());
    let time = format!("{:02}{:02}{:02}", at.hour(), at.minute(), at.second());
    format!("{:04}{month:02}{:02}T{time}Z", at.year(), at.day())
}

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

    #[test]
    fn times_are_written_and_read() {
        for (text, written) in [
            ("1970-01-01T00:00:00Z", "19700101T000000Z"),
            ("2015-08-30T12:36:00Z", "20150830T123600Z"),
            ("2024-02-29T23:59:59.123Z", "20240229T235959Z"),
            ("2100-03-01T00:00:01Z", "21000301T000001Z"),
        ] {
            assert_eq!(timestamp(parse(text).unwrap()), written);
        }
        for text in
            ["", "2015-08-30", "2015-08-30T12:36:00+02:00", "2015-13-30T12:36:00Z", "2015-02-30T12:36:00Z"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
