//! The parts of the language that are not compared, with reasons. docs/policy.md, section 8, has the differences that a user may notice.
//!
//! Never in a case:
//! - **Parts that headscale does not have:** `ipsets`, `user:*@domain`, the autogroups of roles, `autogroup:shared`, groups of the identity provider.
//! - **Parts that Taut does not have:** `ssh`, `nodeAttrs`; `via` and `app` in grants.
//! - **Untagged nodes without an owner:** headscale has none.
//! - **Routes that contain addresses of other nodes:** headscale's rule for such a node also opens the router. Taut's opens that node alone.
//! - **Packets from 100.115.92.0/23:** `*` as a source leaves this range out there, because ChromeOS uses it for its virtual machines.
//! - **Protocols 99 and 255:** Tailscale's client uses these numbers itself, for its own messages and for fragments.
//!
//! Not compared in a case that has it: what the functions below say.

use std::net::IpAddr;

use taut_base::Prefix;
use taut_policy::NodeFacts;

use crate::case::Case;

/// Words of random policies that name public addresses, alone or among others.
const PUBLIC: [&str; 9] =
    ["far", "8.8.8.0/24", "8.8.8.8", "1.0.0.0/8", "0.0.0.0/0", "0.0.0.0/1", "2001:db8::/32", "2606:4700::1", "::/0"];

/// Returns true if the verdict on packets to this address is compared at this node. It is not for
/// - an IPv6 address outside 2000::/3 behind an exit node: Tailscale's client forwards packets to unique local addresses and to those that are not
///   assigned, and here they are not the internet;
/// - an address behind an exit node that has no address of that family: headscale leaves out a rule whose prefix is not all public, such as 0.0.0.0/0, unless
///   the prefix contains the node's own address.
pub(crate) fn is_compared(node: &NodeFacts, dst: IpAddr) -> bool {
    let exit = node.routes.iter().any(|route: &Prefix| route.length() == 0 && route.contains(dst));
    if !exit || node.addresses.contains(&dst) || node.subnets().any(|route| route.contains(dst)) {
        return true;
    }
    let assigned = match dst {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => address.segments()[0] >> 13 == 1,
    };
    assigned && node.addresses.iter().any(|address| address.is_ipv4() == dst.is_ipv4())
}

/// Returns true if it is compared which nodes know each other. It is not if there is an exit node and a rule names public addresses: headscale opens the exit
/// node to the rule's sources, and does not tell them of it.
pub(crate) fn compares_peers(case: &Case) -> bool {
    let mut routes = case.nodes.iter().flat_map(|node| &node.routes);
    let acls = case.acls.iter().flat_map(|acl| acl.src.iter().chain(&acl.dst));
    let mut words = acls.chain(case.grants.iter().flat_map(|grant| grant.src.iter().chain(&grant.dst)));
    let is_public = |word: &String| {
        let host = word.replace(['[', ']'], "");
        PUBLIC.iter().any(|public| host == *public || host.starts_with(&format!("{public}:")))
    };
    routes.all(|route| route.length() > 0) || !words.any(is_public)
}
