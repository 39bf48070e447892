//! The cases that headscale's authors captured from Tailscale's service: a policy, and the rules and peers that each node got, or the reason of a refusal.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;
use taut_policy::{Compiled, NodeFacts, Policy, run_tests};
use taut_testkit::Seeded;

use crate::case::{self, Judged};
use crate::counts::Counts;
use crate::packets;
use crate::verdicts::{Question, Verdicts};

/// Packets of each case.
const PACKETS: usize = 10_000;

/// The beginning of the refusal of a part that Taut does not have.
const UNKNOWN: &str = "Taut does not support";

/// A captured case.
#[derive(Deserialize)]
struct Captured {
    name: String,
    policy: String,
    #[serde(default)]
    refused: String,
    nodes: Vec<NodeFacts>,
    /// The rules of each node. Absent if only the service's answer to the policy was captured.
    rules: Option<Vec<Value>>,
    #[serde(default)]
    peers: Vec<Vec<usize>>,
}

/// Compares all captured cases of a directory, and prints those that differ.
///
/// # Errors
/// If the program fails.
pub(crate) fn compare(program: &Path, directory: &Path) -> Result<Counts, String> {
    let output = Command::new(program).arg(directory).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut program = Verdicts::start(program)?;
    let one = |line: &str| {
        let captured: Captured = serde_json::from_str(line).map_err(|error| error.to_string())?;
        captured.compare(&mut program)
    };
    String::from_utf8_lossy(&output.stdout).lines().map(one).sum()
}

impl Captured {
    /// Compares whether the policy is accepted; and if it is, what it means.
    fn compare(&self, program: &mut Verdicts) -> Result<Counts, String> {
        let refuses = !self.refused.is_empty();
        let inventory = case::inventory(&self.nodes);
        let policy = match Policy::parse(&self.policy) {
            Err(_) if refuses => return Ok(Counts { refused: 1, ..Counts::default() }),
            Err(error) if error.to_string().contains(UNKNOWN) => return Ok(Counts { unknown: 1, ..Counts::default() }),
            Err(error) => return Ok(self.differs(&format!("Taut refuses it: {error}"))),
            Ok(policy) => policy,
        };
        let failed = run_tests(&policy, &inventory).into_iter().find(|test| test.failure.is_some());
        match failed {
            Some(_) if refuses => return Ok(Counts { refused: 1, ..Counts::default() }),
            Some(test) => return Ok(self.differs(&format!("fails here: {test:?}"))),
            None if refuses => return Ok(self.differs(&format!("Tailscale refuses it: {}", self.refused))),
            None => {}
        }
        match &self.rules {
            Some(rules) => self.compare_nodes(&taut_policy::compile(&policy, &inventory), rules, program),
            None => Ok(Counts { policies: 1, ..Counts::default() }),
        }
    }

    /// Compares the rules and the peers of each node.
    fn compare_nodes(&self, compiled: &Compiled, rules: &[Value], program: &mut Verdicts) -> Result<Counts, String> {
        let random = &mut Seeded::new(taut_testkit::first());
        let ports = ports(&self.policy);
        let packets: Vec<_> = (0..PACKETS).map(|_| packets::received(random, &self.nodes, &ports)).collect();
        let question = Question { policy: &self.policy, nodes: &self.nodes, packets: &packets, rules: Some(rules) };
        let theirs = Judged { peers: self.peers.clone(), ..program.ask(&question)?? };
        let ours = Judged::of(compiled, self.nodes.len(), &packets);
        let mut verdicts = packets.iter().zip(ours.verdicts.iter().zip(&theirs.verdicts));
        if let Some((packet, (ours, theirs))) = verdicts.find(|(_, (ours, theirs))| ours != theirs) {
            self.differs(&format!("Taut {ours}, Tailscale {theirs}: {packet:?}"));
        }
        for (node, (ours, theirs)) in self.nodes.iter().zip(ours.peers.iter().zip(&theirs.peers)) {
            if ours != theirs {
                self.differs(&format!("{} knows {ours:?} here, {theirs:?} there", node.name));
            }
        }
        Ok(Counts::of(&Ok(ours), &Ok(theirs)))
    }

    /// Prints a difference.
    fn differs(&self, how: &str) -> Counts {
        println!("{}: {how}", self.name);
        Counts { different: 1, ..Counts::default() }
    }
}

/// Returns the numbers of a policy that can be ports, with their neighbours.
fn ports(policy: &str) -> Vec<u16> {
    let numbers = policy.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse::<u16>().ok());
    let near = numbers.flat_map(|port| [port.saturating_sub(1), port, port.saturating_add(1)]);
    near.chain([0, 22, u16::MAX]).collect::<BTreeSet<_>>().into_iter().collect()
}
