//! The policy's meaning in the most obvious form, to compare the compiler with: it walks the parsed rules for every packet.
//!
//! The oracle shares the parsed policy with the compiler, and nothing else: no sets, no indexes, no filters. It is too slow for a network.

use std::net::IpAddr;

use taut_base::Prefix;

use crate::filter::Packet;
use crate::inventory::{Inventory, NodeFacts, Role};
use crate::policy::{IpSetTarget, Policy, Service};
use crate::selector::Selector;

/// Returns true if the policy lets this packet open a flow at a node of the inventory.
pub fn allows(policy: &Policy, inventory: &Inventory, receiver: usize, packet: &Packet) -> bool {
    let Some(receiver) = inventory.nodes.get(receiver).filter(|node| receives(node, packet.dst)) else { return false };
    let world = World { policy, inventory, receiver };
    policy.rules.iter().any(|rule| {
        let sources: Vec<&Selector> = rule.src.iter().filter(|word| world.is_source(word, packet.src)).collect();
        rule.access.iter().any(|access| {
            access.services.iter().any(|service| opens(service, packet))
                && access.dst.iter().any(|word| !sources.is_empty() && world.is_destination(word, packet))
        })
    })
}

fn receives(node: &NodeFacts, dst: IpAddr) -> bool {
    node.addresses.contains(&dst)
        || node.routes.iter().any(|route| route.contains(dst) && (route.length() > 0 || is_public(dst)))
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => match four.octets() {
            [10, ..] | [192, 168, ..] | [169, 254, ..] => false,
            [172, second, ..] => !(16..32).contains(&second),
            [100, second, ..] => !(64..128).contains(&second),
            [first, ..] if (224..240).contains(&first) => false,
            _ => true,
        },
        IpAddr::V6(six) => six.segments()[0] & 0xe000 == 0x2000,
    }
}

fn opens(service: &Service, packet: &Packet) -> bool {
    match (packet.dst, packet.proto) {
        (IpAddr::V4(_), 1) | (IpAddr::V6(_), 58) => return !service.ports.is_empty(),
        _ => {}
    }
    let named = match service.proto {
        Some(proto) => proto == packet.proto,
        None => [1, 6, 17, 58].contains(&packet.proto),
    };
    let open = |(first, last): &(u16, u16)| match packet.proto {
        6 | 17 | 132 => *first <= packet.port && packet.port <= *last,
        _ => (*first, *last) == (0, 65_535),
    };
    named && service.ports.iter().any(open)
}

struct World<'a> {
    policy: &'a Policy,
    inventory: &'a Inventory,
    receiver: &'a NodeFacts,
}

impl World<'_> {
    fn is_source(&self, word: &Selector, src: IpAddr) -> bool {
        let sender = self.sender(src);
        match word {
            Selector::Any => {
                let behind =
                    |node: &NodeFacts| node.routes.iter().any(|route| route.length() > 0 && route.contains(src));
                sender.is_some()
                    || self.inventory.prefixes.iter().any(|prefix| prefix.contains(src))
                    || self.inventory.nodes.iter().any(behind)
            }
            Selector::Everywhere => true,
            word => sender.is_some_and(|node| self.is_node(word, node)) || self.is_address(word, src),
        }
    }

    fn is_destination(&self, word: &Selector, packet: &Packet) -> bool {
        let own = self.receiver.addresses.contains(&packet.dst);
        match word {
            Selector::Any => true,
            Selector::Myself => {
                let owner = self.receiver.owner();
                own && owner.is_some() && self.sender(packet.src).is_some_and(|sender| sender.owner() == owner)
            }
            word => (own && self.is_node(word, self.receiver)) || self.is_address(word, packet.dst),
        }
    }

    fn sender(&self, src: IpAddr) -> Option<&NodeFacts> {
        self.inventory.nodes.iter().find(|node| node.addresses.contains(&src))
    }

    fn is_node(&self, word: &Selector, node: &NodeFacts) -> bool {
        match word {
            Selector::Tag(tag) => node.tags.contains(tag),
            Selector::Tagged => !node.tags.is_empty(),
            word => node.owner().is_some_and(|login| self.is_person(word, login)),
        }
    }

    fn is_person(&self, word: &Selector, login: &str) -> bool {
        let user = self.inventory.users.iter().find(|user| user.name == login);
        let is = |written: &String| *written == login || *written == format!("{login}@");
        match word {
            Selector::Member => true,
            Selector::User(written) => is(written),
            Selector::Domain(domain) => login.to_lowercase().ends_with(&format!("@{domain}")),
            Selector::Role(role) => user.map_or(Role::Member, |user| user.role) == *role,
            Selector::Group(group) => match self.policy.groups.get(group) {
                Some(members) => members.iter().any(is),
                None => user.is_some_and(|user| {
                    user.groups.iter().any(|of| {
                        let whole = format!("group:{of}") == *group;
                        let domain = login.rsplit_once('@').map_or("", |(_, domain)| domain);
                        whole
                            || format!("group:{of}@{domain}").eq_ignore_ascii_case(group) && group.contains(of.as_str())
                    })
                }),
            },
            _ => false,
        }
    }

    fn is_address(&self, word: &Selector, address: IpAddr) -> bool {
        match word {
            Selector::Prefix(prefix) => prefix.contains(address),
            Selector::Host(name) => self.is_host(name, address),
            Selector::Internet => is_public(address),
            Selector::IpSet(name) => self.in_set(name, address),
            _ => false,
        }
    }

    fn is_host(&self, name: &str, address: IpAddr) -> bool {
        self.policy.hosts.get(name).is_some_and(|prefix: &Prefix| prefix.contains(address))
    }

    fn in_set(&self, name: &str, address: IpAddr) -> bool {
        let mut inside = false;
        for step in self.policy.ipsets.get(name).into_iter().flatten() {
            let named = match &step.target {
                IpSetTarget::Prefix(prefix) => prefix.contains(address),
                IpSetTarget::Range(first, last) => *first <= address && address <= *last,
                IpSetTarget::Host(name) => self.is_host(name, address),
                IpSetTarget::Set(name) => self.in_set(name, address),
                IpSetTarget::Internet => is_public(address),
            };
            if named {
                inside = step.add;
            }
        }
        inside
    }
}
