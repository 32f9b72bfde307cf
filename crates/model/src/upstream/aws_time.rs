//! Times as AWS writes them: `20150830T123600Z` in signatures, `2015-08-30T12:36:00Z` in credentials.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) fn timestamp(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// The Gregorian date of a day since 1970-01-01, by eras of 400 years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// `2015-08-30T12:36:00Z`. Parts of a second are dropped.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let year = number(0, 4)?;
    let month = number(5, 7)?;
    let day = number(8, 10)?;
    let hour = number(11, 13)?;
    let minute = number(14, 16)?;
    let second = number(17, 19)?;
    if !text.ends_with('Z') || !(1..=12).contains(&month) || year < 1970 {
        return None;
    }
    let shifted_year = year - u64::from(month <= 2);
    let era = shifted_year / 400;
    let year_of_era = shifted_year % 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    let days = (era * 146_097 + of_era).checked_sub(719_468)?;
    Some(UNIX_EPOCH + Duration::from_secs(days * 86_400 + hour * 3600 + minute * 60 + second))
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
        for text in ["", "2015-08-30", "2015-08-30T12:36:00+02:00", "2015-13-30T12:36:00Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
