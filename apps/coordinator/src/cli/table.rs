//! Tables, durations and distances in time, for people.

use std::fmt::Write;

use super::CommandError;
use super::shown::shown;
use crate::clock::unix_now;

/// Aligns rows in columns. The first row has the headings. No cell can forge another line.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column| rows.iter().filter_map(|row| row.get(column)).map(|cell: &String| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Returns the distance from now, such as `2h ago` or `in 3d`, rounded to one unit.
pub(super) fn distance(unix: i64) -> String {
    let seconds = unix_now().saturating_sub(unix);
    let (size, unit) = match seconds.unsigned_abs() {
        ..60 => (1, 's'),
        60..3_600 => (60, 'm'),
        3_600..172_800 => (3_600, 'h'),
        _ => (86_400, 'd'),
    };
    let number = (seconds.unsigned_abs() + size / 2) / size;
    if seconds < 0 { format!("in {number}{unit}") } else { format!("{number}{unit} ago") }
}

/// Parses `30m`, `24h` or `90d` into seconds; `never` is `None`.
pub(super) fn duration(text: &str) -> Result<Option<i64>, CommandError> {
    if text == "never" {
        return Ok(None);
    }
    let wrong = || CommandError::Usage(format!("`{text}` is not a duration; write 30m, 24h, 90d or never"));
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: i64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: i64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("24h").unwrap(), Some(86_400));
        assert_eq!(duration("90d").unwrap(), Some(7_776_000));
        assert_eq!(duration("never").unwrap(), None);
        for text in ["", "h", "24", "0h", "-1h", "1w", "ä", "9223372036854775807d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
        assert_eq!(table(&[row(["A", "B"]), row(["long", "x"])]), "A     B\nlong  x\n");
        assert_eq!(table(&[row(["a\n\u{1b}", "x"])]), "a\\u{a}\\u{1b}  x\n");
    }

    #[test]
    fn distances() {
        assert_eq!(distance(unix_now() + 7_200 + 600), "in 2h");
        assert_eq!(distance(unix_now() - 7_200), "2h ago");
    }
}
