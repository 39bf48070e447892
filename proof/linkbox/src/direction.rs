//! One direction of the link: decides what happens to each frame, and when it arrives.
//!
//! ```text
//! frame ──▶ queue ── rate ──▶ lost? duplicated? ──▶ under way for the base, and delay ± jitter unless reordered ──▶ out
//!             └─ full, CoDel      └─ dropped
//! ```
//! As on a path, the rate limit comes first and the delay second. All times follow from the arrival times of frames, so a late poll changes only how late
//! frames leave, which is measured. The module has no clock and no socket: time and frames are arguments.

use std::time::Duration;

use taut_base::Time;

use crate::bottleneck::{Bottleneck, Passed};
use crate::chance::{Chance, Memory, Rng, Spread};
use crate::line::Line;
use crate::link::Link;
use crate::measure::{Counts, Times};

/// A frame, as a direction sees it.
pub(crate) trait Frame: Sized {
    /// Returns the bytes of the frame on the wire, including the Ethernet header.
    fn length(&self) -> usize;
    /// Returns a copy of the frame.
    fn copy(&self) -> Self;
}

/// One direction of a link.
pub(crate) struct Direction<F> {
    rng: Rng,
    base: Duration,
    delay: Spread,
    loss: Chance,
    duplicate: Chance,
    reorder: Chance,
    keep_order: bool,
    rate: Option<Bottleneck<Numbered<F>>>,
    line: Line<Numbered<F>>,
    /// Maximum number of frames under way, without those in the queue.
    most: usize,
    /// Latest arrival time of the frames that had the additional delay.
    last_due: Time,
    /// The number of the next frame.
    next: u64,
    /// Highest number of the frames that left.
    latest: Option<u64>,
    /// Frames that were lost or dropped; the bridge reuses their memory.
    pub(crate) gone: Vec<F>,
    /// Counts of frames by what happened to them.
    pub(crate) counts: Counts,
    /// Times of frames from one socket to the other.
    pub(crate) delays: Times,
    /// Times by which frames left later than due.
    pub(crate) lateness: Times,
}

/// A frame with its number in the order of arrival.
pub(crate) struct Numbered<F> {
    number: u64,
    arrived: Time,
    frame: F,
}

/// A frame that is due.
pub(crate) struct Due<F> {
    when: Time,
    number: u64,
    arrived: Time,
    /// The frame.
    pub(crate) frame: F,
}

impl<F: Frame> Direction<F> {
    /// Returns a direction of `link` that draws from `seed` and holds at most `most` frames under way.
    pub(crate) fn new(link: &Link, memory: Memory, seed: u64, most: usize) -> Self {
        let mut rng = Rng::new(seed);
        let delay = Spread::new(link.delay, link.jitter, link.jitter_correlation, memory, &mut rng);
        let [loss, duplicate, reorder] = [link.loss, link.duplicate, link.reorder]
            .map(|event| Chance::new(event.share, event.correlation, memory, &mut rng));
        Self {
            rng,
            base: link.base,
            delay,
            loss,
            duplicate,
            reorder,
            keep_order: link.keep_order,
            rate: link.rate.map(|rate| Bottleneck::new(rate.bits_per_s, rate.queue_bytes, rate.codel)),
            line: Line::new(),
            most,
            last_due: Time::ZERO,
            next: 0,
            latest: None,
            gone: Vec::new(),
            counts: Counts::default(),
            delays: Times::new(),
            lateness: Times::new(),
        }
    }

    /// Takes a frame that arrived at `now`. Calls must be in the order of arrival.
    pub(crate) fn arrive(&mut self, frame: F, now: Time) {
        self.settle(now);
        let (number, length) = (self.next, frame.length());
        self.next += 1;
        self.counts.received += 1;
        self.counts.received_bytes += length as u64;
        let frame = Numbered { number, arrived: now, frame };
        let Some(rate) = &mut self.rate else { return self.pass(frame, now) };
        if let Err(refused) = rate.offer(frame, length, now) {
            self.counts.queue_full += 1;
            self.gone.push(refused.frame);
        }
        self.settle(now);
    }

    /// Resets the counts. Frames stay under way, and the next draws are not affected.
    pub(crate) fn reset_counts(&mut self) {
        (self.counts, self.delays, self.lateness) = (Counts::default(), Times::new(), Times::new());
    }

    /// Returns the earliest time at which [`Self::poll`] may return a frame.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let leaves = self.rate.as_ref().and_then(Bottleneck::poll_timeout);
        leaves.into_iter().chain(self.line.due()).min()
    }

    /// Returns the next frame that is due.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Due<F>> {
        self.settle(now);
        let (when, Numbered { number, arrived, frame }) = self.line.pop(now)?;
        Some(Due { when, number, arrived, frame })
    }

    /// Counts a frame from [`Self::poll`] that the socket took at `now`, or refused.
    pub(crate) fn sent(&mut self, due: &Due<F>, taken: bool, now: Time) {
        if !taken {
            self.counts.refused += 1;
            return;
        }
        self.counts.sent += 1;
        self.counts.sent_bytes += due.frame.length() as u64;
        self.counts.overtaken += u64::from(self.latest.is_some_and(|latest| due.number < latest));
        self.latest = self.latest.max(Some(due.number));
        self.delays.add(now.since(due.arrived));
        self.lateness.add(now.since(due.when));
    }

    /// Returns the number of frames under way, without those in the queue.
    pub(crate) fn under_way(&self) -> usize {
        self.line.len()
    }

    /// Passes on the frames that have left the rate limiter by `now`.
    fn settle(&mut self, now: Time) {
        while let Some(passed) = self.rate.as_mut().and_then(|rate| rate.poll(now)) {
            match passed {
                Passed::Sent(when, frame) => self.pass(frame, when),
                Passed::Dropped(dropped) => {
                    self.counts.codel += 1;
                    self.gone.push(dropped.frame);
                }
            }
        }
    }

    /// Draws loss and duplication of a frame. As in netem, a frame that is both lost and duplicated leaves one copy.
    fn pass(&mut self, frame: Numbered<F>, now: Time) {
        let twice = self.duplicate.happens(&mut self.rng);
        let lost = self.loss.happens(&mut self.rng);
        self.counts.duplicated += u64::from(twice);
        self.counts.lost += u64::from(lost);
        if twice && !lost {
            // The loss of the copy is drawn separately.
            if self.loss.happens(&mut self.rng) {
                self.counts.lost += 1;
            } else {
                self.send_off(Numbered { frame: frame.frame.copy(), ..frame }, now);
            }
        }
        if twice || !lost {
            self.send_off(frame, now);
        } else {
            self.gone.push(frame.frame);
        }
    }

    fn send_off(&mut self, frame: Numbered<F>, now: Time) {
        if self.line.len() >= self.most {
            self.counts.too_many += 1;
            self.gone.push(frame.frame);
            return;
        }
        let hurried = self.reorder.happens(&mut self.rng);
        let delay = if hurried { Duration::ZERO } else { self.delay.draw(&mut self.rng) };
        self.counts.hurried += u64::from(hurried);
        let mut due = now + self.base + delay;
        if !hurried {
            if self.keep_order {
                due = due.max(self.last_due);
            }
            self.last_due = self.last_due.max(due);
        }
        self.line.push(due, frame);
    }
}

#[cfg(test)]
mod tests;
