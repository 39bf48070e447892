//! Times in ISO 8601, UTC, with milliseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time now. A clock before 1970 counts as 1970.
pub(super) fn now() -> String {
    format(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Formats a time since 1970.
fn format(since: Duration) -> String {
    let (seconds, milliseconds) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Returns year, month and day of a number of days since 1970-01-01. The calendar repeats every 400 years of 146,097 days; a year is counted from March, so
/// that the leap day is its last day.
fn civil(days: u64) -> (u64, u64, u64) {
    // From 0000-03-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March have 153 days in each five.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_iso_8601() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (1_795_530_000_123, "2026-11-24T14:20:00.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(format(Duration::from_millis(milliseconds)), text);
        }
    }
}
