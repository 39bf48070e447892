//! Formats columns and quantities for people.

/// Aligns rows of cells in columns, two spaces apart.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width_of).collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Formats a quantity that is not negative with this many decimals, at most two. The standard library's `{:.1}` would link 11 kB of code.
pub(crate) fn fixed(quantity: f64, decimals: u32) -> String {
    let unit = 10_u64.pow(decimals);
    let parts = (quantity * unit as f64 + 0.5) as u64;
    match decimals {
        0 => parts.to_string(),
        _ => format!("{}.{:0width$}", parts / unit, parts % unit, width = decimals as usize),
    }
}

/// Formats a number of bytes in binary units, with one decimal.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", fixed(value, 1), UNITS[unit])
}

/// Formats seconds in the largest unit that gives at least two: `90 s`, `2 min`, `3 h`, `4 days`.
pub(crate) fn time(seconds: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(86_400.0, "days"), (3_600.0, "h"), (60.0, "min")];
    let unit = UNITS.iter().find(|(length, _)| seconds >= 2.0 * length);
    unit.map_or_else(
        || format!("{} s", fixed(seconds, 0)),
        |(length, name)| format!("{} {name}", fixed((seconds / length).floor(), 0)),
    )
}

/// Returns the count with its noun: `1 peer`, `2 peers`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (count, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB"), (u64::MAX, "16.0 EiB")]
        {
            assert_eq!(bytes(count), text);
        }
        assert_eq!((counted(0, "peer"), counted(1, "peer")), (String::from("0 peers"), String::from("1 peer")));
    }

    #[test]
    fn decimals() {
        for (quantity, decimals, text) in [
            (0.0, 0, "0"),
            (0.5, 0, "1"),
            (99.4, 0, "99"),
            (0.04, 1, "0.0"),
            (0.05, 1, "0.1"),
            (12.34, 1, "12.3"),
            (9.96, 1, "10.0"),
            (0.42, 2, "0.42"),
            (1.006, 2, "1.01"),
            (31.0, 2, "31.00"),
            (-1.0, 1, "0.0"),
            (f64::NAN, 1, "0.0"),
            (f64::INFINITY, 1, "1844674407370955161.5"),
        ] {
            assert_eq!(fixed(quantity, decimals), text);
        }
    }

    #[test]
    fn times() {
        for (seconds, text) in
            [(0.2, "0 s"), (119.0, "119 s"), (130.0, "2 min"), (7_300.0, "2 h"), (400_000.0, "4 days")]
        {
            assert_eq!(time(seconds), text);
        }
    }

    #[test]
    fn columns_line_up_without_trailing_space() {
        let rows = [vec!["a".into(), "bb".into()], vec!["ccc".into(), "d".into()], vec!["e".into()]];
        assert_eq!(columns(&rows), "a    bb\nccc  d\ne\n");
    }
}
