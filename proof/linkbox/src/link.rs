//! What one direction of a link is like, in words: `delay 2ms jitter 2ms loss 0.25% reorder 0.5% 25% rate 1gbit queue 1ms`.
//!
//! | word | means | default |
//! |---|---|---|
//! | `base T` | the way itself: every packet takes so long at least, whatever else is drawn for it | 0 |
//! | `delay T` | each packet takes so much longer | 0 |
//! | `jitter T [C]` | more or less by up to so much, evenly; C: [correlation](crate::chance) | 0 |
//! | `loss P [C]` | so many packets get lost | 0 |
//! | `duplicate P [C]` | so many arrive twice | 0 |
//! | `reorder P [C]` | so many are not delayed at all, and overtake those that are | 0 |
//! | `rate R` | so many bits per second fit through; a frame counts with its Ethernet header, as for tc's tbf | no end |
//! | `queue S` | in front of the rate there is room for so much: bytes (`64kb`), or what the rate sends in a time (`10ms`) | 50ms |
//! | `codel` | and packets that waited too long are dropped from its head (RFC 8289) | |
//! | `keep-order` | delays change, and packets do not overtake each other by that; those that `reorder` chose still do | |
//!
//! T is a number with `us`, `ms` or `s`; P and C one with `%`; R one with `bit`, `kbit`, `mbit` or `gbit` (thousands).

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::chance::Share;

/// Room of a queue whose size nobody gave.
const QUEUE: Duration = Duration::from_millis(50);
/// A frame of the usual size always finds room in an empty queue.
const LEAST_ROOM: usize = 1_514;

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    /// How long the way is, for every packet.
    pub(crate) base: Duration,
    /// How much longer packets take.
    pub(crate) delay: Duration,
    /// By how much that changes.
    pub(crate) jitter: Duration,
    /// How much of it depends on the packet before.
    pub(crate) jitter_correlation: Share,
    /// What happens to packets.
    pub(crate) loss: Event,
    /// See [`Self::loss`].
    pub(crate) duplicate: Event,
    /// See [`Self::loss`].
    pub(crate) reorder: Event,
    /// What fits through.
    pub(crate) rate: Option<Rate>,
    /// Jitter by itself reorders nothing.
    pub(crate) keep_order: bool,
}

/// Something that happens to some packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Event {
    /// To how many.
    pub(crate) share: Share,
    /// How much it depends on the packet before.
    pub(crate) correlation: Share,
}

/// A rate with its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rate {
    /// Bits per second.
    pub(crate) bits_per_s: u64,
    /// Bytes of its queue.
    pub(crate) queue_bytes: usize,
    /// Whether CoDel drops from it.
    pub(crate) codel: bool,
}

/// The words are not those of a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoLink(String);

impl fmt::Display for NoLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; a direction is told like this: delay 2ms jitter 2ms loss 0.25% reorder 0.5% 25% rate 100mbit queue 10ms (see linkbox --help)",
            self.0
        )
    }
}

impl std::error::Error for NoLink {}

/// Room of a queue, as it was told.
enum Room {
    Bytes(usize),
    Time(Duration),
}

impl Link {
    /// Reads a direction; no words are a wire that changes nothing.
    pub(crate) fn parse(text: &str) -> Result<Self, NoLink> {
        let mut words = text.split_whitespace().peekable();
        let (mut link, mut rate, mut queue, mut codel) = (Self::default(), None, None, false);
        while let Some(word) = words.next() {
            let mut value = || words.next_if(|next| next.starts_with(|first: char| first.is_ascii_digit()));
            let mut number = |what: &str| value().ok_or_else(|| NoLink(format!("{what} has no value")));
            match word {
                "base" => link.base = duration(number(word)?)?,
                "delay" => link.delay = duration(number(word)?)?,
                "jitter" => {
                    link.jitter = duration(number(word)?)?;
                    link.jitter_correlation = value().map(share).transpose()?.unwrap_or_default();
                }
                "loss" | "duplicate" | "reorder" => {
                    let share_of = share(number(word)?)?;
                    let event =
                        Event { share: share_of, correlation: value().map(share).transpose()?.unwrap_or_default() };
                    *match word {
                        "loss" => &mut link.loss,
                        "duplicate" => &mut link.duplicate,
                        _ => &mut link.reorder,
                    } = event;
                }
                "rate" => rate = Some(bits(number(word)?)?),
                "queue" => queue = Some(room(number(word)?)?),
                "codel" => codel = true,
                "keep-order" => link.keep_order = true,
                other => return Err(NoLink(format!("{other} is no word of a link"))),
            }
        }
        if rate.is_none() && (queue.is_some() || codel) {
            return Err(NoLink(String::from("a queue needs a rate that it waits for")));
        }
        link.rate = rate.map(|bits_per_s| Rate { bits_per_s, queue_bytes: bytes(queue, bits_per_s), codel });
        Ok(link)
    }
}

fn bytes(room: Option<Room>, bits_per_s: u64) -> usize {
    let told = match room.unwrap_or(Room::Time(QUEUE)) {
        Room::Bytes(bytes) => bytes,
        Room::Time(time) => {
            let bytes = u128::from(bits_per_s) * time.as_nanos() / 8 / 1_000_000_000;
            usize::try_from(bytes).unwrap_or(usize::MAX)
        }
    };
    told.max(LEAST_ROOM)
}

/// The number and the unit behind it.
fn parts(word: &str) -> Result<(f64, &str), NoLink> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let number = number.parse().map_err(|_| NoLink(format!("{word} does not begin with a number")))?;
    Ok((number, unit))
}

fn duration(word: &str) -> Result<Duration, NoLink> {
    let (number, unit) = parts(word)?;
    let unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(NoLink(format!("{word} is no time: us, ms or s belongs behind the number"))),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| NoLink(format!("{word} is too long")))
}

fn share(word: &str) -> Result<Share, NoLink> {
    let (number, unit) = parts(word)?;
    let share = Share::new(number / 100.0).filter(|_| unit == "%");
    share.ok_or_else(|| NoLink(format!("{word} is no share: it goes from 0% to 100%")))
}

fn bits(word: &str) -> Result<u64, NoLink> {
    let (number, unit) = parts(word)?;
    let unit = match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(NoLink(format!("{word} is no rate: bit, kbit, mbit or gbit belongs behind the number"))),
    };
    let bits = (number * unit).round();
    if (1.0..=1e15).contains(&bits) {
        Ok(bits as u64)
    } else {
        Err(NoLink(format!("nothing fits through {word}, or too much")))
    }
}

fn room(word: &str) -> Result<Room, NoLink> {
    let (number, unit) = parts(word)?;
    let unit = match unit {
        "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        _ => return duration(word).map(Room::Time),
    };
    Ok(Room::Bytes((number * unit).round() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(number: f64) -> Share {
        Share::new(number / 100.0).unwrap()
    }

    #[test]
    fn words_make_a_link() {
        let link =
            Link::parse("base 0.3ms delay 6ms jitter 15ms 10% loss 2.5% reorder 5% 50% duplicate 0.1% keep-order")
                .unwrap();
        let event = |share, correlation| Event { share: percent(share), correlation: percent(correlation) };
        let wanted = Link {
            base: Duration::from_micros(300),
            delay: Duration::from_millis(6),
            jitter: Duration::from_millis(15),
            jitter_correlation: percent(10.0),
            loss: event(2.5, 0.0),
            duplicate: event(0.1, 0.0),
            reorder: event(5.0, 50.0),
            rate: None,
            keep_order: true,
        };
        assert_eq!(link, wanted);
        assert_eq!(Link::parse(""), Ok(Link::default()));
        assert_eq!(Link::parse("delay 300us").unwrap().delay, Duration::from_micros(300));
    }

    #[test]
    fn a_queue_is_told_in_bytes_or_in_time() {
        let rate = |text: &str| Link::parse(text).unwrap().rate.unwrap();
        let wanted = Rate { bits_per_s: 100_000_000, queue_bytes: 125_000, codel: true };
        assert_eq!(rate("rate 100mbit queue 10ms codel"), wanted);
        assert_eq!(
            rate("rate 1gbit queue 64kb"),
            Rate { bits_per_s: 1_000_000_000, queue_bytes: 64_000, codel: false }
        );
        assert_eq!(rate("rate 1gbit").queue_bytes, 6_250_000);
        assert_eq!(rate("rate 1kbit").queue_bytes, LEAST_ROOM);
    }

    #[test]
    fn whatever_is_no_link_says_what_is_wrong_with_it() {
        for (text, why) in [
            ("delay", "delay has no value"),
            ("delay 2", "2 is no time"),
            ("delay 2m", "2m is no time"),
            ("loss 101%", "101% is no share"),
            ("loss 1", "1 is no share"),
            ("loss 1.2.3%", "1.2.3% does not begin with a number"),
            ("rate 0mbit", "nothing fits through 0mbit"),
            ("rate 5mb", "5mb is no rate"),
            ("queue 10ms", "a queue needs a rate"),
            ("codel", "a queue needs a rate"),
            ("lossy 2%", "lossy is no word of a link"),
        ] {
            let error = Link::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
