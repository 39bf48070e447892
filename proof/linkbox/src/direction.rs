//! One direction of the link: what becomes of each frame, and when it arrives.
//!
//! ```text
//! frame ──▶ queue ── rate ──▶ lost? twice? ──▶ under way for the base, and delay ± jitter more unless hurried ──▶ out
//!             └─ full, CoDel      └─ gone
//! ```
//! Like a path: first what is narrow, then what is long. All times are those of the frames and not those of our looks, so a late look changes nothing
//! but how late they leave, and that is measured. No clock, no socket: time and frames come as arguments.

use std::time::Duration;

use taut_base::Time;

use crate::bottleneck::{Bottleneck, Passed};
use crate::chance::{Chance, Dice, Memory, Spread};
use crate::line::Line;
use crate::link::Link;
use crate::measure::{Counts, Times};

/// What a direction needs to know of a frame.
pub(crate) trait Frame: Sized {
    /// Its bytes on the wire, Ethernet header included.
    fn length(&self) -> usize;
    /// The same once more.
    fn copy(&self) -> Self;
}

/// One direction of a link.
pub(crate) struct Direction<F> {
    dice: Dice,
    base: Duration,
    delay: Spread,
    loss: Chance,
    duplicate: Chance,
    reorder: Chance,
    keep_order: bool,
    rate: Option<Bottleneck<Numbered<F>>>,
    line: Line<Numbered<F>>,
    /// Frames that may be under way, those in the queue not counted.
    most: usize,
    /// When the last frame arrives that was not hurried.
    last_due: Time,
    /// The number of the next frame.
    next: u64,
    /// The latest frame that left, by its number.
    latest: Option<u64>,
    /// Frames that came to nothing since the last look: their memory may be used again.
    pub(crate) gone: Vec<F>,
    /// What happened.
    pub(crate) counts: Counts,
    /// How long frames were under way from one socket to the other.
    pub(crate) delays: Times,
    /// How late they left.
    pub(crate) lateness: Times,
}

/// A frame with its place in the order of arrival.
pub(crate) struct Numbered<F> {
    number: u64,
    arrived: Time,
    frame: F,
}

/// A frame whose time has come.
pub(crate) struct Due<F> {
    when: Time,
    number: u64,
    arrived: Time,
    /// The frame.
    pub(crate) frame: F,
}

impl<F: Frame> Direction<F> {
    /// A direction of this kind, whose draws come from `seed`. At most `most` frames are under way.
    pub(crate) fn new(link: &Link, memory: Memory, seed: u64, most: usize) -> Self {
        let mut dice = Dice::new(seed);
        let delay = Spread::new(link.delay, link.jitter, link.jitter_correlation, memory, &mut dice);
        let [loss, duplicate, reorder] = [link.loss, link.duplicate, link.reorder]
            .map(|event| Chance::new(event.share, event.correlation, memory, &mut dice));
        Self {
            dice,
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

    /// A frame came in at `now`. In the order of their times.
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

    /// Forgets what happened so far. Frames stay under way, and what is drawn next is what would have been.
    pub(crate) fn count_anew(&mut self) {
        (self.counts, self.delays, self.lateness) = (Counts::default(), Times::new(), Times::new());
    }

    /// When [`Self::poll`] has something, or may have.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let leaves = self.rate.as_ref().and_then(Bottleneck::poll_timeout);
        leaves.into_iter().chain(self.line.due()).min()
    }

    /// The next frame whose time has come.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Due<F>> {
        self.settle(now);
        let (when, Numbered { number, arrived, frame }) = self.line.pop(now)?;
        Some(Due { when, number, arrived, frame })
    }

    /// A frame that [`Self::poll`] yielded was sent at `now`, or refused.
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

    /// Frames that are under way, those in the queue not counted.
    pub(crate) fn under_way(&self) -> usize {
        self.line.len()
    }

    /// Has what left the rate by now go on.
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

    /// A frame enters the long part of the path: lost and doubled as netem does it, where of a frame that is both one copy is left.
    fn pass(&mut self, frame: Numbered<F>, now: Time) {
        let twice = self.duplicate.happens(&mut self.dice);
        let lost = self.loss.happens(&mut self.dice);
        self.counts.duplicated += u64::from(twice);
        self.counts.lost += u64::from(lost);
        if twice && !lost {
            // The second one is drawn for by itself.
            if self.loss.happens(&mut self.dice) {
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
        let hurried = self.reorder.happens(&mut self.dice);
        let delay = if hurried { Duration::ZERO } else { self.delay.draw(&mut self.dice) };
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
