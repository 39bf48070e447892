//! The filter as the coordinator sends it: plain data.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};
use taut_base::Prefix;

/// Limit on the rules of one filter, 20,000: ten times the largest policy that the compiler is measured with.
pub const MAX_RULES: usize = 20_000;

/// Limit on the sources, protocols, destinations and port ranges of one filter together, 1,000,000: some 30 MB, above which a node would lose more by the filter than by
/// refusing it.
pub const MAX_SPANS: usize = 1_000_000;

/// What one node accepts. A filter without rules accepts nothing but answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The rules. A packet passes if any of them allows it.
    pub rules: Vec<Rule>,
}

/// Packets from some sources to some destinations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// The sources.
    pub src: Vec<Prefix>,
    /// Protocol numbers (IANA). Empty: TCP, UDP, ICMP and ICMPv6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proto: Vec<u8>,
    /// The destinations.
    pub dst: Vec<Target>,
}

/// A destination with its ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The addresses.
    pub prefix: Prefix,
    /// Ranges of ports, first and last included. They apply to TCP, UDP and SCTP. ICMP has none, and passes whatever they are. Any other protocol passes if one of them is
    /// 0 to 65,535.
    pub ports: Vec<(u16, u16)>,
}

impl Filter {
    /// Checks the size of the filter, and its port ranges.
    ///
    /// # Errors
    /// The first reason to refuse it.
    pub fn check(&self) -> Result<(), BadFilter> {
        if self.rules.len() > MAX_RULES {
            return Err(BadFilter::TooManyRules(self.rules.len()));
        }
        let targets = || self.rules.iter().flat_map(|rule| &rule.dst);
        let spans = self.rules.iter().map(|rule| rule.src.len() + rule.proto.len()).sum::<usize>()
            + targets().map(|target| 1 + target.ports.len()).sum::<usize>();
        if spans > MAX_SPANS {
            return Err(BadFilter::TooLarge(spans));
        }
        match targets().flat_map(|target| &target.ports).find(|(first, last)| first > last) {
            Some(range) => Err(BadFilter::BadPorts(*range)),
            None => Ok(()),
        }
    }
}

/// The reason to refuse a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFilter {
    /// More rules than a node accepts.
    TooManyRules(usize),
    /// More sources, destinations and ranges together than a node accepts.
    TooLarge(usize),
    /// A range of ports that ends before it begins.
    BadPorts((u16, u16)),
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRules(rules) => {
                write!(f, "the packet filter has {rules} rules, more than the {MAX_RULES} that a node accepts")
            }
            Self::TooLarge(spans) => write!(
                f,
                "the packet filter has {spans} sources, destinations and port ranges, more than the {MAX_SPANS} that a node accepts"
            ),
            Self::BadPorts((first, last)) => {
                write!(f, "the packet filter has a range of ports that ends before it begins, {first} to {last}")
            }
        }
    }
}

impl Error for BadFilter {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(ports: Vec<(u16, u16)>) -> Rule {
        let prefix: Prefix = "100.64.0.1/32".parse().unwrap();
        Rule { src: vec![prefix], proto: vec![], dst: vec![Target { prefix, ports }] }
    }

    #[test]
    fn the_form_on_the_wire_is_short_and_unknown_fields_are_ignored() {
        let filter = Filter { rules: vec![rule(vec![(22, 22)])] };
        let text = r#"{"rules":[{"src":["100.64.0.1/32"],"dst":[{"prefix":"100.64.0.1/32","ports":[[22,22]]}]}]}"#;
        assert_eq!(serde_json::to_string(&filter).unwrap(), text);
        let later = text.replace(r#"{"src""#, r#"{"later":[1],"src""#);
        assert_eq!(serde_json::from_str::<Filter>(&later).unwrap(), filter);
    }

    #[test]
    fn sizes_and_ranges_are_checked() {
        let check = |rules| Filter { rules }.check();
        assert_eq!(check(vec![rule(vec![(0, 65_535)]); MAX_RULES]), Ok(()));
        assert_eq!(check(vec![rule(vec![]); MAX_RULES + 1]), Err(BadFilter::TooManyRules(MAX_RULES + 1)));
        assert_eq!(check(vec![rule(vec![(2, 1)])]), Err(BadFilter::BadPorts((2, 1))));
        assert_eq!(check(vec![rule(vec![(1, 1); MAX_SPANS])]), Err(BadFilter::TooLarge(MAX_SPANS + 2)));
    }
}
