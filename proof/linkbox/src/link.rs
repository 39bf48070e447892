//! The configuration of one direction of a link, such as `delay 2ms jitter 2ms loss 0.25% reorder 0.5% 25% rate 1gbit queue 1ms`.
//!
//! | word | means | default |
//! |---|---|---|
//! | `base T` | minimum delay of every packet, whatever else is drawn for it | 0 |
//! | `delay T` | additional delay of each packet | 0 |
//! | `jitter T [C]` | change of the delay, evenly from −T to T; C: [correlation](crate::chance) | 0 |
//! | `loss P [C]` | share of packets that are lost | 0 |
//! | `duplicate P [C]` | share of packets that arrive twice | 0 |
//! | `reorder P [C]` | share of packets without the additional delay, which overtake the others | 0 |
//! | `rate R` | bits per second; a frame counts with its Ethernet header, as for tc's tbf | no limit |
//! | `queue S` | size of the queue in front of the rate: bytes (`64kb`), or a time at that rate (`10ms`) | 50ms |
//! | `codel` | CoDel drops packets that waited too long from the head of the queue (RFC 8289) | |
//! | `keep-order` | jitter does not reorder packets; packets that `reorder` chooses still overtake others | |
//!
//! T is a number with `us`, `ms` or `s`; P and C one with `%`; R one with `bit`, `kbit`, `mbit` or `gbit` (thousands).

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::chance::Share;

/// Default size of a queue, as a time at its rate.
const QUEUE: Duration = Duration::from_millis(50);
/// Least size of a queue, so that a frame of the usual size finds room in an empty one.
const LEAST_ROOM: usize = 1_514;

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    /// Minimum delay of every packet.
    pub(crate) base: Duration,
    /// Additional delay.
    pub(crate) delay: Duration,
    /// Change of the additional delay.
    pub(crate) jitter: Duration,
    /// Correlation of the delay with that of the packet before.
    pub(crate) jitter_correlation: Share,
    /// Events that happen to packets.
    pub(crate) loss: PacketEvent,
    /// See [`Self::loss`].
    pub(crate) duplicate: PacketEvent,
    /// See [`Self::loss`].
    pub(crate) reorder: PacketEvent,
    /// Rate limit.
    pub(crate) rate: Option<RateLimit>,
    /// True if jitter does not reorder packets.
    pub(crate) keep_order: bool,
}

/// An event that happens to some packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PacketEvent {
    /// Share of packets.
    pub(crate) share: Share,
    /// Correlation with the packet before.
    pub(crate) correlation: Share,
}

/// A rate with its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RateLimit {
    /// Bits per second.
    pub(crate) bits_per_s: u64,
    /// Bytes of its queue.
    pub(crate) queue_bytes: usize,
    /// True if CoDel drops from the queue.
    pub(crate) codel: bool,
}

/// An error in the configuration of a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadLink(String);

impl fmt::Display for BadLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; an example of a link: delay 2ms jitter 2ms loss 0.25% reorder 0.5% 25% rate 100mbit queue 10ms (see linkbox --help)",
            self.0
        )
    }
}

impl std::error::Error for BadLink {}

/// The size of a queue, as configured.
enum Room {
    Bytes(usize),
    Time(Duration),
}

impl Link {
    /// Parses a direction. An empty text is a wire that changes nothing.
    pub(crate) fn parse(text: &str) -> Result<Self, BadLink> {
        let mut words = text.split_whitespace().peekable();
        let (mut link, mut rate, mut queue, mut codel) = (Self::default(), None, None, false);
        while let Some(word) = words.next() {
            let mut value = || words.next_if(|next| next.starts_with(|first: char| first.is_ascii_digit()));
            let mut number = |what: &str| value().ok_or_else(|| BadLink(format!("{what} has no value")));
            match word {
                "base" => link.base = duration(number(word)?)?,
                "delay" => link.delay = duration(number(word)?)?,
                "jitter" => {
                    link.jitter = duration(number(word)?)?;
                    link.jitter_correlation = value().map(share).transpose()?.unwrap_or_default();
                }
                "loss" | "duplicate" | "reorder" => {
                    let share_of = share(number(word)?)?;
                    let event = PacketEvent {
                        share: share_of,
                        correlation: value().map(share).transpose()?.unwrap_or_default(),
                    };
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
                other => return Err(BadLink(format!("a link has no word {other}"))),
            }
        }
        if rate.is_none() && (queue.is_some() || codel) {
            return Err(BadLink(String::from("a queue needs a rate")));
        }
        link.rate = rate.map(|bits_per_s| RateLimit { bits_per_s, queue_bytes: bytes(queue, bits_per_s), codel });
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

/// Splits a word into its number and its unit.
fn parts(word: &str) -> Result<(f64, &str), BadLink> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let number = number.parse().map_err(|_| BadLink(format!("{word} does not begin with a number")))?;
    Ok((number, unit))
}

fn duration(word: &str) -> Result<Duration, BadLink> {
    let (number, unit) = parts(word)?;
    let unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(BadLink(format!("{word} is not a time: the number needs a unit, us, ms or s"))),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| BadLink(format!("{word} is too long")))
}

fn share(word: &str) -> Result<Share, BadLink> {
    let (number, unit) = parts(word)?;
    let share = Share::new(number / 100.0).filter(|_| unit == "%");
    share.ok_or_else(|| BadLink(format!("{word} is not a share from 0% to 100%")))
}

fn bits(word: &str) -> Result<u64, BadLink> {
    let (number, unit) = parts(word)?;
    let unit = match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(BadLink(format!("{word} is not a rate: the number needs a unit, bit, kbit, mbit or gbit"))),
    };
    let bits = (number * unit).round();
    if (1.0..=1e15).contains(&bits) { Ok(bits as u64) } else { Err(BadLink(format!("{word} is not a possible rate"))) }
}

fn room(word: &str) -> Result<Room, BadLink> {
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
    fn a_link_is_parsed_from_its_words() {
        let link =
            Link::parse("base 0.3ms delay 6ms jitter 15ms 10% loss 2.5% reorder 5% 50% duplicate 0.1% keep-order")
                .unwrap();
        let event = |share, correlation| PacketEvent { share: percent(share), correlation: percent(correlation) };
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
    fn a_queue_size_is_given_in_bytes_or_as_a_time() {
        let rate = |text: &str| Link::parse(text).unwrap().rate.unwrap();
        let wanted = RateLimit { bits_per_s: 100_000_000, queue_bytes: 125_000, codel: true };
        assert_eq!(rate("rate 100mbit queue 10ms codel"), wanted);
        assert_eq!(
            rate("rate 1gbit queue 64kb"),
            RateLimit { bits_per_s: 1_000_000_000, queue_bytes: 64_000, codel: false }
        );
        assert_eq!(rate("rate 1gbit").queue_bytes, 6_250_000);
        assert_eq!(rate("rate 1kbit").queue_bytes, LEAST_ROOM);
    }

    #[test]
    fn an_invalid_link_is_an_error_that_names_the_cause() {
        for (text, why) in [
            ("delay", "delay has no value"),
            ("delay 2", "2 is not a time"),
            ("delay 2m", "2m is not a time"),
            ("loss 101%", "101% is not a share"),
            ("loss 1", "1 is not a share"),
            ("loss 1.2.3%", "1.2.3% does not begin with a number"),
            ("rate 0mbit", "0mbit is not a possible rate"),
            ("rate 5mb", "5mb is not a rate"),
            ("queue 10ms", "a queue needs a rate"),
            ("codel", "a queue needs a rate"),
            ("lossy 2%", "a link has no word lossy"),
        ] {
            let error = Link::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
