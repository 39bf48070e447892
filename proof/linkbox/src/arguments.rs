//! What the program is told.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::chance::Memory;
use crate::link::{Link, NoLink};

/// Frames that are under way at most, per direction: 600 ms of 10 Gbit/s, and 750 MB. Only what is under way takes memory.
const MOST: usize = 500_000;

/// How the program is called.
pub(crate) const USAGE: &str = "\
linkbox joins two interfaces of this network namespace and treats every packet between them on its own.

  linkbox LEFT RIGHT [--both LINK | --to-right LINK --to-left LINK] [options]

LINK is one word of the command line: 'delay 2ms jitter 2ms loss 0.25% reorder 0.5% 25% rate 100mbit queue 10ms'
  base T             every packet takes so long at least (us, ms, s)
  delay T            each takes so much longer, those that reorder chose excepted
  jitter T [C]       more or less by up to so much, evenly; what is drawn depends by C on the packet before
  loss P [C]         so many get lost                     duplicate P [C]    so many arrive twice
  reorder P [C]      so many are not delayed at all       keep-order         jitter by itself reorders nothing
  rate R             so much fits through (kbit, mbit, gbit)
  queue S            in front of the rate: bytes (64kb) or a time of it (10ms)    codel    dropped from by RFC 8289

  --one-way          from LEFT to RIGHT only; who brings the others back is somebody else's business
  --seed N           the same seed draws the same (1)
  --netem-compat     correlated draws by netem's formula, which seldom reaches the asked rate
  --superpackets     what the kernel put together stays together, one draw for all of it: as netem on the sender has it
  --first            runs before every ordinary program on its core (SCHED_FIFO), so that frames leave on time on a busy machine
  --most N           frames under way at most, per direction (500000)
  --seconds S        end by itself; otherwise a signal (Ctrl-C) ends it
  --report FILE      what happened goes there as JSON, instead of to standard output: at the end, and whenever SIGUSR1 asks;
                     each report tells of the time since the one before
";

/// The words behind the program's name, read.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The interfaces.
    pub(crate) left: String,
    /// See [`Self::left`].
    pub(crate) right: String,
    /// What a packet meets that goes from left to right.
    pub(crate) to_right: Link,
    /// And back.
    pub(crate) to_left: Link,
    /// Nothing goes back.
    pub(crate) one_way: bool,
    /// What draws come from.
    pub(crate) seed: u64,
    /// How correlated draws are made.
    pub(crate) memory: Memory,
    /// Superpackets stay what they are.
    pub(crate) superpackets: bool,
    /// Before other programs.
    pub(crate) first: bool,
    /// Frames under way, per direction.
    pub(crate) most: usize,
    /// For how long it runs.
    pub(crate) seconds: Option<Duration>,
    /// Where the report goes.
    pub(crate) report: Option<PathBuf>,
}

/// Why the words are none of ours.
#[derive(Debug)]
pub(crate) struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; see: linkbox --help", self.0)
    }
}

impl std::error::Error for Wrong {}

impl From<NoLink> for Wrong {
    fn from(error: NoLink) -> Self {
        Self(error.to_string())
    }
}

impl Arguments {
    /// Options in any order, each with its value as the next word.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, Wrong> {
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
            most: MOST,
            seconds: None,
            report: None,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| Wrong(format!("{word} has no value")));
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
                option if option.starts_with('-') => return Err(Wrong(format!("{option} is no option"))),
                _ => interfaces.push(word),
            }
        }
        let [left, right] = <[String; 2]>::try_from(interfaces)
            .map_err(|given| Wrong(format!("two interfaces are joined, and {} are named", given.len())))?;
        if left == right {
            return Err(Wrong(format!("{left} cannot be joined to itself")));
        }
        Ok(Self { left, right, ..arguments })
    }
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T, Wrong> {
    value.parse().map_err(|_| Wrong(format!("{value} is no number for {option}")))
}

fn seconds(option: &str, value: &str) -> Result<Duration, Wrong> {
    Duration::try_from_secs_f64(number(option, value)?).map_err(|_| Wrong(format!("{value} is no time for {option}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, Wrong> {
        Arguments::parse(words.iter().map(ToString::to_string))
    }

    #[test]
    fn words_are_read_in_any_order() {
        let told = parse(&["--seed", "9", "a", "--both", "loss 1%", "b", "--to-left", "delay 1ms", "--seconds", "2.5"])
            .unwrap();
        assert_eq!((told.left.as_str(), told.right.as_str(), told.seed), ("a", "b", 9));
        assert_eq!((told.to_right, told.to_left), (Link::parse("loss 1%").unwrap(), Link::parse("delay 1ms").unwrap()));
        assert_eq!(
            (told.memory, told.superpackets, told.seconds),
            (Memory::Chain, false, Some(Duration::from_millis(2_500)))
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, why) in [
            (&["a"][..], "two interfaces are joined, and 1 are named"),
            (&["a", "a"], "a cannot be joined to itself"),
            (&["a", "b", "--fast"], "--fast is no option"),
            (&["a", "b", "--seed"], "--seed has no value"),
            (&["a", "b", "--seed", "x"], "x is no number for --seed"),
            (&["a", "b", "--seconds", "-1"], "-1 is no time for --seconds"),
            (&["a", "b", "--both", "noise 2"], "noise is no word of a link"),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.starts_with(why), "{words:?}: {error}");
        }
    }
}
