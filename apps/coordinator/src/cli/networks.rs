//! The verb `networks`: lists, shows, creates, changes and removes networks.

use super::arguments::Arguments;
use super::remote::{Remote, escape};
use super::table::{distance, duration, table};
use super::{CommandError, complain, no_verb};
use crate::contract::{ChangeNetwork, CreateNetwork, NetworkAnswer, NetworkEntry, NetworkList, RemovedNetwork};

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("list, show, create, set or remove")?;
    match verb.as_str() {
        "list" => {
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            remote.show(&remote.get("networks")?, list)
        }
        "show" => {
            let name = arguments.need("the network")?;
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.get(&format!("networks/{}", escape(&name)))?;
            remote.show(&answer, |answer: NetworkAnswer| one(answer.network))
        }
        "create" => {
            let name = arguments.need("the network's name")?;
            let body = CreateNetwork { name, ipv4_prefix: arguments.value("ipv4-prefix")? };
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.post("networks", &body)?;
            if let Ok(created) = remote.typed::<NetworkAnswer>(&answer) {
                warn_of_overlaps(&remote, &created.network);
            }
            remote.show(&answer, |answer: NetworkAnswer| one(answer.network))
        }
        "set" => {
            let name = arguments.need("the network")?;
            let approval = match arguments.value("approval")?.as_deref() {
                None => None,
                Some("on") => Some(true),
                Some("off") => Some(false),
                Some(other) => return Err(CommandError::Usage(format!("--approval is on or off, not `{other}`"))),
            };
            let key_expiry = arguments.value("key-expiry")?.map(|text| duration(&text)).transpose()?;
            let body = ChangeNetwork { approval, key_expiry };
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let answer = remote.patch(&format!("networks/{}", escape(&name)), &body)?;
            remote.show(&answer, |answer: NetworkAnswer| one(answer.network))
        }
        "remove" => {
            let (name, force) = (arguments.need("the network")?, arguments.switch("force"));
            let remote = Remote::new(&mut arguments)?;
            arguments.finish()?;
            let force = if force { "?force=true" } else { "" };
            let answer = remote.delete(&format!("networks/{}{force}", escape(&name)))?;
            remote.show(&answer, |answer: RemovedNetwork| match answer.removed.nodes {
                0 => format!("network {name} is removed\n"),
                nodes => format!("network {name} is removed; members that were removed with it: {nodes}\n"),
            })
        }
        other => Err(no_verb("networks", other, &["list", "show", "create", "set", "remove"])),
    }
}

/// Warns if the IPv4 prefix of a new network overlaps those of other networks. An overlap is allowed, because most hosts are in one network only.
fn warn_of_overlaps(remote: &Remote, new: &NetworkEntry) {
    let networks = match remote.get("networks").and_then(|answer| remote.typed::<NetworkList>(&answer)) {
        Ok(answer) => answer.networks,
        Err(failed) => return complain(&format!("the other networks' prefixes could not be compared: {failed}")),
    };
    let own = new.ipv4;
    let overlapping: Vec<String> = networks
        .iter()
        .filter(|other| other.id != new.id && other.ipv4.overlaps(own))
        .map(|other| format!("{} ({})", other.name, other.ipv4))
        .collect();
    if !overlapping.is_empty() {
        complain(&format!(
            "warning: {own} overlaps the prefix of {}: a host cannot join two networks if any of their \
             addresses are equal; choose another prefix with --ipv4-prefix",
            overlapping.join(", ")
        ));
    }
}

fn one(network: NetworkEntry) -> String {
    let NetworkEntry { id, name, ipv4, ipv6, version, nodes, online, approval, key_expiry, .. } = network;
    let key_expiry = key_expiry.map_or_else(|| String::from("never"), |life| format!("{} h", life / 3600));
    let fields = [
        ("name", name),
        ("id", id),
        ("ipv4", ipv4.to_string()),
        ("ipv6", ipv6.to_string()),
        ("nodes", nodes.to_string()),
        ("online", online.to_string()),
        ("version", version.to_string()),
        ("approval", String::from(if approval { "on" } else { "off" })),
        ("key-expiry", key_expiry),
    ];
    table(&fields.map(|(field, value)| vec![format!("{field}:"), value]))
}

fn list(answer: NetworkList) -> String {
    let heads = ["NAME", "IPV4", "IPV6", "NODES", "ONLINE", "CREATED"].map(String::from).to_vec();
    let row = |network: NetworkEntry| {
        let NetworkEntry { name, ipv4, ipv6, nodes, online, created_at, .. } = network;
        vec![name, ipv4.to_string(), ipv6.to_string(), nodes.to_string(), online.to_string(), distance(created_at)]
    };
    table(&std::iter::once(heads).chain(answer.networks.into_iter().map(row)).collect::<Vec<_>>())
}
