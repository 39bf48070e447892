//! Frames under way, in the order of their arrival at the other end.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use taut_base::Time;

/// Frames under way.
pub(crate) struct Line<F> {
    frames: BinaryHeap<UnderWay<F>>,
    pushed: u64,
}

struct UnderWay<F> {
    due: Time,
    /// Order of frames that are due at the same time.
    number: u64,
    frame: F,
}

impl<F> Line<F> {
    /// Returns a line without frames.
    pub(crate) fn new() -> Self {
        Self { frames: BinaryHeap::new(), pushed: 0 }
    }

    /// Adds a frame that arrives at `due`.
    pub(crate) fn push(&mut self, due: Time, frame: F) {
        let number = self.pushed;
        self.pushed += 1;
        self.frames.push(UnderWay { due, number, frame });
    }

    /// Returns the arrival time of the next frame.
    pub(crate) fn due(&self) -> Option<Time> {
        self.frames.peek().map(|next| next.due)
    }

    /// Removes the next frame that has arrived by `now`, and returns it with its arrival time.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, F)> {
        let due = self.due().filter(|due| *due <= now)?;
        self.frames.pop().map(|next| (due, next.frame))
    }

    /// Returns the number of frames under way.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }
}

impl<F> Ord for UnderWay<F> {
    fn cmp(&self, other: &Self) -> Ordering {
        // A BinaryHeap has the greatest on top, so the order is reversed.
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl<F> PartialOrd for UnderWay<F> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<F> PartialEq for UnderWay<F> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<F> Eq for UnderWay<F> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_the_order_of_their_times_and_equal_ones_in_order_of_arrival() {
        let mut line = Line::new();
        for (due, frame) in [(5, 'a'), (3, 'b'), (5, 'c'), (4, 'd')] {
            line.push(Time(due), frame);
        }
        assert_eq!((line.pop(Time(2)), line.due(), line.len()), (None, Some(Time(3)), 4));
        let all: Vec<_> = std::iter::from_fn(|| line.pop(Time(9))).collect();
        assert_eq!(all, [(Time(3), 'b'), (Time(4), 'd'), (Time(5), 'a'), (Time(5), 'c')]);
    }
}
