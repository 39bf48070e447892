//! The channel of a simulated relay.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taut_netmap::{CoordinatorToRelay, RELAY_CONTROL_PATH, RELAY_PROLOGUE, RelayLoad, RelayToCoordinator, SCHEMA};
use tokio::sync::watch;
use tokio::time::{interval, sleep};

use super::channel::{Channel, Route};
use super::sites::Site;
use super::world::World;

/// Time between two reports of a simulated relay, 2 s. Real ones report every 10 s, and members come more slowly.
const LOAD_EVERY: Duration = Duration::from_secs(2);

/// Pause before a relay opens a channel again, 1 s.
const RETRY: Duration = Duration::from_secs(1);

/// Keeps a relay's channel open and reports its load, until `stop` is true.
pub(super) async fn live(world: Arc<World>, place: usize, mut stop: watch::Receiver<bool>) {
    let Some(site) = world.sites.get(place) else { return };
    let mut tried = place;
    while !*stop.borrow() {
        let address = world.addresses.get(tried % world.addresses.len().max(1));
        tried += 1;
        if let Some(address) = address {
            let route = Route {
                coordinator: &world.coordinator,
                address: *address,
                source: Ipv4Addr::LOCALHOST,
                path: String::from(RELAY_CONTROL_PATH),
                prologue: RELAY_PROLOGUE.to_vec(),
                key: &site.key,
            };
            serve(route, site, world.sites.places, &mut stop).await;
        }
        tokio::select! {
            () = sleep(RETRY) => {}
            _ = stop.changed() => {}
        }
    }
}

async fn serve(route: Route<'_>, site: &Site, places: usize, stop: &mut watch::Receiver<bool>) -> Option<()> {
    let mut channel = Channel::open(route).await?;
    channel.send(&RelayToCoordinator::Hello { schema: SCHEMA, version: String::from("simulated") }).await?;
    let mut loads = interval(LOAD_EVERY);
    loop {
        tokio::select! {
            message = channel.receive::<CoordinatorToRelay>() => { message?; }
            _ = loads.tick() => {
                let clients = site.bound.load(Ordering::Relaxed) as u64;
                let load = RelayLoad { clients, clients_max: places as u64, ..RelayLoad::default() };
                channel.send(&RelayToCoordinator::Load(load)).await?;
            }
            _ = stop.changed() => return None,
        }
    }
}
