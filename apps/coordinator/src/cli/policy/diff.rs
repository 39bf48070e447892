//! `policy diff`.

use serde_json::{Value, json};
use taut_policy::{Change, Diff, End, Inventory, Service, diff};

use super::input;
use crate::cli::arguments::Arguments;
use crate::cli::{CommandError, show};

/// Limit on the changes that are printed, 10,000. The others are counted.
const MAX_CHANGES: usize = 10_000;

/// `policy diff OLD NEW --nodes FILE`: prints which pairs gain and lose which services. A single file is compared with the coordinator's policy.
pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let first = arguments.need("the file of the policy")?;
    let second = arguments.word();
    let (new, input::Case { policy: old, inventory, json, .. }) = match second {
        Some(new) => (new, input::of_files(&first, arguments)?),
        None => (first, input::of_coordinator(arguments)?),
    };
    let found = diff(&old, &input::policy(&new)?, &inventory, MAX_CHANGES);
    if json {
        return show(&format!("{:#}\n", as_json(&found, &inventory)));
    }
    show(&as_text(&found, &inventory))
}

pub(super) fn as_text(diff: &Diff, inventory: &Inventory) -> String {
    if diff.changes.is_empty() {
        return String::from("no pair gains or loses anything\n");
    }
    let mut text: String = diff.changes.iter().map(|change| line(change, inventory)).collect();
    if diff.more > 0 {
        text.push_str(&format!("and {} further changes\n", diff.more));
    }
    text
}

fn line(change: &Change, inventory: &Inventory) -> String {
    let services = |services: &[Service]| services.iter().map(Service::to_string).collect::<Vec<_>>().join(" ");
    let mut parts = Vec::new();
    if !change.gained.is_empty() {
        parts.push(format!("gains {}", services(&change.gained)));
    }
    if !change.lost.is_empty() {
        parts.push(format!("loses {}", services(&change.lost)));
    }
    let (from, to) = (name(&change.from, false, inventory), name(&change.to, true, inventory));
    format!("{from} -> {to}: {}\n", parts.join("; "))
}

/// Returns the name of an end's node, with the addresses if the end is not all of the node's own addresses.
fn name(end: &End, is_destination: bool, inventory: &Inventory) -> String {
    let addresses: Vec<String> = end.addresses.iter().map(ToString::to_string).collect();
    let addresses = addresses.join(" ");
    match end.node.map(|node| inventory.nodes[node].name.as_str()) {
        None => addresses,
        Some(node) if addresses.is_empty() => String::from(node),
        Some(node) if is_destination => format!("{addresses} at {node}"),
        Some(node) => format!("{node} ({addresses})"),
    }
}

pub(super) fn as_json(diff: &Diff, inventory: &Inventory) -> Value {
    let end = |end: &End| {
        let node = end.node.map(|node| inventory.nodes[node].name.as_str());
        json!({ "node": node, "addresses": end.addresses })
    };
    let service = |service: &Service| match service.proto {
        Some(proto) => json!({ "proto": [proto], "ports": service.ports }),
        None => json!({ "ports": service.ports }),
    };
    let services = |services: &[Service]| services.iter().map(service).collect::<Vec<_>>();
    let change = |change: &Change| json!({ "from": end(&change.from), "to": end(&change.to), "gained": services(&change.gained), "lost": services(&change.lost) });
    json!({ "schema": 1, "changes": diff.changes.iter().map(change).collect::<Vec<_>>(), "more": diff.more })
}
