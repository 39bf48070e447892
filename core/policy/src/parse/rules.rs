//! The sections with rules, `acls` and `grants`.

use super::fields::{Fields, Known};
use super::ports::{host_and_ports, ports};
use super::words::{Place, selector, selectors};
use crate::error::PolicyError;
use crate::filter::ALL_PORTS;
use crate::hujson::Item;
use crate::policy::{Access, Origin, Policy, PolicyRule, Service};
use crate::protocol::{has_ports, protocol_name, protocol_number};
use crate::selector::Selector;

/// Limit on the rules of a policy, 10,000, in both sections together.
const MAX_RULES: usize = 10_000;

const ACL: [Known; 4] = [("action", &[]), ("src", &["users"]), ("dst", &["ports"]), ("proto", &[])];
const GRANT: [Known; 3] = [("src", &[]), ("dst", &[]), ("ip", &[])];

/// Reads `acls`.
pub(super) fn acls(item: &Item, policy: &mut Policy) -> Result<(), PolicyError> {
    each(item, "acls", policy, acl)
}

/// Reads `grants`.
pub(super) fn grants(item: &Item, policy: &mut Policy) -> Result<(), PolicyError> {
    each(item, "grants", policy, grant)
}

type Parts = (Vec<Selector>, Vec<Access>);

fn each(
    item: &Item,
    section: &'static str,
    policy: &mut Policy,
    read: fn(&Item, &Policy) -> Result<Parts, PolicyError>,
) -> Result<(), PolicyError> {
    for (index, item) in item.list(&format!("`{section}`"))?.iter().enumerate() {
        if policy.rules.len() == MAX_RULES {
            return Err(PolicyError::at(item.at, format!("the policy has more than {MAX_RULES} rules")));
        }
        let (src, access) = read(item, policy)?;
        let origin = Origin { section, number: index + 1, line: item.at.line };
        policy.rules.push(PolicyRule { origin, src, access });
    }
    Ok(())
}

fn acl(item: &Item, policy: &Policy) -> Result<Parts, PolicyError> {
    let mut fields = Fields::read(item, "a rule of `acls`", &ACL)?;
    let action = fields.need("action")?;
    let word = action.text("`action`")?;
    if word != "accept" {
        return Err(PolicyError::at(action.at, format!("`action` cannot be `{word}`"))
            .hint("write \"accept\"; what no rule accepts is denied"));
    }
    let proto = match fields.take("proto") {
        Some(item) => proto(item)?,
        None => None,
    };
    let sources = fields.need("src")?;
    let src = selectors(sources, "`src`", Place::Source, policy)?;
    let mut access = Vec::new();
    for item in fields.need("dst")?.list("`dst`")? {
        let wrong = |message: String| PolicyError::at(item.at, message);
        let text = item.text("an entry of `dst`")?.trim();
        let (host, open) = host_and_ports(text).map_err(wrong)?;
        let open = ports(open).map_err(|why| wrong(format!("`{text}`: {why}")))?;
        let dst = selector(&host, item, Place::Destination, policy)?;
        check_ports(proto, &open, item)?;
        check_self(&src, &dst, true, item)?;
        access.push(Access { dst: vec![dst], services: vec![Service { proto, ports: open }] });
    }
    Ok((src, access))
}

fn grant(item: &Item, policy: &Policy) -> Result<Parts, PolicyError> {
    let mut fields = Fields::read(item, "a rule of `grants`", &GRANT)?;
    let src = selectors(fields.need("src")?, "`src`", Place::Source, policy)?;
    let list = fields.need("dst")?;
    let dst = selectors(list, "`dst`", Place::Destination, policy)?;
    for (dst, item) in dst.iter().zip(list.list("`dst`")?) {
        check_self(&src, dst, false, item)?;
        if matches!(dst, Selector::Prefix(prefix) if prefix.length() == 0) {
            return Err(PolicyError::at(item.at, format!("`{dst}` cannot be a destination of a grant"))
                .hint("write \"*\" for everything, or \"autogroup:internet\" for exit nodes"));
        }
    }
    let ip = fields.need("ip")?;
    let services = ip.list("`ip`")?.iter().map(service).collect::<Result<Vec<_>, _>>()?;
    if services.is_empty() {
        return Err(
            PolicyError::at(ip.at, "`ip` is empty, so the grant opens nothing").hint("write \"*\" for everything")
        );
    }
    Ok((src, vec![Access { dst, services }]))
}

/// Reads a protocol; the empty text means the default ones.
pub(super) fn proto(item: &Item) -> Result<Option<u8>, PolicyError> {
    let word = item.text("`proto`")?.trim();
    if word.is_empty() {
        return Ok(None);
    }
    protocol(word, item).map(Some)
}

fn protocol(word: &str, item: &Item) -> Result<u8, PolicyError> {
    protocol_number(word).ok_or_else(|| {
        PolicyError::at(item.at, format!("`{word}` is not a protocol"))
            .hint("write tcp, udp, icmp, sctp, another name of docs/policy.md, or a number from 1 to 255")
    })
}

/// Reads an entry of `ip`: `*`, ports, or a protocol with ports.
fn service(item: &Item) -> Result<Service, PolicyError> {
    let word = item.text("an entry of `ip`")?.trim();
    let (proto, open) = match word.split_once(':') {
        None => (None, word),
        Some((name, open)) => (Some(protocol(name, item)?), open),
    };
    let ports = ports(open).map_err(|why| {
        let error = PolicyError::at(item.at, format!("`{word}`: {why}"));
        if proto.is_none() && protocol_number(word).is_some() {
            return error.hint(format!("write \"{word}:*\" for all of this protocol"));
        }
        error
    })?;
    check_ports(proto, &ports, item)?;
    Ok(Service { proto, ports })
}

/// Checks that ports are only named for protocols that have them.
fn check_ports(proto: Option<u8>, ports: &[(u16, u16)], item: &Item) -> Result<(), PolicyError> {
    match proto.filter(|proto| !has_ports(*proto) && ports != [ALL_PORTS]) {
        None => Ok(()),
        Some(proto) => Err(PolicyError::at(item.at, format!("{} has no ports", protocol_name(proto)))
            .hint("write * instead of the ports")),
    }
}

/// Checks that a rule for `autogroup:self` has people as its sources. In `acls` the source may also be `*`.
fn check_self(src: &[Selector], dst: &Selector, any: bool, item: &Item) -> Result<(), PolicyError> {
    let person = |selector: &Selector| match selector {
        Selector::User(_)
        | Selector::Domain(_)
        | Selector::Group(_)
        | Selector::Role(_)
        | Selector::Member
        | Selector::Shared => true,
        Selector::Any => any,
        _ => false,
    };
    match src.iter().find(|selector| *dst == Selector::Myself && !person(selector)) {
        None => Ok(()),
        Some(other) => {
            Err(PolicyError::at(item.at, format!("`autogroup:self` is for people, and `{other}` is a source here"))
                .hint("name users, groups or autogroups of people in `src`, and make another rule for the rest"))
        }
    }
}
