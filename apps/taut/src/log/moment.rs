//! Parses the times of `--since` and `--until`: an age such as `1h30m`, a time of day, a date, or both. A time without an offset is UTC, as the shown times are.

use std::time::Duration;

use taut_base::{format_time, parse_time};

use crate::fault::Fault;
use taut_agent::settings::duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Parses the value of `flag`. Returns the time since 1970.
pub(super) fn parse(flag: &str, text: &str, now: Duration) -> Result<Duration, Fault> {
    let age = duration(text).or_else(|| age(text)).map(|age| now.saturating_sub(age));
    age.or_else(|| time(text, now)).ok_or_else(|| {
        Fault::usage(format!(
            "{flag} {text}: write an age such as 10m, 1h30m, 3d or 1w, or a time such as 03:12, yesterday, 2026-11-24T03:12 or 2026-11-24T03:12+01:00 (UTC without an offset)"
        ))
    })
}

/// Parses an age of several parts, each with a unit, such as `1h30m` or `1w`.
fn age(mut text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    loop {
        let unit = text.find(|letter: char| letter.is_ascii_alphabetic())?;
        let digit = text[unit..].find(|letter: char| !letter.is_ascii_alphabetic()).map_or(text.len(), |at| unit + at);
        let number = &text[..unit];
        let hours = |count| duration(&[number, "h"].concat())?.checked_mul(count);
        let part = match &text[unit..digit] {
            "d" => hours(24),
            "w" => hours(7 * 24),
            _ => duration(&text[..digit]),
        };
        sum = sum.checked_add(part?)?;
        text = &text[digit..];
        if text.is_empty() {
            return Some(sum);
        }
    }
}

/// Parses a date, a time of day, or both, with an offset from UTC. A time of day without a date means its latest occurrence.
fn time(text: &str, now: Duration) -> Option<Duration> {
    let (text, offset, is_east) = split_offset(text)?;
    let to_utc = |local: Duration| if is_east { local.saturating_sub(offset) } else { local + offset };
    let local_now = if is_east { now + offset } else { now.saturating_sub(offset) };
    let date = |days: u32| String::from(&format_time(local_now.saturating_sub(DAY * days))[..10]);
    if let Some(time) = parse_time(&text.replacen("yesterday", &date(1), 1).replacen("today", &date(0), 1)) {
        return Some(to_utc(time));
    }
    let padded = if text.find(':') == Some(1) { format!("0{text}") } else { String::from(text) };
    let of = |days| parse_time(&format!("{}T{padded}", date(days)));
    Some(to_utc(of(0).filter(|time| *time <= local_now).or_else(|| of(1))?)).filter(|_| text.contains(':'))
}

/// Splits off an offset such as `+01:00`. Returns the rest, the offset, and true if the offset is east of Greenwich.
fn split_offset(text: &str) -> Option<(&str, Duration, bool)> {
    let Some((rest, end)) = text.len().checked_sub(6).and_then(|at| text.split_at_checked(at)) else {
        return Some((text, Duration::ZERO, true));
    };
    match end.as_bytes() {
        [sign @ (b'+' | b'-'), _, _, b':', _, _] if rest.contains(':') => {
            Some((rest, parse_time(&format!("1970-01-01T{}", &end[1..]))?, *sign == b'+'))
        }
        _ => Some((text, Duration::ZERO, true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-24T03:12:07Z.
    const NOW: Duration = Duration::from_secs(1_795_489_927);

    fn seconds_ago(text: &str) -> Option<u64> {
        parse("--since", text, NOW).ok().map(|time| (NOW - time).as_secs())
    }

    #[test]
    fn ages() {
        for (text, ago) in [
            ("90", 90),
            ("90s", 90),
            ("1.5h", 5_400),
            ("3d", 259_200),
            ("1w", 604_800),
            ("1h30m", 5_400),
            ("1d12h", 129_600),
            ("1m0.5s", 60),
        ] {
            assert_eq!(seconds_ago(text), Some(ago), "{text}");
        }
        assert_eq!(parse("--since", "99999999d", NOW).unwrap(), Duration::ZERO);
    }

    #[test]
    fn times() {
        for (text, ago) in [
            ("2026-11-24T03:00:00Z", 727),
            ("2026-11-24 03:00", 727),
            ("03:12", 7),
            ("3:12", 7),
            ("3:12:06.5", 0),
            ("03:13", 86_400 - 53),
            ("03:12Z", 7),
            ("04:12+01:00", 7),
            ("2026-11-24T04:12+01:00", 7),
            ("2026-11-23T21:42:07-05:30", 0),
            ("23:12-04:00", 7),
            ("08:42+05:30", 7),
            ("today", 11_527),
            ("yesterday", 86_400 + 11_527),
            ("yesterday 03:12", 86_400 + 7),
            ("2026-11-24", 11_527),
        ] {
            assert_eq!(seconds_ago(text), Some(ago), "{text}");
        }
    }

    #[test]
    fn wrong_times_are_refused_with_the_accepted_forms() {
        for text in [
            "",
            "soon",
            "-5m",
            "1x",
            "1h30",
            "h",
            "m1",
            "2026-13-01",
            "25:00",
            ":12",
            "+01:00",
            "03:12+1:00",
            "03:12+99:00",
            "tomorrow",
            "yesterday3",
            "３:12",
            "1hé",
            "99999999999999999999w",
        ] {
            let Err(Fault::Usage { message, .. }) = parse("--until", text, NOW) else { panic!("{text}") };
            assert!(message.contains("--until") && message.contains("UTC") && message.contains("1h30m"), "{message}");
        }
    }
}
