//! `names`: the names that an operator chooses for a network.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::arguments::Arguments;
use super::devices::separated;
use super::remote::{Remote, in_network};
use super::table::table;
use super::{CommandError, complain, no_verb};
use crate::contract::{ChangeNames, DomainEntry, NamesAnswer, RecordEntry};

/// The verbs, each with what it needs.
const VERBS: [(&str, &[&str]); 6] = [
    ("list", &[]),
    ("set-record", &["the name, such as printer or git.corp.example", "its addresses, such as 10.1.0.7,fd01::7"]),
    ("remove-record", &["the name"]),
    ("set-domain", &["the domain, such as corp.example", "the addresses of its servers, such as 10.1.0.53"]),
    ("remove-domain", &["the domain"]),
    ("set-base", &["the base domain, such as corp.example, or `default`"]),
];

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let verb = arguments.need("list, set-record, remove-record, set-domain, remove-domain or set-base")?;
    let Some((_, wanted)) = VERBS.iter().find(|(name, _)| *name == verb) else {
        return Err(no_verb("names", &verb, &VERBS.map(|(name, _)| name)));
    };
    let network = arguments.value("network")?;
    let network = in_network(network.as_deref());
    let operands: Vec<String> = wanted.iter().map(|what| arguments.need(what)).collect::<Result<_, _>>()?;
    let remote = Remote::new(&mut arguments)?;
    arguments.finish()?;
    let change = change(&verb, operands)?;
    let path = format!("names{network}");
    let former = match &change {
        Some(ChangeNames { base_domain: Some(_), .. }) => {
            let names = remote.get(&path)?;
            remote.typed::<NamesAnswer>(&names).ok().map(|names| names.domain)
        }
        _ => None,
    };
    let answer = match &change {
        None => remote.get(&path)?,
        Some(change) => remote.patch(&path, change)?,
    };
    if let (Some(change), Ok(names)) = (&change, remote.typed::<NamesAnswer>(&answer)) {
        warn_of_consent(change, &names);
        if let Some(former) = former.filter(|former| *former != names.domain) {
            complain(&format!(
                "warning: the names below {former} end now; nodes are called NODE.{}: change what uses the old names",
                names.domain
            ));
        }
    }
    remote.show(&answer, |names: NamesAnswer| list(&names))
}

/// Returns what a verb changes; `None` for `list`.
fn change(verb: &str, operands: Vec<String>) -> Result<Option<ChangeNames>, CommandError> {
    let mut operands = operands.into_iter();
    let mut next = || operands.next().unwrap_or_default();
    let nothing = ChangeNames::default();
    Ok(Some(match verb {
        "set-record" => {
            let record = RecordEntry { name: next(), addresses: addresses(&next())? };
            ChangeNames { set_records: vec![record], ..nothing }
        }
        "remove-record" => ChangeNames { remove_records: vec![next()], ..nothing },
        "set-domain" => {
            let domain = DomainEntry { domain: next(), servers: addresses(&next())? };
            ChangeNames { set_domains: vec![domain], ..nothing }
        }
        "remove-domain" => ChangeNames { remove_domains: vec![next()], ..nothing },
        "set-base" => match next().as_str() {
            "none" => {
                let text = "`none` is no base domain; `set-base default` goes back to taut.internal";
                return Err(CommandError::Usage(String::from(text)));
            }
            base => {
                ChangeNames { base_domain: Some(Some(String::from(base)).filter(|base| base != "default")), ..nothing }
            }
        },
        _ => return Ok(None),
    }))
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
    let mut told = BTreeSet::new();
    // A base domain and a record may be the same.
    for needed in names.need_consent.iter().filter(|needed| set.contains(&needed.domain.as_str())) {
        if !told.insert(needed.domain.as_str()) {
            continue;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_base_domain_is_no_name() {
        let base = |text: &str| change("set-base", vec![String::from(text)]).map(|change| change.unwrap().base_domain);
        assert_eq!(base("default").ok(), Some(Some(None)));
        assert_eq!(base("corp.example").ok(), Some(Some(Some(String::from("corp.example")))));
        assert!(matches!(base("none"), Err(CommandError::Usage(text)) if text.contains("set-base default")));
    }
}
