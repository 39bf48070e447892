//! Coordinators are replaced one after the other while hundreds of nodes have channels (fault L4).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use taut_base::NodeId;
use taut_netmap::{JoinToken, ToCoordinator, ToNode};

use super::world::{Directory, TestCoordinator, TestHost, TestNode};
use crate::store::{Location, Party};

/// Nodes with a channel.
const NODES: usize = 210;

/// Longest wait until all agree, 240 s: with the whole test run beside it, 210 nodes took more than a minute.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(240);

/// A node that follows its channel, and opens another one when it is closed.
struct Follower {
    node: TestNode,
    at: usize,
    /// Nodes that it was told are offline.
    told_offline: BTreeSet<NodeId>,
}

impl Follower {
    fn new(node: TestNode, at: usize) -> Self {
        Self { node, at, told_offline: BTreeSet::new() }
    }

    /// Receives what was sent up to now. Returns false if the channel is closed.
    fn hear(&mut self) -> bool {
        self.node.channel.send_or_end(&ToCoordinator::Ping);
        loop {
            match self.node.channel.receive() {
                Some(ToNode::Pong) => return true,
                Some(ToNode::Presence { whole, nodes }) => {
                    self.told_offline.extend(nodes.iter().filter(|(_, online)| !online).map(|(node, _)| *node));
                    self.node.handle(ToNode::Presence { whole, nodes });
                }
                Some(message) => self.node.handle(message),
                None => return false,
            }
        }
    }

    /// Opens a channel at another coordinator, as a node does.
    fn reopen(&mut self, coordinators: &[Option<TestCoordinator>], token: &JoinToken, known: &BTreeSet<NodeId>) {
        let began = Instant::now();
        loop {
            self.at = (self.at + 1) % coordinators.len();
            let Some(coordinator) = &coordinators[self.at] else { continue };
            match self.node.host.resume(coordinator, token, Some(self.node.map.clone())) {
                Ok(back) => {
                    assert_eq!(back.wholes, 0, "a change is enough");
                    self.told_offline.extend(known.difference(&back.online).filter(|_| coordinators.len() > 1));
                    self.node = back;
                    return;
                }
                Err(problem) => assert!(!problem.code.is_final() && began.elapsed() < SETTLE_TIMEOUT, "{problem}"),
            }
        }
    }
}

struct Fleet {
    coordinators: Vec<Option<TestCoordinator>>,
    followers: Vec<Follower>,
    token: JoinToken,
}

impl Fleet {
    fn start(directories: &[Directory], database: &Location) -> Self {
        let coordinators: Vec<_> =
            directories.iter().map(|directory| Some(TestCoordinator::start_on(directory, database))).collect();
        let token = coordinators[0].as_ref().unwrap().token();
        let join = |number: usize| {
            let (host, at) = (TestHost::new(), number % coordinators.len());
            let coordinator = coordinators[at].as_ref().unwrap();
            let began = Instant::now();
            loop {
                match host.join(coordinator, &token, &format!("n{number}")) {
                    Ok(node) => return Follower::new(node, at),
                    Err(problem) => assert!(!problem.code.is_final() && began.elapsed() < SETTLE_TIMEOUT, "{problem}"),
                }
            }
        };
        let followers: Vec<Follower> = (0..NODES).map(join).collect();
        let mut fleet = Self { coordinators, followers, token };
        fleet.settle();
        fleet.followers.iter_mut().for_each(|follower| follower.told_offline.clear());
        fleet
    }

    fn ids(&self) -> BTreeSet<NodeId> {
        self.followers.iter().map(|follower| follower.node.id()).collect()
    }

    /// Has all nodes receive, and those whose channel was closed open another one.
    fn hear(&mut self) {
        let known = self.ids();
        for follower in &mut self.followers {
            if !follower.hear() {
                follower.reopen(&self.coordinators, &self.token, &known);
            }
        }
    }

    /// Waits until every node knows all others, as the coordinators do, and sees them online.
    fn settle(&mut self) {
        let began = Instant::now();
        let ids = self.ids();
        loop {
            self.hear();
            let newest = self.followers.iter().map(|follower| follower.node.map.version).max().unwrap();
            let is_settled = |follower: &Follower| follower.node.map.version == newest && follower.node.online == ids;
            if self.followers.iter().all(is_settled) {
                break;
            }
            let late = self.followers.iter().filter(|follower| !is_settled(follower)).count();
            assert!(began.elapsed() < SETTLE_TIMEOUT, "{late} nodes do not know all others");
        }
        let coordinator = self.coordinators.iter().flatten().next().unwrap();
        for follower in self.followers.iter().step_by(20) {
            assert_eq!(follower.node.map, follower.node.fresh_map(coordinator));
        }
    }

    /// Renames a node at any coordinator that runs: a change that nobody may miss.
    fn change(&self, round: usize) {
        let coordinator = self.coordinators.iter().flatten().next().unwrap();
        let id = self.followers[round].node.id().to_string();
        let began = Instant::now();
        while let Err(error) = coordinator.wait(coordinator.state.rename_node(None, &id, &format!("new-{round}"))) {
            assert!(began.elapsed() < SETTLE_TIMEOUT, "{error}");
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_l4_on_server_coordinators_are_replaced_one_by_one_and_no_node_is_lost_or_shown_offline() {
    let mut directories: Vec<Directory> = (0..3).map(|_| Directory::new()).collect();
    let database = directories[0].database();
    assert!(matches!(database, Location::Server(_)), "tools/with_postgres runs this test with a server");
    let mut fleet = Fleet::start(&directories, &database);
    for round in 0..taut_testkit::count(4, 9) as usize {
        let at = round % 3;
        let old = fleet.coordinators[at].take().unwrap();
        let was_there = fleet.followers.iter().filter(|follower| follower.at == at).count();
        assert!(was_there > 0);
        fleet.change(2 * round);
        if round % 4 < 3 {
            drop(old);
        } else {
            old.kill();
        }
        fleet.change(2 * round + 1);
        fleet.hear();
        directories.push(Directory::new());
        fleet.coordinators[at] = Some(TestCoordinator::start_on(directories.last().unwrap(), &database));
        fleet.settle();
        // Some move to the new one, as nodes do that lose a connection.
        let (known, token) = (fleet.ids(), fleet.token.clone());
        for follower in fleet.followers.iter_mut().filter(|follower| follower.at != at).step_by(2) {
            follower.at = (at + 2) % 3;
            follower.reopen(&fleet.coordinators, &token, &known);
        }
    }
    // A coordinator that was killed counts as dead after 20 s. Its nodes are elsewhere by then.
    let until = Instant::now() + Duration::from_secs(25);
    while Instant::now() < until {
        fleet.hear();
        std::thread::sleep(Duration::from_millis(500));
    }
    let offline: BTreeSet<NodeId> = fleet.followers.iter().flat_map(|follower| follower.told_offline.clone()).collect();
    assert!(offline.is_empty(), "shown offline: {offline:?}");
}

#[test]
fn fault_l4_a_coordinator_that_runs_alone_is_restarted_and_every_node_gets_only_what_it_missed() {
    let directories = [Directory::new()];
    let database = directories[0].database();
    let mut fleet = Fleet::start(&directories, &database);
    for round in 0..3 {
        fleet.change(round);
        drop(fleet.coordinators[0].take());
        fleet.coordinators[0] = Some(TestCoordinator::start_on(&directories[0], &database));
        fleet.change(10 + round);
        fleet.settle();
    }
    let coordinator = fleet.coordinators[0].as_ref().unwrap();
    let members = coordinator.wait(async {
        let mut tx = coordinator.state.store().read(Party::Coordinator).await.unwrap();
        tx.count_nodes(fleet.followers[0].node.network).await.unwrap()
    });
    assert_eq!(members, NODES as u64);
}
