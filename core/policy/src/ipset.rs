//! The addresses of IP sets.

use std::collections::BTreeMap;

use crate::addresses::AddressSet;
use crate::internet::internet;
use crate::policy::{IpSetStep, IpSetTarget, Policy};

/// Limit on how deep IP sets may contain each other, 32. It bounds the recursion over them.
const MAX_DEPTH: u32 = 32;

/// An IP set that has no addresses because of its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadIpSet {
    /// The set's name.
    pub(crate) name: String,
    /// The error in the set's definition.
    pub(crate) why: String,
}

/// Returns the addresses of all IP sets.
///
/// # Errors
/// If a set contains itself, directly or through others, or exceeds a limit.
pub(crate) fn resolve_sets(policy: &Policy) -> Result<BTreeMap<&str, AddressSet>, BadIpSet> {
    let mut done = BTreeMap::new();
    for name in policy.ipsets.keys() {
        resolve(policy, name, 0, &mut Vec::new(), &mut done)?;
    }
    Ok(done)
}

/// Adds the set of this name, and all sets that it contains, to `done`. `path` has the sets that lead here.
fn resolve<'a>(
    policy: &'a Policy,
    name: &'a str,
    depth: u32,
    path: &mut Vec<&'a str>,
    done: &mut BTreeMap<&'a str, AddressSet>,
) -> Result<(), BadIpSet> {
    let bad = |why: String| BadIpSet { name: String::from(name), why };
    if done.contains_key(name) {
        return Ok(());
    }
    if path.contains(&name) {
        return Err(bad(format!("`{name}` contains itself, through {}", path.join(", "))));
    }
    if depth > MAX_DEPTH {
        return Err(bad(format!("IP sets contain each other more than {MAX_DEPTH} deep")));
    }
    path.push(name);
    let steps = policy.ipsets.get(name).map_or(&[][..], Vec::as_slice);
    let mut set = AddressSet::default();
    // Steps of one kind in a row are one operation, so that a long list costs one sort. Each range of the result begins and ends where an entry does, so the limit on entries bounds
    // their number.
    for run in steps.chunk_by(|one, next| one.add == next.add) {
        let mut ranges = Vec::new();
        for step in run {
            if let IpSetTarget::Set(inner) = &step.target {
                resolve(policy, inner, depth + 1, path, done)?;
            }
            ranges.extend(target(policy, step, done).ranges());
        }
        let run_set = AddressSet::of_ranges(ranges);
        set = if run[0].add { set.union(&run_set) } else { set.difference(&run_set) };
    }
    path.pop();
    done.insert(name, set);
    Ok(())
}

fn target(policy: &Policy, step: &IpSetStep, done: &BTreeMap<&str, AddressSet>) -> AddressSet {
    match &step.target {
        IpSetTarget::Prefix(prefix) => AddressSet::of_prefixes([*prefix]),
        IpSetTarget::Range(first, last) => AddressSet::of_ranges([(*first, *last)]),
        IpSetTarget::Host(name) => AddressSet::of_prefixes(policy.hosts.get(name).copied()),
        IpSetTarget::Set(name) => done.get(name.as_str()).cloned().unwrap_or_default(),
        IpSetTarget::Internet => internet(),
    }
}
