//! `audit`: the record of changes. `list` prints a table, `export` JSON lines.

use std::time::Duration;

use taut_base::parse_time;

use super::arguments::Arguments;
use super::remote::Remote;
use super::shown::json_escaped;
use super::table::table;
use super::{CommandError, no_verb, show};
use crate::contract::{AuditEntry, AuditList};

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("list or export")?;
    if !["list", "export"].contains(&verb.as_str()) {
        return Err(no_verb("audit", &verb, &["list", "export"]));
    }
    let bounds = bounds(&mut arguments)?;
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let mut after = 0;
    let mut all: Vec<AuditEntry> = Vec::new();
    loop {
        let answer = remote.get(&format!("audit?limit=500&after={after}{bounds}"))?;
        let page: AuditList = remote.typed(&answer)?;
        let next = page.next;
        if verb == "export" {
            lines(&answer)?;
        } else {
            all.extend(page.entries);
        }
        match next {
            Some(next) => after = next,
            None => break,
        }
    }
    if verb == "export" { Ok(()) } else { show(&text(all)) }
}

/// Prints the entries of a page as one JSON object a line, with fields of later releases.
fn lines(answer: &serde_json::Value) -> Result<(), CommandError> {
    let entries = answer["entries"].as_array().into_iter().flatten();
    show(&entries.map(|entry| json_escaped(&format!("{entry}\n"))).collect::<String>())
}

/// Returns the options `--since` and `--until` as a part of a query.
fn bounds(arguments: &mut Arguments) -> Result<String, CommandError> {
    let mut query = String::new();
    for name in ["since", "until"] {
        let Some(text) = arguments.value(name)? else { continue };
        let time = parse_time(&text).map(|time: Duration| time.as_secs());
        let time = time.ok_or_else(|| {
            CommandError::Usage(format!(
                "`--{name} {text}` is not a time; write 2026-11-28 or 2026-11-28T09:00Z, in UTC"
            ))
        })?;
        query.push_str(&format!("&{name}={time}"));
    }
    Ok(query)
}

fn text(entries: Vec<AuditEntry>) -> String {
    let heads = ["TIME", "ACTOR", "FROM", "NETWORK", "ACTION", "OBJECT"].map(String::from).to_vec();
    let row = |entry: AuditEntry| {
        let id = entry.actor.id.map(|id| format!(" {id}")).unwrap_or_default();
        let name = if entry.actor.name.is_empty() { format!("{}{id}", entry.actor.kind) } else { entry.actor.name };
        vec![entry.time, name, entry.source, entry.network.unwrap_or_default(), entry.action, entry.object]
    };
    table(&std::iter::once(heads).chain(entries.into_iter().map(row)).collect::<Vec<_>>())
}
