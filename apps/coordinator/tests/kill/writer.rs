//! One of several concurrent writers, and its ledger: the acknowledged changes, with which the database is compared.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use taut_netmap::{NetworkMap, ToCoordinator, ToNode};
use taut_testkit::Seeded;

use crate::client::{Operator, TestHost};

/// Limit on the nodes of one writer, 6. At the limit the writer removes nodes.
const MAX_NODES: usize = 6;

/// The answers of the coordinator, and the requests without an answer.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) members: BTreeMap<u64, Member>,
    /// Nodes whose removal was acknowledged.
    pub(crate) removed: Vec<u64>,
    /// Keys by number, with true if the revocation was acknowledged; `None` if it was requested without an answer.
    pub(crate) keys: BTreeMap<i64, Option<bool>>,
    /// Joins without an answer. The coordinator may have stored them.
    pub(crate) joining: Vec<TestHost>,
    /// Number of keys that were requested without an answer.
    pub(crate) creating: usize,
    /// Maps that nodes received, with the node.
    pub(crate) maps: Vec<(u64, NetworkMap)>,
    /// Highest number of a node that joined.
    pub(crate) last: u64,
    pub(crate) acknowledged: u64,
}

/// A member.
pub(crate) struct Member {
    pub(crate) host: TestHost,
    pub(crate) address: String,
    /// Possible names: one, or two after a change without an answer.
    pub(crate) names: Vec<String>,
    /// Possible endpoints.
    pub(crate) endpoints: Vec<Vec<SocketAddr>>,
    /// True if its removal was requested without an answer.
    pub(crate) removing: bool,
}

impl Ledger {
    /// Makes changes until an answer is missing.
    pub(crate) fn write(
        &mut self,
        operator: &Operator,
        address: &str,
        host: impl Fn() -> TestHost,
        random_numbers: &mut Seeded,
    ) {
        while self.step(operator, address, &host, random_numbers).is_some() {}
    }

    fn step(
        &mut self,
        operator: &Operator,
        address: &str,
        host: &impl Fn() -> TestHost,
        random_numbers: &mut Seeded,
    ) -> Option<()> {
        let ids: Vec<u64> = self.members.keys().copied().collect();
        let picked = if ids.is_empty() { None } else { Some(ids[random_numbers.index(ids.len())]) };
        match (random_numbers.index(10), picked) {
            (0..4, _) | (_, None) if ids.len() < MAX_NODES => self.join(address, host()),
            (0..6, Some(id)) => self.remove(operator, id),
            (6, Some(id)) => self.rename(operator, id, random_numbers),
            (7, Some(id)) => self.end_points(address, id, random_numbers),
            (8, _) => self.create_key(operator, random_numbers).map(drop),
            _ => self.revoke_key(operator),
        }
    }

    /// Joins a node, and notes the join as unanswered until its answer arrives.
    pub(crate) fn join(&mut self, address: &str, host: TestHost) -> Option<()> {
        self.joining.push(host.clone());
        let (_, answer) = host.hello(address, 0)?;
        self.joining.pop();
        let ToNode::Map(map) = answer else { panic!("{answer:?} for a node without a map") };
        map.check().unwrap();
        let member = Member {
            host,
            address: map.me.addresses[0].to_string(),
            names: vec![map.me.name.clone()],
            endpoints: vec![Vec::new()],
            removing: false,
        };
        assert!(self.members.insert(map.me.id.0, member).is_none(), "node {} twice", map.me.id);
        self.last = self.last.max(map.me.id.0);
        self.maps.push((map.me.id.0, map));
        self.acknowledged += 1;
        Some(())
    }

    fn remove(&mut self, operator: &Operator, id: u64) -> Option<()> {
        self.members.get_mut(&id)?.removing = true;
        let (status, answer) = operator.ask("DELETE", &format!("nodes/{id}"), &Value::Null)?;
        assert_eq!(status, 200, "{answer}");
        self.members.remove(&id);
        self.removed.push(id);
        self.acknowledged += 1;
        Some(())
    }

    fn rename(&mut self, operator: &Operator, id: u64, random_numbers: &mut Seeded) -> Option<()> {
        let name = format!("r{:x}", random_numbers.next_u64());
        let member = self.members.get_mut(&id)?;
        member.names.push(name.clone());
        let (status, answer) = operator.ask("PATCH", &format!("nodes/{id}"), &json!({ "name": name }))?;
        assert_eq!(status, 200, "{answer}");
        member.names = vec![name];
        self.acknowledged += 1;
        Some(())
    }

    /// Reports new endpoints of a node. The map change that the node gets is the acknowledgement.
    fn end_points(&mut self, address: &str, id: u64, random_numbers: &mut Seeded) -> Option<()> {
        let member = self.members.get_mut(&id)?;
        let (mut channel, answer) = member.host.hello(address, 0)?;
        let ToNode::Map(mut map) = answer else { panic!("{answer:?} for a node without a map") };
        let port = u16::try_from(1 + random_numbers.index(60_000)).unwrap();
        let endpoints = vec![SocketAddr::from(([10, 1, 2, 3], port))];
        member.endpoints.push(endpoints.clone());
        channel.send(&ToCoordinator::Endpoints {
            endpoints: endpoints.clone(),
            ports: Vec::new(),
            observed: Vec::new(),
        })?;
        loop {
            match channel.receive()? {
                ToNode::Delta(delta) => {
                    map = map.apply(&delta).unwrap();
                    if delta.me.is_some() {
                        break;
                    }
                }
                ToNode::Map(_) | ToNode::Refused(_) | ToNode::Pong | ToNode::Twin { .. } => panic!("no change"),
                ToNode::Waiting(_) | ToNode::Welcome { .. } => panic!("a member that takes part"),
                ToNode::Presence { .. } | ToNode::Ticket { .. } | ToNode::Expiry { .. } => {}
            }
        }
        member.endpoints = vec![endpoints];
        self.maps.push((id, map));
        self.acknowledged += 1;
        Some(())
    }

    fn create_key(&mut self, operator: &Operator, random_numbers: &mut Seeded) -> Option<String> {
        self.creating += 1;
        let (status, answer) = operator.ask("POST", "keys", &json!({ "one_off": random_numbers.index(2) == 0 }))?;
        assert_eq!(status, 201, "{answer}");
        self.creating -= 1;
        self.keys.insert(answer["key"]["id"].as_i64().unwrap(), Some(false));
        self.acknowledged += 1;
        answer["join_token"].as_str().map(String::from)
    }

    fn revoke_key(&mut self, operator: &Operator) -> Option<()> {
        let Some((id, _)) = self.keys.iter().find(|(_, ended)| **ended == Some(false)) else { return Some(()) };
        let id = *id;
        self.keys.insert(id, None);
        let (status, answer) = operator.ask("DELETE", &format!("keys/{id}"), &Value::Null)?;
        assert_eq!(status, 200, "{answer}");
        self.keys.insert(id, Some(true));
        self.acknowledged += 1;
        Some(())
    }
}
