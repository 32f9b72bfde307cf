//! Points in time, as dates and RFC 3339 text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub fn millis(self) -> u64 {
        self.0
    }

    /// Reads RFC 3339 in UTC, from 1970 on. Fractions of a second are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let numbers = |text: &str, separator: char| {
            let parts: Vec<u64> = text.split(separator).map(str::parse).collect::<Result<_, _>>().ok()?;
            <[u64; 3]>::try_from(parts).ok()
        };
        let [year, month, day] = numbers(date, '-')?;
        let [hour, minute, second] = numbers(time.split_once('.').map_or(time, |(whole, _)| whole), ':')?;
        let usual = (1970..10_000).contains(&year) && hour < 24 && minute < 60 && second < 61;
        // Search the days from the start of that year.
        let from = (year - 1970.min(year)) * 365;
        let days = (from..from + 3_000).find(|days| civil(*days) == (year, month, day)).filter(|_| usual)?;
        Some(Self((days * 86_400 + hour * 3600 + minute * 60 + second) * 1000))
    }

    /// YYYY-MM-DD.
    pub fn date(self) -> String {
        let (year, month, day) = civil(self.0 / 86_400_000);
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// RFC 3339 with milliseconds.
    pub fn rfc3339(self) -> String {
        let of_day = self.0 / 1000 % 86_400;
        let millis = self.0 % 1000;
        let hour = of_day / 3600;
        let minute = of_day / 60 % 60;
        let second = of_day % 60;
        format!("{}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z", self.date())
    }
}

/// The Gregorian date of a day counted from 1970-01-01, by counting in eras of 400 years that start in March.
pub fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn moments_are_written_as_the_calendar_says() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Moment::from_millis(millis).rfc3339(), expected);
            assert_eq!(Moment::parse(expected), Some(Moment::from_millis(millis / 1000 * 1000)));
        }
        for text in [
            "2023-02-29T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01",
            "",
            "1-1-1T1:1:1Z",
            "2024-01-01T00:00:00+01:00",
        ] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
        assert_eq!(Moment::parse("9999-12-31T23:59:59Z").unwrap().date(), "9999-12-31");
    }
}
