//! `names`: the names that an operator chooses for a network.

use std::net::IpAddr;

use super::arguments::Arguments;
use super::devices::separated;
use super::remote::{Remote, in_network};
use super::table::table;
use super::{CommandError, complain, no_verb};
use crate::contract::{ChangeNames, DomainEntry, NamesAnswer, RecordEntry};

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("list, set-record, remove-record, set-domain, remove-domain or set-base")?;
    let network = arguments.value("network")?;
    let network = in_network(network.as_deref());
    let change = match verb.as_str() {
        "list" => None,
        "set-record" => {
            let name = arguments.need("the name, such as printer or git.corp.example")?;
            let addresses = addresses(&arguments.need("its addresses, such as 10.1.0.7,fd01::7")?)?;
            Some(ChangeNames { set_records: vec![RecordEntry { name, addresses }], ..ChangeNames::default() })
        }
        "remove-record" => {
            Some(ChangeNames { remove_records: vec![arguments.need("the name")?], ..ChangeNames::default() })
        }
        "set-domain" => {
            let domain = arguments.need("the domain, such as corp.example")?;
            let servers = addresses(&arguments.need("the addresses of its servers, such as 10.1.0.53")?)?;
            Some(ChangeNames { set_domains: vec![DomainEntry { domain, servers }], ..ChangeNames::default() })
        }
        "remove-domain" => {
            Some(ChangeNames { remove_domains: vec![arguments.need("the domain")?], ..ChangeNames::default() })
        }
        "set-base" => {
            let base = arguments.need("the base domain, such as corp.example, or `default`")?;
            Some(ChangeNames { base_domain: Some((base != "default").then_some(base)), ..ChangeNames::default() })
        }
        other => {
            let verbs = ["list", "set-record", "remove-record", "set-domain", "remove-domain", "set-base"];
            return Err(no_verb("names", other, &verbs));
        }
    };
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let path = format!("names{network}");
    let answer = match &change {
        None => remote.get(&path)?,
        Some(change) => remote.patch(&path, change)?,
    };
    if let (Some(change), Ok(names)) = (&change, remote.typed::<NamesAnswer>(&answer)) {
        warn_of_consent(change, &names);
    }
    remote.show(&answer, |names: NamesAnswer| list(&names))
}

fn addresses(text: &str) -> Result<Vec<IpAddr>, CommandError> {
    let address = |text: &String| text.parse().map_err(|_| CommandError::Usage(format!("`{text}` is no address")));
    separated(text).iter().map(address).collect()
}

/// Warns if nodes use what was set only with their users' consent.
fn warn_of_consent(change: &ChangeNames, names: &NamesAnswer) {
    let records = change.set_records.iter().map(|record| record.name.as_str());
    let domains = change.set_domains.iter().map(|split| split.domain.as_str());
    let set: Vec<&str> =
        records.chain(domains).chain(change.base_domain.iter().flatten().map(String::as_str)).collect();
    for needed in names.need_consent.iter().filter(|needed| set.contains(&needed.domain.as_str())) {
        let domain = needed.domain.trim_start_matches("*.");
        complain(&format!(
            "warning: nodes do not use {} until their users run `taut set --accept-domains {domain}`: {}",
            needed.domain, needed.reason
        ));
    }
}

fn list(names: &NamesAnswer) -> String {
    let join = |addresses: &[IpAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let consent = |name: &str| match names.need_consent.iter().any(|needed| needed.domain == name) {
        true => String::from("needs consent"),
        false => String::new(),
    };
    let mut rows = vec![["NAME", "ANSWER", ""].map(String::from).to_vec()];
    rows.push(vec![format!("NODE.{}", names.domain), String::from("the node's addresses"), base(names)]);
    for record in &names.records {
        let whole = match record.name.contains('.') {
            true => record.name.clone(),
            false => format!("{}.{}", record.name, names.domain),
        };
        rows.push(vec![whole.clone(), join(&record.addresses), consent(&whole)]);
    }
    for split in &names.domains {
        let from = format!("asked at {}", join(&split.servers));
        rows.push(vec![format!("{} and below", split.domain), from, consent(&split.domain)]);
    }
    table(&rows)
}

fn base(names: &NamesAnswer) -> String {
    let base = names.base_domain.as_deref().unwrap_or_default();
    let is_needed = names.need_consent.iter().any(|needed| needed.domain == base);
    if is_needed { String::from("needs consent; until then below taut.internal") } else { String::new() }
}
