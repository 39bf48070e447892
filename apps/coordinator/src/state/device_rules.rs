//! Rules about tags, owners and the life of a membership. Pure.

use taut_base::{Prefix, is_printable};

use super::StateError;
use crate::store::{Device, NetworkRow};

/// Most tags of a node, 32.
const MAX_TAGS: usize = 32;

/// Longest name of a tag after `tag:`, 63 characters.
const MAX_TAG: usize = 63;

/// Longest name of an owner, 128 characters.
const MAX_OWNER: usize = 128;

/// Shortest and longest life of a membership, 1 h and ten years, in seconds. A shorter one would expire by the differences of clocks.
pub(super) const LIFE: std::ops::RangeInclusive<i64> = 3600..=10 * 365 * 24 * 3600;

/// Changes of a device that an operator asks for. A field that is `None`, or a flag that is false, changes nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceChange {
    pub(crate) name: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    /// The new owner; `Some(None)` removes the owner.
    pub(crate) owner: Option<Option<String>>,
    pub(crate) disabled: Option<bool>,
    /// True to approve the device, also again after its membership expired.
    pub(crate) approve: bool,
    /// True to end the device's membership now, so that it has to be approved again.
    pub(crate) expire: bool,
    /// New life of the device's membership from now on in seconds, 0 for ever; `Some(None)` for the network's default.
    pub(crate) key_life: Option<Option<i64>>,
    /// Advertised routes to approve.
    pub(crate) approve_routes: Vec<Prefix>,
    /// Approved routes to revoke.
    pub(crate) revoke_routes: Vec<Prefix>,
}

/// Returns a device that is approved now, with a whole life of its membership before it.
pub(super) fn approved(network: &NetworkRow, device: &Device, now: i64) -> Device {
    Device { approved: true, expired: false, expires_at: end(network, device, now), ..device.clone() }
}

/// Returns the time at which a membership that begins now expires.
pub(super) fn end(network: &NetworkRow, device: &Device, now: i64) -> Option<i64> {
    match device.key_life {
        Some(0) => None,
        Some(life) => Some(now.saturating_add(life)),
        None => network.key_life.map(|life| now.saturating_add(life)),
    }
}

/// Returns the tags sorted and without duplicates; an error if a text is not a valid tag.
pub(super) fn checked_tags(mut tags: Vec<String>) -> Result<Vec<String>, StateError> {
    let is_tag = |tag: &String| {
        tag.strip_prefix("tag:").is_some_and(|name| {
            let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            (1..=MAX_TAG).contains(&name.len())
                && name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(is_known)
        })
    };
    tags.sort();
    tags.dedup();
    if let Some(bad) = tags.iter().find(|tag| !is_tag(tag)) {
        return Err(StateError::BadTag(bad.clone()));
    }
    match tags.get(MAX_TAGS) {
        Some(first_too_many) => Err(StateError::BadTag(first_too_many.clone())),
        None => Ok(tags),
    }
}

/// Returns the owner; an error if the text is not a valid owner.
pub(super) fn checked_owner(owner: Option<String>) -> Result<Option<String>, StateError> {
    let is_name = |name: &String| {
        (1..=MAX_OWNER).contains(&name.chars().count()) && name.chars().all(is_printable) && name.trim() == name
    };
    // Policies write a login without `@` with one at its end.
    let owner = owner.map(|name| name.strip_suffix('@').map_or(name.clone(), String::from));
    match owner {
        Some(name) if !is_name(&name) => Err(StateError::BadOwner),
        owner => Ok(owner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_checked_sorted_and_each_kept_once() {
        let tags = |words: &[&str]| checked_tags(words.iter().map(|word| String::from(*word)).collect());
        assert_eq!(tags(&["tag:web", "tag:a-1", "tag:web"]).unwrap(), ["tag:a-1", "tag:web"]);
        let long = format!("tag:{}", "a".repeat(64));
        for bad in ["web", "tag:", "tag:1", "tag:Web", "tag:a b", "tag:ä", "group:a", long.as_str(), ""] {
            assert!(tags(&[bad]).is_err(), "{bad}");
        }
        let many: Vec<String> = (0..33).map(|number| format!("tag:t{number}")).collect();
        assert!(checked_tags(many[..32].to_vec()).is_ok() && checked_tags(many).is_err());
    }

    #[test]
    fn an_owner_is_a_short_line() {
        let owner = |name: &str| checked_owner(Some(String::from(name)));
        assert!(owner("ann@example.com").is_ok() && owner("Ann Ünal").is_ok() && checked_owner(None).is_ok());
        for bad in ["", " ", "a\nb", " a", &"a".repeat(129)] {
            assert!(owner(bad).is_err(), "{bad:?}");
        }
    }
}
