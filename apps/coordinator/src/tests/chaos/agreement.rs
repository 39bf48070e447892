//! The comparison of what coordinators and nodes have in memory with the rows.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use taut_base::NodeId;
use taut_netmap::{NetworkMap, ProblemCode, ToCoordinator, ToNode};

use super::super::world::TestCoordinator;
use super::{Chaos, Member, SETTLE_TIMEOUT};
use crate::store::NetworkId;

impl Chaos {
    /// Has every member receive what was sent to it.
    fn hear(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.at.is_some()) {
            member.node.channel.send_or_end(&ToCoordinator::Ping);
            loop {
                match member.node.channel.receive() {
                    Some(ToNode::Pong) => break,
                    Some(ToNode::Refused(problem)) if problem.code == ProblemCode::Unavailable => {
                        member.at = None;
                        break;
                    }
                    Some(message) => member.node.handle(message),
                    // A coordinator closes the channel of a node that it believes to have moved.
                    None => {
                        eprintln!("the channel of {:?} was closed", member.node.id());
                        member.at = None;
                        break;
                    }
                }
            }
        }
    }

    /// Returns what differs from the rows.
    fn differences(&self) -> Vec<String> {
        let mut found = Vec::new();
        let open: BTreeSet<NodeId> =
            self.members.iter().filter(|member| member.at.is_some()).map(|member| member.node.id()).collect();
        let first = self.coordinator(0);
        let networks: BTreeSet<NetworkId> =
            first.wait(first.state.networks()).unwrap().iter().map(|network| network.row.id).collect();
        for (at, coordinator) in self.coordinators.iter().flatten().enumerate() {
            let state = &coordinator.state;
            let mut check = |is_right: bool, what: String| {
                if !is_right {
                    found.push(format!("coordinator {at}: {what}"));
                }
            };
            let known = state.known_networks();
            check(known == networks, format!("the networks {known:?}, which are {networks:?}"));
            let nodes = coordinator.wait(state.nodes(None)).unwrap();
            let listed: BTreeSet<NodeId> = nodes.iter().map(|node| node.row.id).collect();
            let members: BTreeSet<NodeId> = self.members.iter().map(|member| member.node.id()).collect();
            check(listed == members, format!("the members {listed:?}, which are {members:?}"));
            let online: BTreeSet<NodeId> = nodes.iter().filter(|node| node.online).map(|node| node.row.id).collect();
            check(online == open, format!("online are {online:?}, and channels have {open:?}"));
            let memory: Vec<_> = self.members.iter().map(|member| map_at(coordinator, member)).collect();
            state.forget_views();
            for (member, memory) in self.members.iter().zip(memory) {
                let (truth, id) = (map_at(coordinator, member), member.node.id());
                check(memory == truth, format!("the map of {id:?} in memory"));
                if member.at.is_some() {
                    check(member.node.map == truth, format!("{id:?} has {:?}, not {truth:?}", member.node.map));
                    let peers = truth.peers.keys().chain([&id]).copied().collect::<BTreeSet<_>>();
                    let online: BTreeSet<NodeId> = open.intersection(&peers).copied().collect();
                    let told: BTreeSet<NodeId> = member.node.online.intersection(&peers).copied().collect();
                    check(told == online, format!("{id:?} was told that {told:?} are online, which are {online:?}"));
                }
            }
        }
        found
    }

    /// Waits until nothing differs from the rows.
    pub(super) fn settle(&mut self) {
        for which in 0..self.members.len() {
            let at = self.any_coordinator();
            if self.members[which].at.is_none() && self.random.index(2) == 0 {
                self.open(which, at);
            }
        }
        let began = Instant::now();
        loop {
            self.hear();
            let found = self.differences();
            if found.is_empty() {
                return;
            }
            assert!(began.elapsed() < SETTLE_TIMEOUT, "{} differences: {found:#?}", found.len());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Returns the map of a member that a coordinator makes.
fn map_at(coordinator: &TestCoordinator, member: &Member) -> NetworkMap {
    member.node.fresh_map(coordinator)
}
