//! `simulate`: a real coordinator with many simulated members, all with real control channels.
//!
//! ```text
//! this process: members ── TCP, WebSocket, Noise, JSON ──▶ child: taut-coordinator serve --state TEMPORARY
//!   1. the members of all networks are written to the database, because one host may enrol a few hundred only
//!   2. all connect
//!   3. for some seconds, members report new endpoints: each must reach all others of its network; with `--relays`, they choose relays meanwhile
//!   4. the coordinator (with replicas, one of them) is killed and started again: all connect again
//!   5. every member's map is compared with the one that the coordinator makes of its database
//! ```
//! Members and coordinator share the processor, so on a host of two cores the figures are those of about one. With replicas, several coordinators serve one PostgreSQL
//! database, and each channel that a member opens is at the next one.

mod channel;
mod child;
mod member;
mod relay_channel;
mod report;
mod sites;
mod world;

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use taut_base::{NodeId, Prefix, PrivateKey, PublicKey};
use taut_netmap::{JoinToken, MAX_RELAYS, NetworkMap, ToNode};
use taut_noise::public_key;
use taut_relay_server::raise_open_files;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::arguments::Arguments;
use super::{CommandError, complain, show};
use crate::api;
use crate::state::{MemberKeys, RelayToAdd, StartOptions, State, TICKET_LIFE, random};
use crate::store::{Location, NetworkId};
use crate::webhooks::Sender;
use child::Coordinator;
use member::Member;
use report::Report;
use sites::{Chooser, Sites};
use world::{Known, SimulatedNetwork, World, hash, locked};

/// Members that each member sees, itself included, without `--visible`.
const VISIBLE: usize = 101;
/// Longest wait until all members are connected.
const CONNECT_WITHIN: Duration = Duration::from_secs(300);
/// Longest wait for changes that are under way at the end.
const SETTLE_WITHIN: Duration = Duration::from_secs(30);
/// Files of this process beside one for each member.
const OTHER_FILES: u64 = 64;
/// Most coordinators.
const MOST_REPLICAS: usize = 16;
/// Time between two looks at the members.
const LOOK: Duration = Duration::from_millis(10);

/// The size and the duration of a simulation, from the command line.
struct Plan {
    nodes: usize,
    visible: usize,
    /// Changes per second.
    changes: f64,
    seconds: u64,
    /// Coordinators.
    replicas: usize,
    /// Relays, and places for members at each.
    relays: usize,
    places: usize,
    /// Their database, if it is not a file.
    database: Option<Location>,
}

/// `simulate`.
pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let url = arguments.value("database")?.or_else(|| std::env::var("TAUT_DATABASE").ok());
    let wrong = || {
        CommandError::Usage(String::from(
            "--database (or TAUT_DATABASE) is not a URL of PostgreSQL; write postgres://USER:PASSWORD@HOST/DATABASE",
        ))
    };
    let database = url.map(|url| Location::parse(Some(url), Path::new("")).ok_or_else(wrong)).transpose()?;
    let plan = Plan {
        nodes: number(&mut arguments, "nodes", 1_000)?,
        visible: number(&mut arguments, "visible", VISIBLE)?,
        changes: number(&mut arguments, "changes", 1.0)?,
        seconds: number(&mut arguments, "seconds", 30)?,
        replicas: number(&mut arguments, "replicas", 1)?,
        relays: number(&mut arguments, "relays", 0)?,
        places: number(&mut arguments, "relay-places", 0)?,
        database,
    };
    let json = arguments.switch("json");
    arguments.finish()?;
    if plan.nodes < 2 || plan.visible < 2 || !(0.0..=100_000.0).contains(&plan.changes) {
        return Err(CommandError::Usage(String::from(
            "a simulation needs two nodes that see each other, and a rate of changes",
        )));
    }
    if !(1..=MOST_REPLICAS).contains(&plan.replicas) || (plan.replicas > 1 && plan.database.is_none()) {
        return Err(CommandError::Usage(format!(
            "--replicas is a number from 1 to {MOST_REPLICAS}; several need a database that they share: --database (or TAUT_DATABASE)"
        )));
    }
    if plan.relays == 1 || plan.relays >= MAX_RELAYS {
        return Err(CommandError::Usage(format!("--relays is a number from 2 to {}", MAX_RELAYS - 1)));
    }
    let files = raise_open_files();
    if files < (plan.nodes as u64).saturating_add(OTHER_FILES) {
        let nodes = plan.nodes;
        return Err(CommandError::Run(format!(
            "{nodes} channels need as many open files, and this process may have {files}; raise it with `ulimit -n`"
        )));
    }
    let directory = Directory::new()?;
    // A signal ends the simulation by dropping it, so that neither the coordinator nor the directory stays.
    let report = super::serve::runtime()?.block_on(async {
        tokio::select! {
            report = simulate(&plan, &directory.0) => report,
            signal = interrupted() => Err(signal),
        }
    })?;
    show(&if json { report.json() } else { report.text() })?;
    if report.is_right() {
        Ok(())
    } else {
        Err(CommandError::Run(String::from("members and coordinator do not agree")))
    }
}

impl Plan {
    /// Returns the places for members at each relay: by default all relays together have one and a half times those that all members need, which take two each.
    fn places(&self) -> usize {
        match (self.places, self.relays) {
            (0, 1..) => (self.nodes * 3).div_ceil(self.relays),
            (given, _) => given,
        }
    }
}

fn number<T: std::str::FromStr>(arguments: &mut Arguments, name: &str, default: T) -> Result<T, CommandError> {
    let Some(text) = arguments.value(name)? else { return Ok(default) };
    text.parse().map_err(|_| CommandError::Usage(format!("--{name} `{text}` is not a number")))
}

/// Waits for SIGINT or SIGTERM. Returns the error with which the program ends.
async fn interrupted() -> CommandError {
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate)] = signals else {
        return CommandError::Run(String::from("signals cannot be waited for"));
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    CommandError::Run(String::from("interrupted"))
}

/// A state directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    /// Creates a directory that no other user could have prepared.
    fn new() -> Result<Self, CommandError> {
        let path = std::env::temp_dir().join(format!("taut-simulate-{:032x}", u128::from_le_bytes(random())));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| CommandError::Run(format!("{} cannot be created: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn simulate(plan: &Plan, directory: &Path) -> Result<Report, CommandError> {
    complain(&format!("writing {} members to a new database", plan.nodes));
    let sites = Sites::new(plan.relays, plan.places());
    let (coordinator_key, networks, members) = populate(plan, directory, &sites).await?;
    // Each has a state directory of its own, which is the database only if it is a file.
    let start = |number: usize, address| match &plan.database {
        None => Coordinator::start(directory, None, address),
        Some(_) => Coordinator::start(&directory.join(format!("{number}")), plan.database.as_ref(), address),
    };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut replicas = (0..plan.replicas).map(|number| start(number, any)).collect::<Result<Vec<_>, _>>()?;
    let before = memory(&replicas, "VmRSS");
    let world = Arc::new(World {
        coordinator: coordinator_key,
        addresses: replicas.iter().map(|replica| replica.address).collect(),
        networks,
        sites,
        arrival: Duration::from_secs(plan.seconds) * 2 / 3,
        connected: AtomicUsize::new(0),
        received: AtomicU64::new(0),
        misfits: AtomicU64::new(0),
        delays: Mutex::default(),
    });
    let (stop, stopped) = watch::channel(false);
    let (mut changers, mut living) = (Vec::with_capacity(plan.nodes), JoinSet::new());
    let began = Instant::now();
    for member in members {
        let (changer, changes) = mpsc::unbounded_channel();
        changers.push((member.network, member.id, changer));
        living.spawn(member.live(Arc::clone(&world), changes, stopped.clone()));
    }
    let relays = (0..world.sites.len())
        .map(|place| tokio::spawn(relay_channel::live(Arc::clone(&world), place, stopped.clone())));
    let relays: Vec<_> = relays.collect();
    let connect = all_connected(&world, began).await?;
    let (used, received, began) = (processor(&replicas), world.received.load(Ordering::Relaxed), Instant::now());
    complain(&format!("all are connected after {:.1} s; changes follow for {} s", connect.as_secs_f64(), plan.seconds));
    let changes = change(plan, &world, &changers).await;
    let steady = began.elapsed();
    let cores = (processor(&replicas) - used).as_secs_f64() / steady.as_secs_f64();
    let received = world.received.load(Ordering::Relaxed) - received;
    let rss = memory(&replicas, "VmRSS");
    let lost = settled(&world).await;
    complain("a coordinator is killed and started again");
    let most = memory(&replicas, "VmHWM");
    let killed = replicas.remove(0);
    let (address, mut began) = (killed.address, Instant::now());
    drop(killed);
    wait_until(SETTLE_WITHIN, || !world.is_whole()).await;
    if replicas.is_empty() {
        wait_until(SETTLE_WITHIN, || world.connected.load(Ordering::Relaxed) == 0).await;
        replicas.push(start(0, address)?);
        began = Instant::now();
    }
    let reconnect = all_connected(&world, began).await?;
    let most = memory(&replicas, "VmHWM").max(most);
    // A member that was away during a change got it with the first message of its new channel, so all maps are complete now.
    stop.send_replace(true);
    let members: Vec<Member> = living.join_all().await;
    for relay in relays {
        let _ = relay.await;
    }
    let choosers = members.iter().filter_map(|member| member.chooser.as_ref());
    let mut detours: Vec<Duration> = choosers.filter_map(|chooser| chooser.detour(&world.sites)).collect();
    detours.sort_unstable();
    drop(replicas);
    let differing = compare(plan, directory, &world, &members).await?;
    let mut delays = std::mem::take(&mut *locked(&world.delays));
    delays.sort_unstable();
    Ok(Report {
        nodes: plan.nodes,
        visible: plan.visible.min(plan.nodes),
        replicas: plan.replicas,
        changes,
        seconds: steady,
        delays,
        lost,
        differing,
        misfits: world.misfits.load(Ordering::Relaxed),
        rss,
        most,
        per_channel: rss.saturating_sub(before) * 1024 / plan.nodes as u64,
        cores,
        connect,
        reconnect,
        received: received / plan.nodes as u64,
        relays: world.sites.reports(),
        detours,
    })
}

/// Creates the networks and their members. Returns the coordinator's key, the networks and the members.
async fn populate(
    plan: &Plan,
    directory: &Path,
    sites: &Sites,
) -> Result<(PublicKey, Vec<SimulatedNetwork>, Vec<Member>), CommandError> {
    let (state, first) = open(plan, directory).await?;
    let token: Option<JoinToken> = first.and_then(|token| token.parse().ok());
    let key = token
        .ok_or_else(|| CommandError::Run(String::from("the database is not empty; name another one")))?
        .coordinator;
    let prefix: Prefix = api::DEFAULT_IPV4.parse().map_err(CommandError::run)?;
    let (mut networks, mut members) = (Vec::new(), Vec::with_capacity(plan.nodes));
    while members.len() < plan.nodes {
        let (network, size) = (networks.len(), plan.visible.min(plan.nodes - members.len()));
        let machines: Vec<PrivateKey> = (0..size).map(|_| PrivateKey::from_bytes(random())).collect();
        let keys: Vec<MemberKeys> = machines
            .iter()
            .map(|machine| MemberKeys {
                machine: public_key(machine),
                node: public_key(&PrivateKey::from_bytes(random())),
            })
            .collect();
        let (id, numbers) =
            state.populate(&format!("network-{network}"), prefix, &keys).await.map_err(CommandError::run)?;
        for ((machine, keys), id) in machines.into_iter().zip(&keys).zip(&numbers) {
            // Loopback is a /8: each member has an address of its own, as in the world.
            let source = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + members.len() as u32);
            let run = u64::from_le_bytes(random()) | 1;
            members.push(Member {
                network,
                id: *id,
                machine,
                node_key: keys.node,
                source,
                run,
                known: Known::default(),
                tried: 0,
                chooser: (sites.len() > 0).then(|| Chooser::new(sites)),
            });
        }
        name_relays(&state, &format!("network-{network}"), sites).await?;
        networks.push(SimulatedNetwork::new(id, numbers));
    }
    state.close().await;
    Ok((key, networks, members))
}

/// Names all relays in a network. Their addresses are of the network for documentation (RFC 5737); nobody sends anything there.
async fn name_relays(state: &State, network: &str, sites: &Sites) -> Result<(), CommandError> {
    for (name, key) in sites.named() {
        let endpoints = vec![SocketAddr::from((Ipv4Addr::new(203, 0, 113, 1), 3478))];
        let relay = RelayToAdd { name, key, endpoints, stun_port: 0, web: None };
        state.add_relay(Some(network), relay).await.map_err(CommandError::run)?;
    }
    Ok(())
}

/// Opens the state directory in this process. Returns the join token of a first start.
async fn open(plan: &Plan, directory: &Path) -> Result<(State, Option<String>), CommandError> {
    let options = StartOptions {
        directory: directory.to_path_buf(),
        database: plan.database.clone().unwrap_or_else(|| Location::Directory(directory.to_path_buf())),
        urls: vec![String::from("http://127.0.0.1")],
        network: String::from("default"),
        ipv4: api::DEFAULT_IPV4.parse().map_err(CommandError::run)?,
        ticket_life: TICKET_LIFE,
        audit_days: 1,
        provider: None,
        sender: Sender::new(false),
    };
    let (state, first) = State::open(options).await.map_err(CommandError::run)?;
    Ok((state, first.map(|first| first.join_token)))
}

/// Returns the memory of all coordinators, in KiB.
fn memory(replicas: &[Coordinator], field: &str) -> u64 {
    replicas.iter().map(|replica| replica.memory(field)).sum()
}

/// Returns the processor time of all coordinators.
fn processor(replicas: &[Coordinator]) -> Duration {
    replicas.iter().map(Coordinator::processor).sum()
}

/// Waits until all members are connected. Returns the time since `began`.
async fn all_connected(world: &World, began: Instant) -> Result<Duration, CommandError> {
    if wait_until(CONNECT_WITHIN, || world.is_whole()).await {
        return Ok(began.elapsed());
    }
    let (connected, all) = (world.connected.load(Ordering::Relaxed), world.size());
    Err(CommandError::Run(format!(
        "{connected} of {all} members are connected after {} s; try fewer --nodes, or raise `ulimit -n` for the coordinator",
        CONNECT_WITHIN.as_secs()
    )))
}

async fn wait_until(longest: Duration, done: impl Fn() -> bool) -> bool {
    let until = Instant::now() + longest;
    while !done() {
        if Instant::now() >= until {
            return false;
        }
        sleep(LOOK).await;
    }
    true
}

/// Has members report new endpoints at the planned rate. A member whose last change is still under way is left out. Returns the number of changes.
async fn change(plan: &Plan, world: &World, changers: &[(usize, NodeId, mpsc::UnboundedSender<SocketAddr>)]) -> u64 {
    let began = Instant::now();
    let (mut made, mut sent) = (0_u64, 0);
    while began.elapsed() < Duration::from_secs(plan.seconds) {
        let due = (began.elapsed().as_secs_f64() * plan.changes) as u64;
        while made < due {
            made += 1;
            // A stride that is coprime to most numbers of members, so that changes come from all networks in turn.
            let Some((network, id, changer)) = changers.get(made as usize * 7_919 % changers.len()) else { continue };
            // Each change has an endpoint of its own, in the network for benchmarks (RFC 2544).
            let address = Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + (made >> 14) as u32 % 131_072);
            let endpoint = SocketAddr::from((address, 1 + (made & 0x3fff) as u16));
            if world.networks.get(*network).is_some_and(|network| network.begin(*id, endpoint)) {
                let _ = changer.send(endpoint);
                sent += 1;
            }
        }
        sleep(LOOK).await;
    }
    sent
}

/// Waits for the changes under way. Returns the number of those that did not arrive everywhere.
async fn settled(world: &World) -> usize {
    wait_until(SETTLE_WITHIN, || world.under_way() == 0).await;
    world.under_way()
}

/// Returns the number of members whose map is not the one that the coordinator makes of its database.
async fn compare(plan: &Plan, directory: &Path, world: &World, members: &[Member]) -> Result<usize, CommandError> {
    let (state, _) = open(plan, directory).await?;
    let mut truths: BTreeMap<usize, (u64, BTreeMap<NodeId, u64>)> = BTreeMap::new();
    for (place, network) in world.networks.iter().enumerate() {
        // No map contains the node that it is for, so two are needed for all.
        let mut truth = (0, BTreeMap::new());
        for id in network.members.iter().take(2) {
            let map = whole_map(&state, network.id, *id).await?;
            truth.0 = map.version;
            truth.1.extend(map.peers.values().map(|peer| (peer.id, hash(peer))));
        }
        truths.insert(place, truth);
    }
    state.close().await;
    let is_right = |member: &&Member| {
        truths.get(&member.network).is_some_and(|(version, all)| {
            let others = all.iter().filter(|(id, _)| **id != member.id);
            member.known.version == *version && others.eq(member.known.peers.iter())
        })
    };
    Ok(members.len() - members.iter().filter(is_right).count())
}

async fn whole_map(state: &State, network: NetworkId, node: NodeId) -> Result<NetworkMap, CommandError> {
    let update = state.update_for(network, node, 0).await.map_err(CommandError::run)?;
    let message = update.message.unwrap_or_default();
    match serde_json::from_slice(&message).map_err(CommandError::run)? {
        ToNode::Map(map) => Ok(map),
        _ => Err(CommandError::Run(String::from("the coordinator has no whole map"))),
    }
}
