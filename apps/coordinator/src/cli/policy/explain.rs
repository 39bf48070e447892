//! `policy explain`.

use std::net::IpAddr;

use serde_json::{Value, json};
use taut_policy::{
    Compiled, Explanation, Inventory, Origin, Packet, compile, has_ports, protocol_name, protocol_number,
    protocol_towards,
};

use super::input;
use crate::cli::arguments::Arguments;
use crate::cli::{CommandError, show};

/// `policy explain FILE SRC DST:PORT --nodes FILE [--proto PROTO]`: names the rule that allows a connection. Without FILE the coordinator's policy is asked.
pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let first = arguments.need("the source, or the file of the policy")?;
    let second = arguments.need("the destination")?;
    let third = arguments.word();
    let proto = protocol(arguments.value("proto")?.as_deref())?;
    let (src, dst, input::Case { policy, name: file, inventory, json }) = match third {
        Some(dst) => (second, dst, input::of_files(&first, arguments)?),
        None => (first, second, input::of_coordinator(arguments)?),
    };
    let question = Question::new(&src, &dst, proto, &inventory)?;
    let compiled = compile(&policy, &inventory);
    let answers = question.ask(&compiled)?;
    if json {
        let answers: Vec<Value> = answers.iter().map(|answer| answer.as_json(&inventory)).collect();
        return show(&format!("{:#}\n", json!({ "schema": 1, "answers": answers })));
    }
    let lines: Vec<String> = answers.iter().map(|answer| answer.as_text(&file, &inventory)).collect();
    show(&lines.concat())
}

fn protocol(word: Option<&str>) -> Result<u8, CommandError> {
    let word = word.unwrap_or("tcp");
    protocol_number(word).ok_or_else(|| {
        CommandError::Usage(format!("`{word}` is not a protocol; write tcp, udp, icmp or a number from 1 to 255"))
    })
}

/// The connections to explain: from each source to each destination, with one protocol and port.
pub(super) struct Question {
    sources: Vec<IpAddr>,
    destinations: Vec<IpAddr>,
    proto: u8,
    port: u16,
}

/// The explanation for one pair of addresses.
pub(super) struct Answer {
    packet: Packet,
    explanation: Explanation,
}

impl Question {
    pub(super) fn new(src: &str, dst: &str, proto: u8, inventory: &Inventory) -> Result<Self, CommandError> {
        let has_ports = has_ports(proto);
        let (host, port) = match dst.rsplit_once(':').filter(|(host, _)| has_ports && !host.is_empty()) {
            Some((host, port)) => (host.trim_matches(['[', ']']), port.parse().ok()),
            None if has_ports => (dst, None),
            // This protocol has no ports, so the destination is only a host. A port after it is ignored.
            None => (host_alone(dst), Some(0)),
        };
        let port = port.ok_or_else(|| {
            CommandError::Usage(format!("`{dst}` has no port; write DST:PORT, such as {host}:22 or [fd00::1]:22"))
        })?;
        Ok(Self { sources: addresses(src, inventory)?, destinations: addresses(host, inventory)?, proto, port })
    }

    /// Returns one answer per address family in which both sides have an address. Two families with the same answer share one.
    pub(super) fn ask(&self, compiled: &Compiled) -> Result<Vec<Answer>, CommandError> {
        let mut answers: Vec<Answer> = Vec::new();
        for src in &self.sources {
            for dst in self.destinations.iter().filter(|dst| dst.is_ipv4() == src.is_ipv4()) {
                let proto = protocol_towards(self.proto, *dst);
                let packet = Packet { src: *src, dst: *dst, proto, port: self.port };
                let explanation = compiled.explain(&packet);
                if answers.iter().all(|answer| answer.explanation != explanation) {
                    answers.push(Answer { packet, explanation });
                }
            }
        }
        if answers.is_empty() {
            return Err(CommandError::Run(String::from("source and destination have no address of the same family")));
        }
        Ok(answers)
    }
}

/// Returns a destination without its port, if it has a port.
fn host_alone(dst: &str) -> &str {
    if dst.parse::<IpAddr>().is_ok() {
        return dst;
    }
    dst.rsplit_once(':').map_or(dst, |(host, _)| host).trim_matches(['[', ']'])
}

fn addresses(word: &str, inventory: &Inventory) -> Result<Vec<IpAddr>, CommandError> {
    match word.parse() {
        Ok(address) => Ok(vec![address]),
        Err(_) => Ok(inventory.nodes[input::node(word, inventory)?].addresses.clone()),
    }
}

impl Answer {
    pub(super) fn as_text(&self, file: &str, inventory: &Inventory) -> String {
        let Self { packet, explanation } = self;
        let connection = format!("{} to {}, {}", self.from(inventory), self.to(inventory), self.service());
        let Some(receiver) = explanation.receiver else {
            return format!("denied: {connection}\n  no node has {}, and no approved route leads to it\n", packet.dst);
        };
        if let Some(rule) = explanation.rule {
            return format!(
                "allowed: {connection}\n  by {file}:{}, rule {} of {}\n",
                rule.line, rule.number, rule.section
            );
        }
        let name = &inventory.nodes[receiver].name;
        let near: Vec<String> = explanation.near.iter().map(|origin| origin.line.to_string()).collect();
        let near = match near.as_slice() {
            [] => format!("  no rule allows anything from there to {name}\n"),
            [line] => format!("  the rule of line {line} allows other ports or protocols from there to {name}\n"),
            lines => format!(
                "  rules that allow other ports or protocols from there to {name}: lines {}\n",
                lines.join(", ")
            ),
        };
        format!("denied: {connection}\n{near}")
    }

    fn service(&self) -> String {
        let name = protocol_name(self.packet.proto);
        if has_ports(self.packet.proto) { format!("{name} port {}", self.packet.port) } else { name }
    }

    fn from(&self, inventory: &Inventory) -> String {
        end(self.packet.src, self.explanation.sender, inventory)
    }

    fn to(&self, inventory: &Inventory) -> String {
        end(self.packet.dst, self.explanation.receiver, inventory)
    }

    pub(super) fn as_json(&self, inventory: &Inventory) -> Value {
        let Self { packet, explanation } = self;
        let name = |node: Option<usize>| node.map(|node| inventory.nodes[node].name.as_str());
        let origin =
            |origin: &Origin| json!({ "section": origin.section, "number": origin.number, "line": origin.line });
        json!({
            "allowed": explanation.rule.is_some(),
            "from": { "node": name(explanation.sender), "address": packet.src },
            "to": { "node": name(explanation.receiver), "address": packet.dst },
            "proto": packet.proto,
            "port": packet.port,
            "rule": explanation.rule.as_ref().map(origin),
            "near": explanation.near.iter().map(origin).collect::<Vec<_>>(),
        })
    }
}

/// Returns `NODE (ADDRESS)`, or names the node behind which the address is.
fn end(address: IpAddr, node: Option<usize>, inventory: &Inventory) -> String {
    match node.map(|node| &inventory.nodes[node]) {
        None => address.to_string(),
        Some(node) if node.addresses.contains(&address) => format!("{} ({address})", node.name),
        Some(node) => format!("{address} behind {}", node.name),
    }
}
