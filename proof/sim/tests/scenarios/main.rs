//! Whole nodes that follow WireGuard's rules for hours: loss, reordering, duplicates, crossing handshakes, restarts, moves, replays, wrong clocks, years of
//! uptime, and another implementation on the other side. The world checks every packet and every bound; the scenarios check that traffic continues.

mod auto_lanes;
mod control;
mod crossing;
mod decade;
mod first_packet;
mod flood;
mod hostile;
mod lanes;
mod long_packets;
mod loss;
mod map;
mod mtu;
mod native;
mod outage;
mod random;
mod relayed_lanes;
mod relays;
mod replay;
mod restart;
mod roaming;
mod steady;
mod wall;

use std::time::Duration;

use taut_base::Time;
use taut_sim::{Link, Party, Settings, Side, TautHost, World, map_for};
use taut_testkit::seeds;

/// Two Taut nodes.
type TautWorld = World<TautHost, TautHost>;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// The two members of the network.
fn parties() -> [Party; 2] {
    [Party::new(1), Party::new(2)]
}

fn taut_host(me: &Party, peer: &Party, settings: Settings, seed: u64) -> TautHost {
    TautHost::new(me, map_for(me, &[peer]), settings, seed)
}

fn taut_world_with(settings: Settings, link: Link, seed: u64) -> TautWorld {
    let [a, b] = parties();
    let hosts = (taut_host(&a, &b, settings, 2 * seed), taut_host(&b, &a, settings, 2 * seed + 1));
    World::new((&a, hosts.0), (&b, hosts.1), link, seed)
}

fn taut_world(link: Link, seed: u64) -> TautWorld {
    taut_world_with(Settings::default(), link, seed)
}

/// Runs a scenario with consecutive seeds: a sixteenth of `count` by day, and two at least, ten times `count` by night. Returns the number of runs.
fn for_seeds(count: u64, scenario: impl Fn(u64)) -> usize {
    let (by_day, by_night) = (count.div_ceil(16).max(count.min(2)), 10 * count);
    seeds(by_day, by_night).map(scenario).count()
}

/// Returns the delay of packet `number` of `side`, which was sent at `sent`.
#[track_caller]
fn took<A: taut_sim::Host, B: taut_sim::Host>(world: &World<A, B>, side: Side, number: usize, sent: Time) -> Duration {
    world.ledger(side).arrival(number).expect("the packet arrived").since(sent)
}

/// Checks that every packet sent between `from` and `to` arrived.
#[track_caller]
fn assert_complete<A: taut_sim::Host, B: taut_sim::Host>(world: &World<A, B>, from: Time, to: Time) {
    for side in Side::BOTH {
        let ledger = world.ledger(side);
        assert_eq!(
            ledger.missing(from, to),
            0,
            "packets from {side:?} are missing; {} of {} arrived",
            ledger.arrived(),
            ledger.sent()
        );
    }
}
