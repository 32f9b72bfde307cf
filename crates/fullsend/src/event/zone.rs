//! Local time: the offset from UTC at a moment, from a time zone file (TZif). It reads no file itself.

use super::clock::{Moment, civil};

/// The offsets of one place over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeZone {
    /// From this second on (Unix time), this many seconds east of UTC. In order.
    changes: Vec<(i64, i64)>,
    /// Before the first change.
    first: i64,
    /// After the last change.
    rule: Option<Rule>,
}

/// The offsets that repeat every year, as the last line of a time zone file gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    standard: i64,
    /// Summer time: its offset, its start and its end.
    summer: Option<(i64, YearDay, YearDay)>,
}

/// The `week`-th `weekday` of a month (5 is the last, 0 is Sunday), and a second of that day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct YearDay {
    month: u64,
    week: u64,
    weekday: u64,
    second: i64,
}

impl TimeZone {
    /// Reads a time zone file of version 2 or later.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (first_block, _) = Block::read(bytes, 4)?;
        let (block, rest) = Block::read(bytes.get(first_block.length..)?, 8)?;
        let footer = std::str::from_utf8(rest).ok()?.trim_matches('\n');
        let changes: Vec<(i64, i64)> = block.changes()?;
        Some(Self { changes, first: block.offset(0)?, rule: parse_rule(footer) })
    }

    /// Seconds east of UTC.
    fn offset(&self, second: i64) -> i64 {
        let after_last = self.changes.last().is_none_or(|(last, _)| second >= *last);
        if let Some(rule) = self.rule.filter(|_| after_last) {
            return rule.offset(second);
        }
        let before = self.changes.partition_point(|(start, _)| *start <= second);
        before.checked_sub(1).map_or(self.first, |index| self.changes[index].1)
    }

    /// `2026-11-16 10:12:18 +01:00`.
    pub fn show(&self, moment: Moment) -> String {
        let second = i64::try_from(moment.millis() / 1000).unwrap_or(i64::MAX);
        let offset = self.offset(second);
        let local = u64::try_from(second.saturating_add(offset)).unwrap_or(0);
        let text = Moment::from_millis(local * 1000).rfc3339();
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.unsigned_abs() / 60;
        let date = text.get(..10).unwrap_or_default();
        let time = text.get(11..19).unwrap_or_default();
        format!("{date} {time} {sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }

    /// The same for RFC 3339 text in UTC. Other text stays as it is.
    pub fn show_text(&self, utc: &str) -> String {
        Moment::parse(utc).map_or_else(|| utc.to_owned(), |moment| self.show(moment))
    }
}

/// One of the two blocks of a time zone file; the second has times of 8 bytes.
struct Block<'a> {
    times: &'a [u8],
    kinds: &'a [u8],
    types: &'a [u8],
    length: usize,
    width: usize,
}

impl<'a> Block<'a> {
    /// The block and what follows it.
    fn read(bytes: &'a [u8], width: usize) -> Option<(Self, &'a [u8])> {
        const HEADER: usize = 44;
        let head = bytes.get(..HEADER)?;
        if !head.starts_with(b"TZif") || head[4] < b'2' {
            return None;
        }
        let count = |index: usize| {
            let at = 20 + 4 * index;
            usize::try_from(u32::from_be_bytes(head[at..at + 4].try_into().ok()?)).ok()
        };
        let [utc_flags, standard_flags, leaps, times, types, letters] =
            [count(0)?, count(1)?, count(2)?, count(3)?, count(4)?, count(5)?];
        let kinds_at = HEADER + times * width;
        let types_at = kinds_at + times;
        let end = types_at + types * 6 + letters + leaps * (width + 4) + standard_flags + utc_flags;
        let block = Self {
            times: bytes.get(HEADER..kinds_at)?,
            kinds: bytes.get(kinds_at..types_at)?,
            types: bytes.get(types_at..types_at + types * 6)?,
            length: end,
            width,
        };
        Some((block, bytes.get(end..)?))
    }

    fn offset(&self, kind: usize) -> Option<i64> {
        let bytes = self.types.get(kind * 6..kind * 6 + 4)?;
        Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?)))
    }

    fn changes(&self) -> Option<Vec<(i64, i64)>> {
        let times = self.times.chunks_exact(self.width);
        let change = |(time, kind): (&[u8], &u8)| {
            Some((i64::from_be_bytes(time.try_into().ok()?), self.offset(usize::from(*kind))?))
        };
        times.zip(self.kinds).map(change).collect()
    }
}

impl Rule {
    fn offset(self, second: i64) -> i64 {
        let Some((offset, start, end)) = self.summer else { return self.standard };
        let day = u64::try_from(second.saturating_add(self.standard)).unwrap_or(0) / 86_400;
        let (year, ..) = civil(day);
        let start = start.second_of(year) - self.standard;
        let end = end.second_of(year) - offset;
        // In the southern hemisphere summer time spans the new year.
        let is_summer =
            if start < end { (start..end).contains(&second) } else { !(end..start).contains(&second) };
        if is_summer { offset } else { self.standard }
    }
}

impl YearDay {
    /// Seconds since 1970 in local time.
    fn second_of(self, year: u64) -> i64 {
        let first = first_day(year, self.month);
        // 1970-01-01 was a Thursday.
        let weekday = (first + 4) % 7;
        let mut day = first + (self.weekday + 7 - weekday) % 7 + (self.week - 1) * 7;
        let (next_year, next_month) = if self.month == 12 { (year + 1, 1) } else { (year, self.month + 1) };
        if day >= first_day(next_year, next_month) {
            day -= 7;
        }
        i64::try_from(day * 86_400).unwrap_or(i64::MAX) + self.second
    }
}

/// The first day of a month, counted from 1970-01-01.
fn first_day(year: u64, month: u64) -> u64 {
    let guess = (year.max(1970) - 1970) * 365 + (month - 1) * 28;
    (guess..guess + 800).find(|day| civil(*day) == (year, month, 1)).unwrap_or(guess)
}

/// `CET-1CEST,M3.5.0,M10.5.0/3`. Rules in another form are ignored; then the last offset applies.
fn parse_rule(text: &str) -> Option<Rule> {
    let mut parts = text.split(',');
    let names = parts.next()?;
    let (_, rest) = take_name(names)?;
    let (standard, rest) = take_time(rest)?;
    let standard = -standard;
    if rest.is_empty() {
        return Some(Rule { standard, summer: None });
    }
    let (_, rest) = take_name(rest)?;
    let summer = if rest.is_empty() { standard + 3600 } else { -take_time(rest)?.0 };
    let start = year_day(parts.next()?)?;
    let end = year_day(parts.next()?)?;
    Some(Rule { standard, summer: Some((summer, start, end)) })
}

/// A name such as `CET` or `<+0330>`.
fn take_name(text: &str) -> Option<(&str, &str)> {
    let end = match text.strip_prefix('<') {
        Some(quoted) => quoted.find('>')? + 2,
        None => text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len()),
    };
    (end > 0).then(|| text.split_at(end))
}

/// `[+-]h[:mm[:ss]]` in seconds, and the rest.
fn take_time(text: &str) -> Option<(i64, &str)> {
    let digits = text.trim_start_matches(['+', '-']);
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(digits.len());
    let (time, rest) = digits.split_at(end);
    let mut seconds = 0;
    for (part, unit) in time.split(':').zip([3600, 60, 1]) {
        seconds += part.parse::<i64>().ok().filter(|number| *number < 200)? * unit;
    }
    Some((if text.starts_with('-') { -seconds } else { seconds }, rest))
}

/// `M3.5.0/2`: the last Sunday of March, at two.
fn year_day(text: &str) -> Option<YearDay> {
    let (day, time) = text.split_once('/').unwrap_or((text, "2"));
    let numbers: Vec<u64> =
        day.strip_prefix('M')?.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [month, week, weekday] = <[u64; 3]>::try_from(numbers).ok()?;
    let usual = (1..=12).contains(&month) && (1..=5).contains(&week) && weekday < 7;
    let (second, _) = take_time(time)?;
    usual.then_some(YearDay { month, week, weekday, second })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file without changes: everything follows from its last line.
    fn zone(rule: &str) -> TimeZone {
        let block = |types: &[u8]| {
            let mut bytes = b"TZif2".to_vec();
            bytes.resize(20, 0);
            for count in [0_u32, 0, 0, 0, 1, 4] {
                bytes.extend(count.to_be_bytes());
            }
            bytes.extend(types);
            bytes.extend(b"LMT\0");
            bytes
        };
        let types = [0, 0, 0, 0, 0, 0];
        let bytes = [block(&types), block(&types), format!("\n{rule}\n").into_bytes()].concat();
        TimeZone::parse(&bytes).unwrap()
    }

    #[test]
    fn summer_and_winter_have_their_offsets() {
        let check = |rule: &str, utc: &str, expected: &str| {
            assert_eq!(zone(rule).show_text(utc), expected, "{rule} {utc}");
        };
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        check(berlin, "2026-03-29T00:59:59Z", "2026-03-29 01:59:59 +01:00");
        check(berlin, "2026-03-29T01:00:00Z", "2026-03-29 03:00:00 +02:00");
        check(berlin, "2026-10-25T00:59:59Z", "2026-10-25 02:59:59 +02:00");
        check(berlin, "2026-10-25T01:00:00Z", "2026-10-25 02:00:00 +01:00");
        let sydney = "AEST-10AEDT,M10.1.0,M4.1.0/3";
        check(sydney, "2026-01-01T00:00:00Z", "2026-01-01 11:00:00 +11:00");
        check(sydney, "2026-07-01T00:00:00Z", "2026-07-01 10:00:00 +10:00");
        check("EST5EDT,M3.2.0,M11.1.0", "2026-11-16T02:00:00Z", "2026-11-15 21:00:00 -05:00");
        check("<+0545>-5:45", "2026-11-16T00:00:00Z", "2026-11-16 05:45:00 +05:45");
        check("UTC0", "2026-11-16T00:00:00.123Z", "2026-11-16 00:00:00 +00:00");
        check("UTC0", "yesterday", "yesterday");
    }

    #[test]
    fn damaged_files_are_no_time_zone() {
        for bytes in [&b""[..], b"TZif", b"TZif2aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
            assert_eq!(TimeZone::parse(bytes), None);
        }
        assert_eq!(TimeZone::default().show_text("2026-11-16T00:00:00Z"), "2026-11-16 00:00:00 +00:00");
    }
}
