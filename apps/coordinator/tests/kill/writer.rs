//! One of many who write at the same time, and what it was told: the ledger that the database is held against.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use taut_netmap::{NetworkMap, ToCoordinator, ToNode};
use taut_testkit::Seeded;

use crate::client::{Host, Operator};

/// Nodes of one writer at most; then it removes some.
const MOST: usize = 6;

/// What the coordinator has said, and what it was asked and has not answered.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) members: BTreeMap<u64, Member>,
    /// Nodes whose removal was acknowledged.
    pub(crate) removed: Vec<u64>,
    /// Number and whether its end was acknowledged; `None` when that was asked for without an answer.
    pub(crate) keys: BTreeMap<i64, Option<bool>>,
    /// Joins without an answer: they may have happened.
    pub(crate) joining: Vec<Host>,
    /// Keys asked for without an answer.
    pub(crate) creating: usize,
    /// Maps that nodes were given, and whose they are.
    pub(crate) maps: Vec<(u64, NetworkMap)>,
    /// Highest number of a node that joined.
    pub(crate) last: u64,
    pub(crate) acknowledged: u64,
}

/// A node that is in.
pub(crate) struct Member {
    pub(crate) host: Host,
    pub(crate) address: String,
    /// Names that it may have: one, or two after a change without an answer.
    pub(crate) names: Vec<String>,
    /// Endpoints that it may have.
    pub(crate) endpoints: Vec<Vec<SocketAddr>>,
    /// Its removal was asked for without an answer.
    pub(crate) removing: bool,
}

impl Ledger {
    /// Writes until no answer comes any more.
    pub(crate) fn write(&mut self, operator: &Operator, address: &str, host: impl Fn() -> Host, dice: &mut Seeded) {
        while self.step(operator, address, &host, dice).is_some() {}
    }

    fn step(&mut self, operator: &Operator, address: &str, host: &impl Fn() -> Host, dice: &mut Seeded) -> Option<()> {
        let ids: Vec<u64> = self.members.keys().copied().collect();
        let picked = if ids.is_empty() { None } else { Some(ids[dice.index(ids.len())]) };
        match (dice.index(10), picked) {
            (0..4, _) | (_, None) if ids.len() < MOST => self.join(address, host()),
            (0..6, Some(id)) => self.remove(operator, id),
            (6, Some(id)) => self.rename(operator, id, dice),
            (7, Some(id)) => self.end_points(address, id, dice),
            (8, _) => self.create_key(operator, dice).map(drop),
            _ => self.revoke_key(operator),
        }
    }

    /// Joins. Kept as asked for until an answer comes.
    pub(crate) fn join(&mut self, address: &str, host: Host) -> Option<()> {
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

    fn rename(&mut self, operator: &Operator, id: u64, dice: &mut Seeded) -> Option<()> {
        let name = format!("r{:x}", dice.next_u64());
        let member = self.members.get_mut(&id)?;
        member.names.push(name.clone());
        let (status, answer) = operator.ask("PATCH", &format!("nodes/{id}"), &json!({ "name": name }))?;
        assert_eq!(status, 200, "{answer}");
        member.names = vec![name];
        self.acknowledged += 1;
        Some(())
    }

    /// A node says where it is; the change that comes back to it is the acknowledgement.
    fn end_points(&mut self, address: &str, id: u64, dice: &mut Seeded) -> Option<()> {
        let member = self.members.get_mut(&id)?;
        let (mut channel, answer) = member.host.hello(address, 0)?;
        let ToNode::Map(mut map) = answer else { panic!("{answer:?} for a node without a map") };
        let port = u16::try_from(1 + dice.index(60_000)).unwrap();
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
                ToNode::Presence { .. } | ToNode::Ticket { .. } => {}
            }
        }
        member.endpoints = vec![endpoints];
        self.maps.push((id, map));
        self.acknowledged += 1;
        Some(())
    }

    fn create_key(&mut self, operator: &Operator, dice: &mut Seeded) -> Option<String> {
        self.creating += 1;
        let (status, answer) = operator.ask("POST", "keys", &json!({ "one_off": dice.index(2) == 0 }))?;
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
