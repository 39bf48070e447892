//! The command line of linkbox.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::chance::Memory;
use crate::link::{BadLink, Link};

/// Default limit of frames under way, per direction, 500,000: 600 ms at 10 Gbit/s, which takes 750 MB. Memory is allocated only for frames under way.
const MAX_UNDER_WAY: usize = 500_000;

/// The help text.
pub(crate) const USAGE: &str = "\
linkbox joins two interfaces of this network namespace with an emulated link, packet by packet.

  linkbox LEFT RIGHT [--both LINK | --to-right LINK --to-left LINK] [options]

LINK is one argument, such as 'delay 2ms jitter 2ms loss 0.25% reorder 0.5% 25% rate 100mbit queue 10ms':
  base T             minimum delay of every packet (us, ms, s)
  delay T            additional delay, except for packets that reorder chooses
  jitter T [C]       change of the delay, evenly from -T to T; C is the correlation with the packet before
  loss P [C]         share of packets that are lost
  duplicate P [C]    share of packets that arrive twice
  reorder P [C]      share of packets without the additional delay
  keep-order         jitter does not reorder packets
  rate R             bandwidth (kbit, mbit, gbit)
  queue S            size of the queue in front of the rate, in bytes (64kb) or as a time at that rate (10ms)
  codel              drop from that queue by CoDel (RFC 8289)

  --one-way          carry packets only from LEFT to RIGHT
  --seed N           seed of all draws (1)
  --netem-compat     correlate draws by netem's formula, which seldom reaches the configured rate
  --superpackets     draw once for a whole superpacket, as netem on the sender does
  --first            run with real-time priority (SCHED_FIFO), so that frames leave on time on a busy machine
  --most N           most frames under way, per direction (500000)
  --seconds S        run time (default: until a signal such as Ctrl-C)
  --report FILE      write the JSON report to FILE instead of standard output: at the end, and at each SIGUSR1; each report covers the
                     time since the one before
";

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The interface at the left end.
    pub(crate) left: String,
    /// The interface at the right end.
    pub(crate) right: String,
    /// The link from left to right.
    pub(crate) to_right: Link,
    /// The link from right to left.
    pub(crate) to_left: Link,
    /// True if nothing is carried from right to left.
    pub(crate) one_way: bool,
    /// The seed of all draws.
    pub(crate) seed: u64,
    /// The formula of correlated draws.
    pub(crate) memory: Memory,
    /// True if superpackets are not split.
    pub(crate) superpackets: bool,
    /// True for real-time priority.
    pub(crate) first: bool,
    /// Maximum number of frames under way, per direction.
    pub(crate) most: usize,
    /// The run time; without one the program runs until a signal.
    pub(crate) seconds: Option<Duration>,
    /// The file of the report.
    pub(crate) report: Option<PathBuf>,
}

/// A usage error.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; see: linkbox --help", self.0)
    }
}

impl std::error::Error for UsageError {}

impl From<BadLink> for UsageError {
    fn from(error: BadLink) -> Self {
        Self(error.to_string())
    }
}

impl Arguments {
    /// Parses the arguments: options in any order, each followed by its value.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, UsageError> {
        let mut interfaces = Vec::new();
        let mut arguments = Self {
            left: String::new(),
            right: String::new(),
            to_right: Link::default(),
            to_left: Link::default(),
            one_way: false,
            seed: 1,
            memory: Memory::Chain,
            superpackets: false,
            first: false,
            most: MAX_UNDER_WAY,
            seconds: None,
            report: None,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| UsageError(format!("{word} has no value")));
            match word.as_str() {
                "--both" => {
                    arguments.to_right = Link::parse(&value()?)?;
                    arguments.to_left = arguments.to_right.clone();
                }
                "--to-right" => arguments.to_right = Link::parse(&value()?)?,
                "--to-left" => arguments.to_left = Link::parse(&value()?)?,
                "--seed" => arguments.seed = number(&word, &value()?)?,
                "--most" => arguments.most = number(&word, &value()?)?,
                "--seconds" => arguments.seconds = Some(seconds(&word, &value()?)?),
                "--report" => arguments.report = Some(value()?.into()),
                "--one-way" => arguments.one_way = true,
                "--netem-compat" => arguments.memory = Memory::Netem,
                "--superpackets" => arguments.superpackets = true,
                "--first" => arguments.first = true,
                option if option.starts_with('-') => return Err(UsageError(format!("unknown option {option}"))),
                _ => interfaces.push(word),
            }
        }
        let [left, right] = <[String; 2]>::try_from(interfaces)
            .map_err(|given| UsageError(format!("two interfaces are needed, but {} were given", given.len())))?;
        if left == right {
            return Err(UsageError(format!("LEFT and RIGHT are both {left}, but must differ")));
        }
        Ok(Self { left, right, ..arguments })
    }
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T, UsageError> {
    value.parse().map_err(|_| UsageError(format!("{option} needs a number, not {value}")))
}

fn seconds(option: &str, value: &str) -> Result<Duration, UsageError> {
    Duration::try_from_secs_f64(number(option, value)?)
        .map_err(|_| UsageError(format!("{option} needs a time in seconds, not {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, UsageError> {
        Arguments::parse(words.iter().map(ToString::to_string))
    }

    #[test]
    fn options_are_read_in_any_order() {
        let parsed =
            parse(&["--seed", "9", "a", "--both", "loss 1%", "b", "--to-left", "delay 1ms", "--seconds", "2.5"])
                .unwrap();
        assert_eq!((parsed.left.as_str(), parsed.right.as_str(), parsed.seed), ("a", "b", 9));
        assert_eq!(
            (parsed.to_right, parsed.to_left),
            (Link::parse("loss 1%").unwrap(), Link::parse("delay 1ms").unwrap())
        );
        assert_eq!(
            (parsed.memory, parsed.superpackets, parsed.seconds),
            (Memory::Chain, false, Some(Duration::from_millis(2_500)))
        );
    }

    #[test]
    fn usage_errors_are_explained() {
        for (words, why) in [
            (&["a"][..], "two interfaces are needed, but 1 were given"),
            (&["a", "a"], "LEFT and RIGHT are both a, but must differ"),
            (&["a", "b", "--fast"], "unknown option --fast"),
            (&["a", "b", "--seed"], "--seed has no value"),
            (&["a", "b", "--seed", "x"], "--seed needs a number, not x"),
            (&["a", "b", "--seconds", "-1"], "--seconds needs a time in seconds, not -1"),
            (&["a", "b", "--both", "noise 2"], "a link has no word noise"),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.starts_with(why), "{words:?}: {error}");
        }
    }
}
