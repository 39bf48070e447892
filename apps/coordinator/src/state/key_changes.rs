//! Budget of changes of a node's WireGuard key (fault E21). Each change is a write to the disk, a map change for every member and a new identity at every
//! relay. Pure. The time at which the budget is full again is stored with the node, in seconds since 1970.

/// Changes that may follow each other at once, 4. A node makes its key once, when it joins; a person who experiments needs a few.
const AT_ONCE: i64 = 4;

/// Time after which another change is possible, 6 h. Within the two days of a ticket a machine can therefore have at most a dozen keys.
const EVERY: i64 = 6 * 3600;

/// Returns the time at which the budget is full again if one change is made now; `None` if the budget is used up.
pub(super) fn take(full_at: i64, now: i64) -> Option<i64> {
    let empty = now.saturating_add(AT_ONCE * EVERY);
    // A later time means that the clock was set back. The budget then counts as full, because it must not stay empty for years.
    let full_at = if full_at > empty.saturating_add(EVERY) { now } else { full_at.clamp(now, empty) };
    let next = full_at.saturating_add(EVERY);
    (next <= empty).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    /// Changes that are possible of so many attempts, one each `pause` seconds.
    fn possible(full_at: &mut i64, start: i64, attempts: i64, pause: i64) -> usize {
        let attempt = |number| take(*full_at, start + number * pause).map(|next| *full_at = next).is_some();
        (0..attempts).map(attempt).filter(|done| *done).count()
    }

    #[test]
    fn fault_e21_a_few_changes_at_once_and_then_a_few_a_day() {
        let mut full_at = 0;
        assert_eq!(possible(&mut full_at, NOW, 1_000, 0), 4);
        assert_eq!(possible(&mut full_at, NOW + 1, 1_000, 1), 0);
        assert_eq!(possible(&mut full_at, NOW + EVERY, 24 * 60, 60), 4, "in the next day, tried every minute");
        assert_eq!(possible(&mut full_at, NOW + 30 * EVERY, 1_000, 0), 4, "never more than the first few at once");
    }

    #[test]
    fn fault_m4_a_clock_that_was_set_back_does_not_lock_a_machine_out() {
        let used_up = NOW + AT_ONCE * EVERY;
        assert_eq!(take(used_up, NOW - 60), None, "by a minute");
        assert_eq!(take(used_up, NOW + EVERY - 1), None);
        let mut full_at = used_up;
        assert_eq!(possible(&mut full_at, NOW - 365 * 86_400, 1_000, 1), 4, "by a year");
        for (full_at, now) in [(i64::MAX, NOW), (i64::MIN, NOW), (0, i64::MAX), (i64::MAX, i64::MIN)] {
            let _ = take(full_at, now);
        }
    }
}
