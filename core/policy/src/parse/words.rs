//! Reads the words that stand for nodes and addresses.

use taut_base::closest;

use crate::error::PolicyError;
use crate::hujson::Item;
use crate::policy::Policy;
use crate::selector::{AUTOGROUPS, Selector, is_single, prefix};

/// Place of a selector in a policy. The place decides which selectors are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// `src` of a rule.
    Source,
    /// `dst` of a rule.
    Destination,
    /// An owner of a tag, or an approver of routes.
    Person,
    /// `src` of a test, or a destination of a test.
    Test,
}

/// Domains of public mail providers, where anyone can get an address. A rule for all users of such a domain would admit strangers.
const SHARED_DOMAINS: [&str; 9] = [
    "gmail.com",
    "googlemail.com",
    "outlook.com",
    "hotmail.com",
    "live.com",
    "yahoo.com",
    "icloud.com",
    "proton.me",
    "gmx.com",
];

/// Reads a list of selectors.
///
/// # Errors
/// If the value is no list, or a word in it is not allowed in this place or is not defined.
pub(super) fn selectors(item: &Item, what: &str, place: Place, policy: &Policy) -> Result<Vec<Selector>, PolicyError> {
    let one = |item: &Item| selector(item.text(&format!("an entry of {what}"))?, item, place, policy);
    item.list(what)?.iter().map(one).collect()
}

/// Reads one selector, `word`, which stands in `item`.
pub(super) fn selector(word: &str, item: &Item, place: Place, policy: &Policy) -> Result<Selector, PolicyError> {
    let word = word.trim();
    let selector = classify(word, policy)
        .map_err(|Wrong { message, hint }| PolicyError { hint, ..PolicyError::at(item.at, message) })?;
    match objection(&selector, word, place, policy) {
        None => Ok(selector),
        Some(why) => Err(PolicyError::at(item.at, format!("`{word}` {why}"))),
    }
}

/// The error in a word.
struct Wrong {
    message: String,
    hint: Option<String>,
}

fn wrong(message: String, hint: &str) -> Wrong {
    Wrong { message, hint: Some(String::from(hint)) }
}

fn classify(word: &str, policy: &Policy) -> Result<Selector, Wrong> {
    if word == "*" {
        return Ok(Selector::Any);
    }
    if let Some(prefix) = prefix(word) {
        return Ok(Selector::Prefix(prefix));
    }
    let owned = String::from(word);
    match word.split_once(':') {
        Some(("autogroup", name)) => autogroup(word, name),
        Some(("group", name)) => {
            // A group with a domain is one of the identity provider, which no policy defines.
            let known = policy.groups.contains_key(word) || (name.contains('@') && !name.starts_with('@'));
            if known { Ok(Selector::Group(owned)) } else { Err(undefined(word, "groups", policy.groups.keys())) }
        }
        Some(("tag", _)) if policy.tag_owners.contains_key(word) => Ok(Selector::Tag(owned)),
        Some(("tag", _)) => Err(undefined(word, "tagOwners", policy.tag_owners.keys())),
        Some(("ipset", _)) if policy.ipsets.contains_key(word) => Ok(Selector::IpSet(owned)),
        Some(("ipset", _)) => Err(undefined(word, "ipsets", policy.ipsets.keys())),
        Some(("user", pattern)) => domain(word, pattern),
        Some(("host", name)) => {
            Err(wrong(format!("`{word}` is a host as IP sets write it"), &format!("write `{name}` in rules and tests")))
        }
        Some(("svc", _)) => Err(wrong(
            format!("Taut does not support `{word}`: there are no services with addresses of their own"),
            "name the nodes that offer the service, or their tag",
        )),
        Some(_) => Err(wrong(
            format!("`{word}` is neither a known kind of name nor an address"),
            "kinds of names are user@domain, group:, tag:, autogroup:, ipset: and the names of `hosts`",
        )),
        None if word.contains('@') => Ok(Selector::User(owned)),
        None if policy.hosts.contains_key(word) => Ok(Selector::Host(owned)),
        None => Err(undefined(word, "hosts", policy.hosts.keys())),
    }
}

fn undefined<'a>(word: &str, section: &str, known: impl Iterator<Item = &'a String>) -> Wrong {
    let meant = closest(word, known.map(String::as_str));
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("define it in `{section}`"),
    };
    Wrong { message: format!("`{word}` is not defined in `{section}`"), hint: Some(hint) }
}

fn autogroup(word: &str, name: &str) -> Result<Selector, Wrong> {
    if let Some((_, selector)) = AUTOGROUPS.iter().find(|(known, _)| *known == name) {
        return Ok(selector.clone());
    }
    let names = AUTOGROUPS.iter().map(|(name, _)| *name);
    let hint = match closest(name, names.clone()) {
        Some(meant) => format!("did you mean `autogroup:{meant}`?"),
        None => format!("autogroups are {}", names.collect::<Vec<_>>().join(", ")),
    };
    Err(Wrong { message: format!("there is no `{word}`"), hint: Some(hint) })
}

fn domain(word: &str, pattern: &str) -> Result<Selector, Wrong> {
    let domain = pattern.strip_prefix("*@").filter(|domain| !domain.is_empty() && !domain.contains(['*', '@']));
    let Some(domain) = domain else {
        return Err(wrong(
            format!("`{word}` names no domain"),
            "write user:*@example.com, or the user without `user:`",
        ));
    };
    if SHARED_DOMAINS.iter().any(|shared| shared.eq_ignore_ascii_case(domain)) {
        return Err(wrong(
            format!("`{word}` stands for strangers: anyone can have an address at {domain}"),
            "name the people in a group",
        ));
    }
    Ok(Selector::Domain(domain.to_ascii_lowercase()))
}

/// Returns why a selector is not allowed in this place, as the end of a sentence that begins with it.
fn objection(selector: &Selector, word: &str, place: Place, policy: &Policy) -> Option<&'static str> {
    match (place, selector) {
        (Place::Source, Selector::Internet) => Some("can only be a destination"),
        (Place::Source, Selector::Myself) => Some("can only be a destination"),
        (Place::Destination, Selector::Everywhere | Selector::Shared) => Some("can only be a source"),
        (
            Place::Person,
            Selector::User(_)
            | Selector::Domain(_)
            | Selector::Group(_)
            | Selector::Tag(_)
            | Selector::Role(_)
            | Selector::Member
            | Selector::Tagged,
        ) => None,
        (Place::Person, _) => Some("cannot be here; name users, groups, autogroups of people, or tags"),
        (Place::Test, Selector::Prefix(_)) if word.contains('/') => Some("is a prefix; a test is about one address"),
        (Place::Test, Selector::Host(name)) if policy.hosts.get(name).is_some_and(|prefix| !is_single(*prefix)) => {
            Some("is a prefix; a test is about one address")
        }
        (
            Place::Test,
            Selector::User(_)
            | Selector::Group(_)
            | Selector::Tag(_)
            | Selector::Role(_)
            | Selector::Member
            | Selector::Tagged
            | Selector::Prefix(_)
            | Selector::Host(_),
        ) => None,
        (Place::Test, _) => Some("is too broad for a test; name a user, a group, a tag, a host or an address"),
        _ => None,
    }
}
