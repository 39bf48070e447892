//! `policy compile`.

use std::fmt::Write;

use serde::Serialize;
use taut_policy::{Compiled, Inventory, Rule, Service, compile};

use super::input;
use crate::cli::arguments::Arguments;
use crate::cli::{CommandError, show};

/// The filter of a node, as JSON.
#[derive(Serialize)]
struct NodeFilter<'a> {
    name: &'a str,
    rules: &'a [Rule],
}

/// `policy compile FILE --nodes FILE`: prints what each node enforces.
pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let file = arguments.need("the file of the policy")?;
    let json = arguments.switch("json");
    let inventory = input::nodes(&mut arguments)?;
    arguments.finish()?;
    let inventory = inventory.ok_or_else(input::no_nodes)?;
    let compiled = compile(&input::policy(&file)?, &inventory);
    // One node at a time: all filters together can be large.
    if json {
        show("{\"schema\":1,\"nodes\":[")?;
        for (place, name) in names(&inventory).enumerate() {
            let comma = if place == 0 { "" } else { "," };
            show(&format!("{comma}\n{}", as_json(name, place, &compiled)?))?;
        }
        return show("\n]}\n");
    }
    for (place, name) in names(&inventory).enumerate() {
        show(&as_text(name, place, &compiled)?)?;
    }
    Ok(())
}

fn names(inventory: &Inventory) -> impl Iterator<Item = &str> {
    inventory.nodes.iter().map(|node| node.name.as_str())
}

pub(super) fn as_json(name: &str, node: usize, compiled: &Compiled) -> Result<String, CommandError> {
    let filter = compiled.filter(node);
    filter.check().map_err(|error| CommandError::Run(format!("{name}: {error}")))?;
    serde_json::to_string(&NodeFilter { name, rules: &filter.rules }).map_err(CommandError::run)
}

pub(super) fn as_text(name: &str, node: usize, compiled: &Compiled) -> Result<String, CommandError> {
    let (filter, origins) = compiled.filter_with_rules(node);
    filter.check().map_err(|error| CommandError::Run(format!("{name}: {error}")))?;
    let mut text = format!("{name}\n");
    if filter.rules.is_empty() {
        text.push_str("  nothing may reach it\n");
    }
    for (rule, origins) in filter.rules.iter().zip(&origins) {
        let sources: Vec<String> = rule.src.iter().map(ToString::to_string).collect();
        let lines: Vec<String> =
            origins.iter().filter_map(|rule| compiled.origin(*rule)).map(|origin| origin.line.to_string()).collect();
        let _ = writeln!(text, "  from {} (lines {})", sources.join(" "), lines.join(", "));
        let protos: Vec<Option<u8>> =
            if rule.proto.is_empty() { vec![None] } else { rule.proto.iter().copied().map(Some).collect() };
        for target in &rule.dst {
            let services: Vec<String> =
                protos.iter().map(|proto| Service { proto: *proto, ports: target.ports.clone() }.to_string()).collect();
            let _ = writeln!(text, "    to {} {}", target.prefix, services.join(" "));
        }
    }
    Ok(text)
}
