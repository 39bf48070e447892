//! Names that an operator chooses for a network: its base domain, records, and domains of other servers (docs/internals/names.md).
//!
//! The coordinator stores what every node could use with its user's consent. Whether a node uses it is the node's decision (fault E17), and the operator is told which domains need consent.

use serde_json::{Value, json};
use taut_netmap::{DomainFault, MAX_DOMAINS, MAX_RECORDS, NameRecord, Naming, SplitDomain};

use super::party::{Change, PeopleError, record};
use super::{State, StateError, networks, random_bits};
use crate::log;
use crate::store::{NetworkRow, Party};

/// A change of a network's names. Entries are set first and removed then.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamesChange {
    /// `Some(None)` for the default.
    pub(crate) base_domain: Option<Option<String>>,
    pub(crate) set_records: Vec<NameRecord>,
    pub(crate) remove_records: Vec<String>,
    pub(crate) set_domains: Vec<SplitDomain>,
    pub(crate) remove_domains: Vec<String>,
}

/// The names of a network.
pub(crate) struct NamesView {
    pub(crate) network: NetworkRow,
    /// The domain of the nodes' names.
    pub(crate) zone: String,
    /// Domains that nodes use only if their users accept them, with the reason.
    pub(crate) need_consent: Vec<(String, DomainFault)>,
}

impl State {
    /// Returns the names of a network.
    pub(crate) async fn chosen_names(&self, network: Option<&str>) -> Result<NamesView, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        Ok(view(networks::named(&mut tx, network).await?))
    }

    /// Changes the names of a network, whose nodes learn of it. With a version only if the names are still those of that version.
    pub(crate) async fn change_names(
        &self,
        network: Option<&str>,
        change: NamesChange,
        based_on: Option<u64>,
    ) -> Result<NamesView, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let mut network = networks::named(&mut tx, network).await?;
        if based_on.is_some_and(|version| version != network.names_version) {
            return Err(PeopleError::Changed.into());
        }
        let naming = changed(&network, change)?;
        if naming == network.naming {
            return Ok(view(network));
        }
        let new: Vec<&str> = naming.records.iter().map(|record| record.name.as_str()).collect();
        let taken = tx.names(network.id).await?;
        let is_new = |name: &&&str| !network.naming.records.iter().any(|record| record.name == **name);
        if let Some(taken) = new.iter().filter(is_new).find(|name| taken.contains(**name)) {
            return Err(StateError::NameTaken(String::from(*taken)));
        }
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.set_names(network.id, &naming, version).await?;
        let (before, after) = differing(&network.naming, &naming);
        let (of, object) = (Some(network.id), format!("names of network {}", network.id));
        let (before, after) = (Some(before), Some(after));
        record(&mut tx, Change { network: of, action: "names-changed", object, before, after }).await?;
        tx.commit().await?;
        self.hub(network.id).announce(version);
        let (records, domains) = (naming.records.len(), naming.domains.len());
        tracing::info!(target: log::MEMBERS, event = "names-changed", network = network.name, records, domains);
        (network.naming, network.names_version, network.version) = (naming, version, version);
        Ok(view(network))
    }
}

fn view(network: NetworkRow) -> NamesView {
    let refused = network.naming.usable(&network.name, &[]).1;
    // The zone that nodes have whose users accept the base domain.
    let accepted: Vec<String> = network.naming.base_domain.iter().cloned().collect();
    let zone = network.naming.usable(&network.name, &accepted).0.zone;
    NamesView {
        zone,
        need_consent: refused.into_iter().map(|refused| (refused.domain, refused.fault)).collect(),
        network,
    }
}

/// Returns the names after a change.
fn changed(network: &NetworkRow, change: NamesChange) -> Result<Naming, StateError> {
    let mut naming = network.naming.clone();
    if let Some(base) = change.base_domain {
        naming.base_domain = base.as_deref().map(plain);
    }
    let zone = naming.usable(&network.name, &naming.base_domain.iter().cloned().collect::<Vec<_>>()).0.zone;
    for NameRecord { name, addresses } in change.set_records {
        let name = in_zone(&name, &zone);
        naming.records.retain(|record| record.name != name);
        naming.records.push(NameRecord { name, addresses });
    }
    for name in change.remove_records {
        let (name, before) = (in_zone(&name, &zone), naming.records.len());
        naming.records.retain(|record| record.name != name);
        if naming.records.len() == before {
            return Err(StateError::NoName(name));
        }
    }
    for SplitDomain { domain, servers } in change.set_domains {
        let domain = plain(&domain);
        naming.domains.retain(|split| split.domain != domain);
        naming.domains.push(SplitDomain { domain, servers });
    }
    for domain in change.remove_domains {
        let (domain, before) = (plain(&domain), naming.domains.len());
        naming.domains.retain(|split| split.domain != domain);
        if naming.domains.len() == before {
            return Err(StateError::NoName(domain));
        }
    }
    naming.records.sort_by(|one, other| one.name.cmp(&other.name));
    naming.domains.sort_by(|one, other| one.domain.cmp(&other.domain));
    check(&network.name, &naming)?;
    Ok(naming)
}

/// Refuses what no node would use, with consent or without.
fn check(network: &str, naming: &Naming) -> Result<(), StateError> {
    if naming.records.len() > MAX_RECORDS || naming.domains.len() > MAX_DOMAINS {
        return Err(StateError::ManyNames);
    }
    // With consent to everything.
    let names = naming.records.iter().map(|record| record.name.trim_start_matches("*.").to_owned());
    let domains = naming.domains.iter().map(|split| split.domain.clone());
    let accepted: Vec<String> = names.chain(domains).chain(naming.base_domain.clone()).collect();
    let (usable, refused) = naming.usable(network, &accepted);
    if let Some(refused) = refused.into_iter().next() {
        return Err(StateError::BadDomain { domain: refused.domain, fault: refused.fault });
    }
    if let Some(base) = naming.base_domain.as_ref().filter(|base| usable.zone != format!("{network}.{base}")) {
        return Err(StateError::BadDomain { domain: base.clone(), fault: DomainFault::NoDomain });
    }
    let given = naming.records.iter().map(|record| record.addresses.len()).sum::<usize>()
        + naming.domains.iter().map(|split| split.servers.len()).sum::<usize>();
    let used = usable.records.iter().map(|record| record.addresses.len()).sum::<usize>()
        + usable.domains.iter().map(|split| split.servers.len()).sum::<usize>();
    if given == used {
        return Ok(());
    }
    let is_cut = |name: &str, addresses: usize| {
        let records = usable.records.iter().map(|record| (&record.name, record.addresses.len()));
        let all = records.chain(usable.domains.iter().map(|split| (&split.domain, split.servers.len())));
        !all.into_iter()
            .any(|(known, count)| count == addresses && (known == name || known.starts_with(&format!("{name}."))))
    };
    let mut all = naming.records.iter().map(|record| (&record.name, record.addresses.len()));
    let cut = all.find(|(name, count)| is_cut(name, *count)).map(|(name, _)| name);
    let mut all = naming.domains.iter().map(|split| (&split.domain, split.servers.len()));
    let cut = cut.or_else(|| all.find(|(name, count)| is_cut(name, *count)).map(|(name, _)| name));
    Err(StateError::BadDomain { domain: cut.cloned().unwrap_or_default(), fault: DomainFault::NoAddress })
}

/// Returns a domain in lower case and without a dot at its end.
fn plain(domain: &str) -> String {
    domain.trim().trim_end_matches('.').to_ascii_lowercase()
}

/// Returns the name of a record as it is stored: one label for a name right below the zone, so that it follows another base domain.
fn in_zone(name: &str, zone: &str) -> String {
    let plain = plain(name);
    let label = plain.strip_suffix(zone).and_then(|front| front.strip_suffix('.'));
    label.filter(|label| !label.contains('.') && !label.is_empty()).map_or_else(|| plain.clone(), String::from)
}

/// Returns what differs, for the audit log.
fn differing(before: &Naming, after: &Naming) -> (Value, Value) {
    let of = |one: &Naming, other: &Naming| {
        let records: Vec<&NameRecord> = one.records.iter().filter(|record| !other.records.contains(record)).collect();
        let domains: Vec<&SplitDomain> = one.domains.iter().filter(|split| !other.domains.contains(split)).collect();
        let mut value = json!({ "records": records, "domains": domains });
        if one.base_domain != other.base_domain {
            value["base_domain"] = json!(one.base_domain);
        }
        value
    };
    (of(before, after), of(after, before))
}
