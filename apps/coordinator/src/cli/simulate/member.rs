//! One simulated member: it keeps a channel open, follows its map, and reports changes of its endpoints, as a node does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taut_base::{NodeId, PrivateKey, PublicKey};
use taut_netmap::{CONTROL_PATH, Hello, Peer, SCHEMA, ToCoordinator, ToNode, prologue};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval_at, sleep, sleep_until, timeout};

use super::channel::{Channel, Route};
use super::sites::Chooser;
use super::world::{Known, World, hash};
use crate::state::random;

/// Time between two pings of a node, 15 s (docs/spec/control-channel.md).
const PING_EVERY: Duration = Duration::from_secs(15);
/// Bounds of the pause before a node opens a channel again (the same page).
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Time that opening a channel may take.
const OPENING: Duration = Duration::from_secs(10);

/// A member and what it knows.
pub(super) struct Member {
    /// Its network, as a place in [`World::networks`].
    pub(super) network: usize,
    pub(super) id: NodeId,
    pub(super) machine: PrivateKey,
    pub(super) node_key: PublicKey,
    pub(super) source: Ipv4Addr,
    /// Number of this run of its program.
    pub(super) run: u64,
    pub(super) known: Known,
    /// Number of channels that it has tried to open: each is at the next coordinator.
    pub(super) tried: usize,
    /// `None` without simulated relays.
    pub(super) chooser: Option<Chooser>,
}

impl Member {
    /// Lives until `stop` is true. Each endpoint that comes from `changes` is reported. Returns what the member knows at the end.
    pub(super) async fn live(
        mut self,
        world: Arc<World>,
        mut changes: mpsc::UnboundedReceiver<SocketAddr>,
        mut stop: watch::Receiver<bool>,
    ) -> Self {
        let mut bound = RETRY.0;
        let chooses_at = Instant::now() + drawn(world.arrival);
        while !*stop.borrow() {
            if let Ok(Some(channel)) = timeout(OPENING, self.open(&world)).await {
                bound = RETRY.0;
                world.connected.fetch_add(1, Ordering::Relaxed);
                self.serve(channel, &world, chooses_at, &mut changes, &mut stop).await;
                world.connected.fetch_sub(1, Ordering::Relaxed);
            }
            tokio::select! {
                () = sleep(drawn(bound)) => {}
                _ = stop.changed() => {}
            }
            bound = (bound * 2).min(RETRY.1);
        }
        self
    }

    /// Opens a channel and receives the map.
    async fn open(&mut self, world: &World) -> Option<Channel> {
        let network = world.networks.get(self.network)?.id;
        let next = (self.id.0 as usize).wrapping_add(self.tried) % world.addresses.len().max(1);
        self.tried += 1;
        let (coordinator, address, source) = (&world.coordinator, *world.addresses.get(next)?, self.source);
        let (path, prologue) = (format!("{CONTROL_PATH}?network={network}"), prologue(&network.0));
        let route = Route { coordinator, address, source, path, prologue, key: &self.machine };
        let mut channel = Channel::open(route).await?;
        let hello = Hello {
            schema: SCHEMA,
            node_key: self.node_key,
            bind_key: None,
            enrol: None,
            have: self.known.version,
            version: String::from("simulated"),
            request: None,
            run: self.run,
        };
        channel.send(&ToCoordinator::Hello(hello)).await?;
        let (first, length) = channel.receive().await?;
        world.received.fetch_add(length as u64, Ordering::Relaxed);
        self.handle(first, world)?;
        Some(channel)
    }

    async fn serve(
        &mut self,
        mut channel: Channel,
        world: &World,
        chooses_at: Instant,
        changes: &mut mpsc::UnboundedReceiver<SocketAddr>,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<()> {
        let mut chooses = self.chooser.is_some();
        if let Some(chooser) = self.chooser.as_ref().filter(|chooser| !chooser.homes().is_empty()) {
            // It says on each new channel which relays it has, and has chosen before.
            chooses = false;
            channel.send(&ToCoordinator::Relays { ids: chooser.homes().to_vec() }).await?;
        }
        let mut pings = interval_at(Instant::now() + drawn(PING_EVERY), PING_EVERY);
        loop {
            tokio::select! {
                message = channel.receive() => {
                    let (message, length) = message?;
                    world.received.fetch_add(length as u64, Ordering::Relaxed);
                    self.handle(message, world)?;
                    self.tell_choice(&mut channel, world).await?;
                }
                () = sleep_until(chooses_at), if chooses => {
                    chooses = false;
                    self.chooser.iter_mut().for_each(|chooser| chooser.begin(&world.sites));
                    self.tell_choice(&mut channel, world).await?;
                }
                _ = pings.tick() => channel.send(&ToCoordinator::Ping).await?,
                Some(endpoint) = changes.recv() => {
                    let endpoints = vec![endpoint];
                    channel.send(&ToCoordinator::Endpoints { endpoints, ports: Vec::new(), observed: Vec::new() }).await?;
                }
                _ = stop.changed() => return None,
            }
        }
    }

    /// Reports the relays that it has chosen, if they changed.
    async fn tell_choice(&mut self, channel: &mut Channel, world: &World) -> Option<()> {
        match self.chooser.as_mut().and_then(|chooser| chooser.choice(&world.sites)) {
            Some(ids) => channel.send(&ToCoordinator::Relays { ids }).await,
            None => Some(()),
        }
    }

    /// Follows the map. Returns `None` if the channel is of no more use.
    fn handle(&mut self, message: ToNode, world: &World) -> Option<()> {
        match message {
            ToNode::Map(map) => {
                let before = std::mem::take(&mut self.known.peers);
                self.known.version = map.version;
                self.chooser.iter_mut().for_each(|chooser| chooser.set_map(&map.relays, &world.sites));
                map.peers.values().for_each(|peer| self.take(peer, before.get(&peer.id).copied(), world));
            }
            ToNode::Delta(delta) => {
                if delta.from != self.known.version {
                    world.misfits.fetch_add(1, Ordering::Relaxed);
                    self.known = Known::default();
                    return None;
                }
                self.known.version = delta.to;
                if let (Some(chooser), Some(relays)) = (&mut self.chooser, &delta.relays) {
                    chooser.set_map(relays, &world.sites);
                }
                delta.removes.iter().for_each(|id| _ = self.known.peers.remove(id));
                delta.upserts.iter().for_each(|peer| self.take(peer, self.known.peers.get(&peer.id).copied(), world));
            }
            ToNode::Refused(_) => return None,
            ToNode::Presence { .. }
            | ToNode::Pong
            | ToNode::Ticket { .. }
            | ToNode::Twin { .. }
            | ToNode::Waiting(_)
            | ToNode::Welcome { .. }
            | ToNode::Expiry { .. } => {}
        }
        Some(())
    }

    fn take(&mut self, peer: &Peer, before: Option<u64>, world: &World) {
        let now = hash(peer);
        self.known.peers.insert(peer.id, now);
        if before != Some(now)
            && let Some(took) = world.networks.get(self.network).and_then(|network| network.heard(peer))
        {
            world.note(took);
        }
    }
}

/// Returns a random part of a duration.
fn drawn(bound: Duration) -> Duration {
    bound.mul_f64(f64::from(u32::from_le_bytes(random())) / f64::from(u32::MAX))
}
