//! The sections that define names: `groups`, `tagOwners`, `hosts`, `ipsets`; and `autoApprovers`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use taut_base::Prefix;

use super::fields::Fields;
use super::words::{Place, selectors};
use crate::error::{PolicyError, Position};
use crate::hujson::{Entry, Item};
use crate::ipset::resolve_sets;
use crate::policy::{IpSetStep, IpSetTarget, Policy};
use crate::selector::{Selector, prefix};

/// Limit on the steps of all IP sets together, 4,096.
const MAX_IPSET_STEPS: usize = 4_096;

/// Returns the part of a section's key behind its prefix, such as `web` in `tag:web`.
fn name<'a>(entry: &'a Entry, start: &str) -> Result<&'a str, PolicyError> {
    let name = entry.key.strip_prefix(start).filter(|name| !name.is_empty() && !name.contains(char::is_whitespace));
    name.ok_or_else(|| {
        PolicyError::at(entry.at, format!("`{}` is not a name of this section", entry.key))
            .hint(format!("names here begin with `{start}` and have no spaces"))
    })
}

/// Reads `groups`.
pub(super) fn groups(item: &Item) -> Result<BTreeMap<String, Vec<String>>, PolicyError> {
    let mut groups = BTreeMap::new();
    for entry in item.map("`groups`")? {
        name(entry, "group:")?;
        let member = |item: &Item| member(item.text("a member of a group")?, item.at);
        let members = entry.item.list("a group")?.iter().map(member).collect::<Result<_, _>>()?;
        groups.insert(entry.key.clone(), members);
    }
    Ok(groups)
}

fn member(word: &str, at: Position) -> Result<String, PolicyError> {
    let word = word.trim();
    if word.starts_with("group:") {
        return Err(PolicyError::at(at, format!("`{word}` is a group, and a group cannot contain groups"))
            .hint("name its members, or name both groups in the rules"));
    }
    if !word.contains('@') || word.contains(':') {
        return Err(PolicyError::at(at, format!("`{word}` is not a login"))
            .hint("logins are like ann@example.com; a login without a domain ends with @"));
    }
    Ok(String::from(word))
}

/// Reads the tags of `tagOwners`, without their owners: owners may be tags that are defined further down.
pub(super) fn tags(item: &Item) -> Result<BTreeMap<String, Vec<Selector>>, PolicyError> {
    let mut tags = BTreeMap::new();
    for entry in item.map("`tagOwners`")? {
        let name = name(entry, "tag:")?;
        let letter = name.starts_with(|first: char| first.is_ascii_alphabetic());
        if !letter || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(PolicyError::at(entry.at, format!("`{}` is not a tag", entry.key))
                .hint("after `tag:` comes a letter, then letters, digits and hyphens"));
        }
        tags.insert(entry.key.clone(), Vec::new());
    }
    Ok(tags)
}

/// Reads the owners of `tagOwners`.
pub(super) fn owners(item: &Item, policy: &Policy) -> Result<BTreeMap<String, Vec<Selector>>, PolicyError> {
    let mut owners = BTreeMap::new();
    for entry in item.map("`tagOwners`")? {
        owners.insert(entry.key.clone(), selectors(&entry.item, "a tag's owners", Place::Person, policy)?);
    }
    Ok(owners)
}

/// Reads `hosts`.
pub(super) fn hosts(item: &Item) -> Result<BTreeMap<String, Prefix>, PolicyError> {
    let mut hosts = BTreeMap::new();
    for entry in item.map("`hosts`")? {
        let key = &entry.key;
        if key.is_empty() || key == "*" || key.contains(['@', ':', '/']) || key.contains(char::is_whitespace) {
            return Err(PolicyError::at(entry.at, format!("`{key}` is not a name for a host"))
                .hint("a name has no spaces and none of the characters @ : /"));
        }
        if prefix(key).is_some() {
            return Err(PolicyError::at(entry.at, format!("`{key}` is an address, not a name for one")));
        }
        let text = entry.item.text("a host")?;
        hosts.insert(key.clone(), address(text, entry.item.at)?);
    }
    Ok(hosts)
}

fn address(text: &str, at: Position) -> Result<Prefix, PolicyError> {
    prefix(text.trim()).ok_or_else(|| {
        PolicyError::at(at, format!("`{text}` is not an address")).hint("write 192.0.2.7, 10.0.0.0/8 or fd00::/64")
    })
}

/// Reads `ipsets`. The hosts of the policy are known already.
pub(super) fn ipsets(item: &Item, policy: &mut Policy) -> Result<(), PolicyError> {
    let entries = item.map("`ipsets`")?;
    for entry in entries {
        name(entry, "ipset:")?;
        policy.ipsets.insert(entry.key.clone(), Vec::new());
    }
    let mut steps = 0;
    for entry in entries {
        let list = entry.item.list("an IP set")?;
        steps += list.len();
        if steps > MAX_IPSET_STEPS {
            let message = format!("the IP sets have more than {MAX_IPSET_STEPS} entries together");
            return Err(PolicyError::at(entry.at, message).hint("use larger prefixes, or ranges"));
        }
        let read = list.iter().map(|item| step(item, policy)).collect::<Result<Vec<_>, _>>()?;
        policy.ipsets.insert(entry.key.clone(), read);
    }
    match resolve_sets(policy) {
        Ok(_) => Ok(()),
        Err(bad) => {
            let at = entries.iter().find(|entry| entry.key == bad.name).map_or(item.at, |entry| entry.at);
            Err(PolicyError::at(at, bad.why))
        }
    }
}

fn step(item: &Item, policy: &Policy) -> Result<IpSetStep, PolicyError> {
    let text = item.text("an entry of an IP set")?.trim();
    let (add, word) = match text.split_once(char::is_whitespace) {
        None => (true, text),
        Some(("add", word)) => (true, word.trim()),
        Some(("remove", word)) => (false, word.trim()),
        Some((other, _)) => {
            return Err(PolicyError::at(item.at, format!("`{other}` is not a step of an IP set"))
                .hint("write `add TARGET` or `remove TARGET`"));
        }
    };
    let undefined = |section: &str| PolicyError::at(item.at, format!("`{word}` is not defined in `{section}`"));
    let target = if let Some(prefix) = prefix(word) {
        IpSetTarget::Prefix(prefix)
    } else if word == "autogroup:internet" {
        IpSetTarget::Internet
    } else if let Some(name) = word.strip_prefix("host:") {
        let known = policy.hosts.contains_key(name);
        if !known {
            return Err(undefined("hosts"));
        }
        IpSetTarget::Host(String::from(name))
    } else if word.starts_with("ipset:") {
        if !policy.ipsets.contains_key(word) {
            return Err(undefined("ipsets"));
        }
        IpSetTarget::Set(String::from(word))
    } else {
        range(word).ok_or_else(|| {
            PolicyError::at(item.at, format!("`{word}` cannot be in an IP set"))
                .hint("write an address, a prefix, FIRST-LAST, host:NAME, ipset:NAME or autogroup:internet")
        })?
    };
    Ok(IpSetStep { add, target })
}

fn range(word: &str) -> Option<IpSetTarget> {
    let (first, last) = word.split_once('-')?;
    let (first, last): (IpAddr, IpAddr) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(IpSetTarget::Range(first, last))
}

/// Reads `autoApprovers`.
pub(super) fn approvers(item: &Item, policy: &mut Policy) -> Result<(), PolicyError> {
    let mut fields = Fields::read(item, "`autoApprovers`", &[("routes", &[]), ("exitNode", &[])])?;
    if let Some(routes) = fields.take("routes") {
        for entry in routes.map("`routes`")? {
            let route = address(&entry.key, entry.at)?;
            let who = selectors(&entry.item, "the approvers of a route", Place::Person, policy)?;
            policy.route_approvers.push((route, who));
        }
    }
    if let Some(exit) = fields.take("exitNode") {
        policy.exit_approvers = selectors(exit, "`exitNode`", Place::Person, policy)?;
    }
    Ok(())
}
