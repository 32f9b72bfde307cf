//! Schedules of five fields, as cron has them: minute, hour, day of the month, month, day of the week. Times are UTC. A field is
//! `*`, a number, a range `a-b`, a step `*/n` or `a-b/n`, or several of these with commas. If both days are given, either fits.

use crate::log::time::Timestamp;

const MINUTE_MS: i64 = 60_000;
const DAY_MINUTES: i64 = 24 * 60;

/// The longest search for the next time. 29 February comes within eight years.
const MAX_DAYS: i64 = 366 * 8 + 2;

struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether the field is not `*`.
    has_days: bool,
    has_weekdays: bool,
}

/// The first time of a schedule after another time; `None` if the schedule is not valid or has no time.
#[must_use]
pub fn next_after(schedule: &str, after: Timestamp) -> Option<Timestamp> {
    let schedule = Schedule::parse(schedule)?;
    let first = after.0.div_euclid(MINUTE_MS) + 1;
    let first_day = first.div_euclid(DAY_MINUTES);
    for day in first_day..first_day + MAX_DAYS {
        if !schedule.has_day(day) {
            continue;
        }
        let from = if day == first_day { first.rem_euclid(DAY_MINUTES) } else { 0 };
        if let Some(minute) = (from..DAY_MINUTES).find(|minute| schedule.has_minute(*minute)) {
            return Some(Timestamp((day * DAY_MINUTES + minute) * MINUTE_MS));
        }
    }
    None
}

impl Schedule {
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else { return None };
        Some(Self {
            minutes: field(minutes, 0, 59)?,
            hours: field(hours, 0, 23)?,
            days: field(days, 1, 31)?,
            months: field(months, 1, 12)?,
            // 0 and 7 are both Sunday.
            weekdays: field(weekdays, 0, 7).map(|bits| bits | (bits >> 7))?,
            has_days: days != "*",
            has_weekdays: weekdays != "*",
        })
    }

    fn has_day(&self, day: i64) -> bool {
        let (month, day_of_month) = date(day);
        // 1 January 1970 was a Thursday.
        let weekday = (day + 4).rem_euclid(7);
        let day_fits = has(self.days, day_of_month);
        let weekday_fits = has(self.weekdays, weekday);
        let fits = if self.has_days && self.has_weekdays {
            day_fits || weekday_fits
        } else {
            day_fits && weekday_fits
        };
        has(self.months, month) && fits
    }

    fn has_minute(&self, minute: i64) -> bool {
        has(self.hours, minute / 60) && has(self.minutes, minute % 60)
    }
}

fn has(bits: u64, number: i64) -> bool {
    bits >> number & 1 == 1
}

/// A field as a set of bits.
fn field(text: &str, lowest: u32, highest: u32) -> Option<u64> {
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (lowest, highest),
            Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
            None if step > 1 => (range.parse().ok()?, highest),
            None => (range.parse().ok()?, range.parse().ok()?),
        };
        if first < lowest || last > highest || first > last {
            return None;
        }
        (first..=last).step_by(step as usize).for_each(|number| bits |= 1 << number);
    }
    Some(bits)
}

/// The month and the day of the month of a day since 1970, in the Gregorian calendar.
fn date(day: i64) -> (i64, i64) {
    // Years that start in March end with the leap day. 719,468 days lie between 1 March of the year 0 and 1970.
    let shifted = day + 719_468;
    let day_of_era = shifted.rem_euclid(146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    (if month < 10 { month + 3 } else { month - 9 }, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16 09:00:30 UTC, a Monday.
    const MONDAY: i64 = 1_794_819_630_000;

    fn minutes_later(schedule: &str) -> Option<i64> {
        next_after(schedule, Timestamp(MONDAY)).map(|at| (at.0 - (MONDAY - 30_000)) / MINUTE_MS)
    }

    #[test]
    fn the_next_time_of_a_schedule() {
        for (schedule, expected) in [
            ("* * * * *", 1),
            ("*/15 * * * *", 15),
            ("0 9 * * *", 24 * 60),
            ("5,50 8-10 * * *", 5),
            ("0 12 * * 1", 3 * 60),
            ("0 9 * * 0", 6 * 24 * 60),
            ("0 9 * * 7", 6 * 24 * 60),
            ("0 0 1 12 *", 15 * 60 + 14 * 24 * 60),
            ("0 9 17 * 3", 24 * 60),
            ("30 9 16 11 *", 30),
        ] {
            assert_eq!(minutes_later(schedule), Some(expected), "{schedule}");
        }
        let leap = next_after("0 0 29 2 *", Timestamp(MONDAY)).unwrap();
        assert_eq!(leap, Timestamp(1_835_395_200_000), "29 February 2028");
    }

    #[test]
    fn invalid_schedule_has_no_next_time() {
        for bad in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "5-1 * * * *",
            "a * * * *",
            "*/0 * * * *",
            "0 0 30 2 *",
        ] {
            assert_eq!(minutes_later(bad), None, "{bad}");
        }
    }
}
