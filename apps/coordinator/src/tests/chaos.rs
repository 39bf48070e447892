//! After random changes, lost connections and restarts, what each coordinator and each node has in memory is what the rows say (fault O7).

mod agreement;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use taut_base::{NodeId, RelayId};
use taut_netmap::{JoinToken, ToCoordinator};
use taut_testkit::Seeded;

use super::relays::named;
use super::world::{Directory, TestCoordinator, TestHost, TestNode};
use crate::state::Expiry;
use crate::store::{Location, end_connections};

/// Coordinators on a server's database; a file has one.
const COORDINATORS: usize = 3;

/// Changes of one run.
const CHANGES: usize = 120;

/// Channels that one host opens at most: a machine may open 30 at once.
const CHANNELS: u32 = 20;

/// Longest time until everything agrees, 90 s: a channel that was lost counts for 10 s, and a coordinator that was killed for 20 s.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(90);

/// A member, and its open channel's coordinator.
struct Member {
    node: TestNode,
    token: JoinToken,
    at: Option<usize>,
    channels: u32,
}

struct Chaos {
    coordinators: Vec<Option<TestCoordinator>>,
    directories: Vec<Directory>,
    database: Location,
    random: Seeded,
    networks: BTreeMap<String, JoinToken>,
    members: Vec<Member>,
    made: u16,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let directory = Directory::new();
        let database = directory.database();
        let number = if matches!(database, Location::Server(_)) { COORDINATORS } else { 1 };
        let directories: Vec<Directory> =
            std::iter::once(directory).chain((1..number).map(|_| Directory::new())).collect();
        let coordinators: Vec<_> =
            directories.iter().map(|directory| Some(TestCoordinator::start_on(directory, &database))).collect();
        let networks = BTreeMap::from([(String::from("default"), coordinators[0].as_ref().unwrap().token())]);
        let random = Seeded::new(seed);
        Self { random, directories, database, coordinators, networks, members: Vec::new(), made: 0 }
    }

    fn coordinator(&self, at: usize) -> &TestCoordinator {
        self.coordinators[at].as_ref().unwrap()
    }

    fn any_coordinator(&mut self) -> usize {
        self.random.index(self.coordinators.len())
    }

    fn any_member(&mut self) -> Option<usize> {
        (!self.members.is_empty()).then(|| self.random.index(self.members.len()))
    }

    fn next(&mut self) -> u16 {
        self.made += 1;
        self.made
    }

    /// Tries a change until the database answers.
    fn done<T, E: std::fmt::Debug>(&self, change: impl Fn() -> Result<T, E>) -> Result<T, E> {
        let began = Instant::now();
        loop {
            match change() {
                Err(error) if format!("{error:?}").contains("Store(") && began.elapsed() < SETTLE_TIMEOUT => {}
                result => return result,
            }
        }
    }

    /// Makes one random change.
    fn step(&mut self) {
        match self.random.index(20) {
            0..5 => self.join(),
            5..8 => self.reconnect(),
            8..12 => self.report(),
            12 => self.lose(),
            13 => self.leave(),
            14 => self.remove(),
            15 => self.rename(),
            16 => self.change_relays(),
            17 => self.change_networks(),
            18 => self.restart(),
            _ => self.cut(),
        }
    }

    fn join(&mut self) {
        let (at, number) = (self.any_coordinator(), self.next());
        let names: Vec<String> = self.networks.keys().cloned().collect();
        let token = self.networks[&names[self.random.index(names.len())]].clone();
        let (host, began) = (TestHost::new(), Instant::now());
        let node = loop {
            match host.join(self.coordinator(at), &token, &format!("n{number}")) {
                Ok(node) => break node,
                // The network was made at another coordinator a moment ago, or connections ended.
                Err(problem) if began.elapsed() < SETTLE_TIMEOUT && !problem.code.is_final() => {}
                Err(problem) => panic!("{problem}"),
            }
        };
        self.members.push(Member { node, token, at: Some(at), channels: 1 });
    }

    /// Opens a channel of a member at any coordinator; the former channel may be open.
    fn reconnect(&mut self) {
        let (Some(which), at) = (self.any_member(), self.any_coordinator()) else { return };
        self.open(which, at);
    }

    fn open(&mut self, which: usize, at: usize) {
        let member = &self.members[which];
        if member.channels >= CHANNELS {
            return;
        }
        let map = self.random.index(4) > 0;
        let began = Instant::now();
        let back = loop {
            let map = map.then(|| member.node.map.clone());
            match member.node.host.resume(self.coordinator(at), &member.token, map) {
                Ok(back) => break back,
                Err(problem) if !problem.code.is_final() && began.elapsed() < SETTLE_TIMEOUT => {}
                Err(problem) => panic!("{problem}"),
            }
        };
        let member = &mut self.members[which];
        (member.node, member.at, member.channels) = (back, Some(at), member.channels + 1);
    }

    /// Has a member report endpoints or relays.
    fn report(&mut self) {
        let (Some(which), number) = (self.any_member(), self.next()) else { return };
        if self.members[which].at.is_none() {
            return;
        }
        let message = if self.random.index(3) == 0 {
            ToCoordinator::Relays { ids: vec![RelayId(u32::from(number) % 7)] }
        } else {
            let endpoint = SocketAddr::from(([203, 0, 113, 1 + (number % 200) as u8], 1 + number));
            ToCoordinator::Endpoints { endpoints: vec![endpoint], ports: Vec::new(), observed: Vec::new() }
        };
        self.members[which].node.channel.send_or_end(&message);
    }

    /// Loses a member's connection without a word.
    fn lose(&mut self) {
        let Some(which) = self.any_member() else { return };
        let member = &mut self.members[which];
        if member.at.take().is_some() {
            let _ = member.node.channel.socket.get_ref().shutdown(std::net::Shutdown::Both);
        }
    }

    fn leave(&mut self) {
        let Some(which) = self.any_member() else { return };
        if self.members[which].at.is_some() {
            let mut member = self.members.swap_remove(which);
            let id = member.node.id();
            member.node.channel.send_or_end(&ToCoordinator::Leave);
            while member.node.channel.receive().is_some() {}
            // The database may have failed, and the node would say it again.
            if self.is_listed(id) {
                self.remove_node(id);
            }
        }
    }

    fn is_listed(&self, id: NodeId) -> bool {
        let coordinator = self.coordinator(0);
        let nodes = self.done(|| coordinator.wait(coordinator.state.nodes(None)));
        nodes.unwrap().iter().any(|node| node.row.id == id)
    }

    fn remove_node(&self, id: NodeId) {
        let coordinator = self.coordinator(0);
        // A change whose answer was lost may have been made.
        let _ = self.done(|| coordinator.wait(coordinator.state.remove_node(None, &id.to_string())).map(drop));
    }

    fn remove(&mut self) {
        let Some(which) = self.any_member() else { return };
        let member = self.members.swap_remove(which);
        self.remove_node(member.node.id());
    }

    fn rename(&mut self) {
        let (Some(which), at, number) = (self.any_member(), self.any_coordinator(), self.next()) else { return };
        let (coordinator, id) = (self.coordinator(at), self.members[which].node.id().to_string());
        let rename = || coordinator.wait(coordinator.state.rename_node(None, &id, &format!("r{number}"))).map(drop);
        self.done(rename).unwrap();
    }

    fn change_relays(&mut self) {
        let (at, number) = (self.any_coordinator(), self.next());
        let coordinator = self.coordinator(at);
        if number % 3 > 0 {
            let add = || coordinator.wait(coordinator.state.add_relay(Some("default"), named(number))).map(drop);
            let _ = self.done(add);
        } else {
            let name = format!("relay-{}", number % 5);
            let remove = || coordinator.wait(coordinator.state.remove_relay(Some("default"), &name)).map(drop);
            let _ = self.done(remove);
        }
    }

    fn change_networks(&mut self) {
        let (at, number) = (self.any_coordinator(), self.next());
        let coordinator = self.coordinator(at);
        let last = self.networks.keys().rfind(|name| *name != "default").cloned();
        if let Some(name) = last.filter(|_| number.is_multiple_of(2)) {
            let _ = self.done(|| coordinator.wait(coordinator.state.remove_network(&name, true)).map(drop));
            let token = self.networks.remove(&name).unwrap();
            self.members.retain(|member| member.token.network != token.network);
        } else {
            let name = format!("net-{number}");
            let create = || coordinator.wait(coordinator.state.create_network(&name, "10.9.0.0/16".parse().unwrap()));
            let _ = self.done(|| create().map(drop));
            let key = || coordinator.wait(coordinator.state.create_key(Some(&name), true, Expiry::Never));
            let (_, _, token) = self.done(key).unwrap();
            self.networks.insert(name, token.parse().unwrap());
        }
    }

    /// Stops a coordinator, or kills it if another one may go on at once, and starts it again.
    fn restart(&mut self) {
        let at = self.any_coordinator();
        let coordinator = self.coordinators[at].take().unwrap();
        let is_alone = self.coordinators.len() == 1;
        if is_alone || self.random.index(4) > 0 {
            drop(coordinator);
        } else {
            coordinator.kill();
        }
        if !is_alone {
            // What was killed may hold the lock of its directory for a moment.
            self.directories.push(Directory::new());
        }
        let directory = self.directories.last().unwrap();
        self.coordinators[at] = Some(TestCoordinator::start_on(directory, &self.database));
        for member in self.members.iter_mut().filter(|member| member.at == Some(at)) {
            member.at = None;
        }
    }

    /// Ends all connections to the server.
    fn cut(&self) {
        self.coordinator(0).wait(end_connections(&self.database));
    }
}

#[test]
fn fault_o7_after_chaos_memory_and_rows_do_not_differ() {
    for seed in taut_testkit::seeds(1, 6) {
        let mut chaos = Chaos::new(seed);
        for part in 0..taut_testkit::count(1, 3) {
            for _ in 0..CHANGES {
                chaos.step();
            }
            chaos.settle();
            eprintln!("part {part}: {} members, {} networks", chaos.members.len(), chaos.networks.len());
        }
    }
}
