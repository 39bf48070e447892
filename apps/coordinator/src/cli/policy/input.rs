//! The files of the command: policies, and nodes with people.

use std::fs;

use taut_base::closest;
use taut_policy::{Inventory, MAX_TEXT, Policy};

use crate::cli::CommandError;
use crate::cli::arguments::Arguments;
use crate::cli::remote::{Remote, in_network};
use crate::contract::PolicyAnswer;

/// Limit on the length of a file with nodes, 64 MiB: more than 100,000 nodes.
const MAX_NODES_FILE: u64 = 64 << 20;

/// A policy, the nodes and people that it is applied to, and the form of the answer.
pub(super) struct Case {
    pub(super) policy: Policy,
    /// The file of the policy, or its version.
    pub(super) name: String,
    pub(super) inventory: Inventory,
    pub(super) json: bool,
}

/// Reads a policy, and the file of `--nodes` or the nodes of the coordinator. These are the last arguments.
pub(super) fn of_files(file: &str, mut arguments: Arguments) -> Result<Case, CommandError> {
    let Some(inventory) = nodes(&mut arguments)? else {
        let of_coordinator = of_coordinator(arguments)?;
        return Ok(Case { policy: policy(file)?, name: String::from(file), ..of_coordinator });
    };
    let json = arguments.switch("json");
    arguments.finish()?;
    Ok(Case { policy: policy(file)?, name: String::from(file), inventory, json })
}

/// Asks a coordinator for its policy. The options that name the coordinator are the last arguments.
pub(super) fn of_coordinator(mut arguments: Arguments) -> Result<Case, CommandError> {
    if arguments.value("nodes")?.is_some() {
        return Err(CommandError::Usage(String::from("--nodes is for a policy in a file; name the file, too")));
    }
    let network = arguments.value("network")?;
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let answer: PolicyAnswer = remote.typed(&remote.get(&format!("policy{}", in_network(network.as_deref())))?)?;
    let name = format!("version {}", answer.policy.version);
    let policy = Policy::parse(&answer.text)
        .map_err(|error| CommandError::Run(format!("{name}:{}:{}: {}", error.line, error.column, error.message)))?;
    Ok(Case { policy, name, inventory: answer.inventory, json: remote.prints_json() })
}

/// Reads the text of a policy.
pub(super) fn text(file: &str) -> Result<String, CommandError> {
    read(file, MAX_TEXT as u64)
}

/// Reads a policy. A mistake in it is reported with its line and column.
pub(super) fn policy(file: &str) -> Result<Policy, CommandError> {
    let text = text(file)?;
    Policy::parse(&text).map_err(|error| CommandError::Refused {
        message: format!("{file}:{}:{}: {}", error.line, error.column, error.message),
        hint: error.hint,
    })
}

/// Reads the file of `--nodes`, or returns `None` if the option was not given.
pub(super) fn nodes(arguments: &mut Arguments) -> Result<Option<Inventory>, CommandError> {
    let Some(file) = arguments.value("nodes")? else { return Ok(None) };
    let text = read(&file, MAX_NODES_FILE)?;
    let inventory: Inventory = serde_json::from_str(&text).map_err(|error| CommandError::Refused {
        message: format!("{file} has no nodes: {error}"),
        hint: Some(String::from(
            r#"write {"nodes":[{"name":"web1","addresses":["100.64.0.1"],"user":"ann@example.com","tags":[],"routes":[]}]}"#,
        )),
    })?;
    check(&inventory).map_err(|why| CommandError::Run(format!("{file}: {why}")))?;
    Ok(Some(inventory))
}

/// The error of a command that needs `--nodes`.
pub(super) fn no_nodes() -> CommandError {
    CommandError::Usage(String::from("--nodes FILE is missing"))
}

fn check(inventory: &Inventory) -> Result<(), String> {
    inventory.check()?;
    for node in &inventory.nodes {
        if let Some(tag) = node.tags.iter().find(|tag| !tag.starts_with("tag:")) {
            return Err(format!("the tag `{tag}` of `{}` does not begin with `tag:`", node.name));
        }
    }
    Ok(())
}

fn read(file: &str, limit: u64) -> Result<String, CommandError> {
    let failed = |error: std::io::Error| CommandError::Run(format!("{file} cannot be read: {error}"));
    let length = fs::metadata(file).map_err(failed)?.len();
    if length > limit {
        return Err(CommandError::Run(format!("{file} has {length} bytes; the limit is {limit}")));
    }
    let bytes = fs::read(file).map_err(failed)?;
    String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        CommandError::Run(format!("{file}: line {line} is not UTF-8"))
    })
}

/// Returns the place of the node of this name.
pub(super) fn node(name: &str, inventory: &Inventory) -> Result<usize, CommandError> {
    if let Some(node) = inventory.nodes.iter().position(|node| node.name == name) {
        return Ok(node);
    }
    let meant = closest(name, inventory.nodes.iter().map(|node| node.name.as_str()));
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => String::from("write the name of a node in the file of --nodes, or an address"),
    };
    Err(CommandError::Refused { message: format!("there is no node `{name}`"), hint: Some(hint) })
}
