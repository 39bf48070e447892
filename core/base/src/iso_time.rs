//! Times as text: ISO 8601 in UTC with milliseconds, such as `2026-11-24T03:12:07.123Z`. The log of every program uses them.

use core::time::Duration;

const DAY: u64 = 86_400;

/// Days from the 1st of March of the year 0 to the 1st of January 1970, in the proleptic Gregorian calendar. Years are counted from March, so that a leap
/// day is the last of its year.
const EPOCH: u64 = 719_468;

/// Days of 400 years.
const ERA: u64 = 146_097;

/// Last year that has four digits.
const LAST_YEAR: u64 = 9_999;

/// Returns the time since 1970 as text.
pub fn format_time(since_1970: Duration) -> String {
    let (seconds, milliseconds) = (since_1970.as_secs(), since_1970.subsec_millis());
    let (year, month, day) = civil(seconds / DAY);
    let of_day = seconds % DAY;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Reads `2026-11-24T03:12:07.123Z`, and shorter forms: without fraction, `Z`, seconds or time of day, and with a space for the `T`. All is UTC.
pub fn parse_time(text: &str) -> Option<Duration> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00"),
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-', [4, 2, 2], 3)?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2], 2)?;
    let in_range = (1970..=LAST_YEAR).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days(year, month, day);
    if civil(days) != (year, month, day) {
        return None;
    }
    let digits = fraction.len();
    if !(1..=9).contains(&digits) || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = fraction.parse::<u32>().ok()? * 10_u32.pow(9 - digits as u32);
    let seconds = days * DAY + hour * 3600 + minute * 60 + second;
    Some(Duration::from_secs(seconds) + Duration::from_nanos(u64::from(nanoseconds)))
}

/// Reads three numbers with `separator` between them, each with the given number of digits. Numbers after the first `needed` may be absent and count as 0.
fn numbers(text: &str, separator: char, digits: [usize; 3], needed: usize) -> Option<[u64; 3]> {
    let mut all = [0; 3];
    let mut parts = text.split(separator);
    for (place, digits) in digits.into_iter().enumerate() {
        match parts.next() {
            Some(part) if part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()) => {
                all[place] = part.parse().ok()?;
            }
            None if place >= needed => {}
            _ => return None,
        }
    }
    parts.next().is_none().then_some(all)
}

/// Returns year, month and day of a day since 1970 (Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(EPOCH);
    let (era, of_era) = (days / ERA, days % ERA);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Returns the day since 1970 of a date from 1970 on (`days_from_civil` of the same source).
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    (era * ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year).saturating_sub(EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        // As `date -u -d @SECONDS` says.
        let known = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_795_489_927, "2026-11-24T03:12:07.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799, "9999-12-31T23:59:59.000Z"),
        ];
        for (seconds, text) in known {
            assert_eq!(format_time(Duration::from_secs(seconds)), text);
            assert_eq!(parse_time(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for day in 0..60_000 {
            let time = Duration::from_secs(day * DAY + 45_296) + Duration::from_millis(789);
            assert_eq!(parse_time(&format_time(time)), Some(time));
        }
        assert!(format_time(Duration::MAX).len() > 20, "no overflow");
    }

    #[test]
    fn shorter_forms_are_read_and_nonsense_is_not() {
        let whole = parse_time("2026-11-24T03:12:00.000Z");
        for text in ["2026-11-24T03:12:00Z", "2026-11-24T03:12:00", "2026-11-24T03:12", "2026-11-24 03:12"] {
            assert!(whole.is_some() && parse_time(text) == whole, "{text}");
        }
        assert_eq!(parse_time("2026-11-24"), parse_time("2026-11-24T00:00:00"));
        assert_eq!(parse_time("1970-01-01T00:00:00.25"), Some(Duration::from_millis(250)));
        let odd = [
            "",
            "Z",
            "T",
            "now",
            "2026",
            "2026-11",
            "2026-13-01",
            "2026-02-30",
            "2100-02-29",
            "1969-12-31",
            "2026-11-24T",
            "2026-11-24T24:00",
            "2026-11-24T03",
            "2026-11-24T3:12",
            "2026-11-24T03:12:07.",
            "2026-11-24T03:12:07.+1",
            "2026-11-24T03:12:07.1234567890",
            "2026-11-24T03:12:07+01:00",
            "20261-11-24",
            "2026-11-24-01",
            "-026-11-24",
            "２０２６-11-24",
        ];
        for text in odd {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
