//! Path MTU discovery between whole nodes, on links that lose longer packets without an error message.
//!
//! Only probes are long here; scenarios with long packets of applications: `long_packets`.

use taut_base::{DEFAULT_MTU, MIN_MTU, SAFE_PACKET};
use taut_path::{LimitCause, PathReport, Verdict, WayReport};
use taut_sim::{Link, Probability, Settings, Side, SimRelay, StationId, TautHost, World, map_with_relays};
use taut_wire::wireguard::{Message, classify};

use crate::{TautWorld, for_seeds, minutes, ms, parties, secs, taut_world};

const LINK: Link = Link::clean(ms(5));

/// Bytes around an inner packet over IPv4.
const OVERHEAD: usize = 60;

/// Bytes of a relay's header.
const RELAY: usize = 8;

fn host(world: &TautWorld, side: Side) -> &TautHost {
    if side == Side::A { world.a() } else { world.b() }
}

fn limits(world: &TautWorld) -> [Option<u16>; 2] {
    Side::BOTH.map(|side| host(world, side).packet_limit())
}

fn report(world: &TautWorld, side: Side) -> PathReport {
    host(world, side).report(world.now()).expect("the peer has paths")
}

/// Returns the report of the way in use.
fn way(world: &TautWorld, side: Side) -> WayReport {
    report(world, side).ways.into_iter().find(|way| way.in_use).expect("a way is in use")
}

/// Returns true if a found limit is what the link leaves, to eight bytes.
fn is_right(found: Option<u16>, mtu: usize) -> bool {
    let carries = mtu - OVERHEAD;
    found.is_some_and(|found| usize::from(found) <= carries && carries - usize::from(found) <= 8)
}

/// Returns two nodes with data on this link, once the limit of the path is settled.
fn settled(link: Link, seed: u64) -> TautWorld {
    let mut world = taut_world(link, seed);
    Side::BOTH.into_iter().for_each(|side| world.flow(side, ms(100)));
    world.run(secs(3));
    world
}

#[test]
fn fault_i1_the_limit_of_a_link_that_reports_nothing_is_found() {
    for_seeds(4, |seed| {
        for mtu in [1_124, 1_280, 1_340, 1_400, 1_420, 1_492, 1_500, 4_000, 9_000] {
            let world = settled(LINK.with_mtu(mtu), seed);
            let found = limits(&world);
            assert!(found.iter().all(|found| is_right(*found, mtu)), "{found:?} on a link of {mtu} bytes");
            for side in Side::BOTH {
                let way = way(&world, side);
                let limit = way.limit.unwrap();
                assert_eq!((limit.cause, way.fits), (LimitCause::Probes, Some(limit.bytes)));
                assert_eq!(report(&world, side).verdict, Verdict::Direct, "a limit is no problem");
            }
        }
    });
}

#[test]
fn fault_i1_the_limit_of_a_common_link_is_used_after_300_ms() {
    for_seeds(8, |seed| {
        for mtu in [1_124, 1_280, 1_400, 1_492, 1_500, 9_000] {
            let mut world = taut_world(LINK.with_mtu(mtu), seed);
            world.send(Side::A);
            world.run(ms(300));
            for side in Side::BOTH {
                let bytes = way(&world, side).limit.unwrap().bytes;
                assert_eq!(usize::from(bytes), mtu - OVERHEAD, "{side:?}");
            }
        }
    });
}

#[test]
fn fault_i1_each_direction_has_a_limit_of_its_own() {
    let mut world = taut_world(LINK, 1);
    world.set_link(Side::A, LINK.with_mtu(1_400));
    Side::BOTH.into_iter().for_each(|side| world.flow(side, ms(100)));
    world.run(secs(3));
    assert_eq!(limits(&world), [Some(1_340), Some(1_440)]);
}

#[test]
fn fault_i1_a_path_that_changes_is_followed() {
    for_seeds(4, |seed| {
        let mut world = settled(LINK, seed);
        world.set_links(LINK.with_mtu(1_280));
        // The kernel tells both of another route.
        for side in Side::BOTH {
            let endpoint = parties()[usize::from(side == Side::B)].endpoint;
            match side {
                Side::A => world.with_a(|host, now| host.move_to(endpoint, now)),
                Side::B => world.with_b(|host, now| host.move_to(endpoint, now)),
            }
        }
        world.run(secs(2));
        assert!(limits(&world).iter().all(|found| is_right(*found, 1_280)), "{:?}", limits(&world));
        world.set_links(LINK.with_mtu(9_000));
        world.run(minutes(11));
        assert!(limits(&world).iter().all(|found| is_right(*found, 9_000)), "{:?}", limits(&world));
    });
}

#[test]
fn fault_i1_a_link_that_loses_long_packets_at_random_does_not_shrink() {
    for_seeds(8, |seed| {
        let mut world = settled(LINK, seed);
        world.set_links(LINK.with_long_loss(Probability::percent(20)));
        for _ in 0..20 {
            let endpoint = parties()[0].endpoint;
            world.with_a(|host, now| host.move_to(endpoint, now));
            world.run(secs(5));
        }
        assert_eq!(limits(&world)[0], Some(1_440), "seed {seed}");
    });
}

#[test]
fn fault_i2_a_link_below_what_a_safe_packet_needs_is_named() {
    // Both are release 0.1.0 as far as they know: they take no pieces.
    let world = settled(LINK.with_mtu(900), 1);
    for side in Side::BOTH {
        let bytes = way(&world, side).limit.unwrap().bytes;
        if bytes == DEFAULT_MTU {
            let told = report(&world, side).verdict;
            assert_eq!(told, Verdict::TooLong { fits: DEFAULT_MTU });
            assert!(told.to_string().contains("MTU") && told.fix(true).unwrap().contains("--mtu"), "{told}");
        } else {
            assert!(bytes < SAFE_PACKET && is_right(Some(bytes), 900), "{bytes}: pieces");
        }
    }
}

#[test]
fn the_mtu_that_the_user_sets_is_not_exceeded() {
    let mut world = taut_world(LINK.with_mtu(9_000), 1);
    world.with_a(|host, _| host.set_mtu(Some(MIN_MTU)));
    Side::BOTH.into_iter().for_each(|side| world.flow(side, ms(100)));
    world.record();
    world.run(minutes(11));
    assert_eq!(limits(&world), [Some(MIN_MTU), Some(8_940)]);
    assert_eq!(way(&world, Side::A).limit.unwrap().cause, LimitCause::Setting);
    let longest = world.take_history().into_iter().filter(|sent| sent.from == Side::A).map(|sent| sent.datagram.len());
    assert_eq!(longest.max(), Some(usize::from(MIN_MTU) + OVERHEAD - 28));
}

#[test]
fn one_long_datagram_in_ten_minutes_while_nothing_changes() {
    let mut world = settled(LINK, 1);
    world.run(minutes(2));
    world.record();
    world.run(minutes(60));
    let history = world.take_history();
    for side in Side::BOTH {
        let long = |datagram: &[u8]| matches!(classify(datagram), Ok(Message::Data(_))) && datagram.len() > 1_000;
        let sent = history.iter().filter(|sent| sent.from == side && long(&sent.datagram)).count();
        assert!(sent <= 6, "{sent} in an hour");
    }
}

/// Returns two nodes that reach each other only through a relay, over links with these MTUs.
fn relayed(mtus: [usize; 2], seed: u64) -> (TautWorld, StationId) {
    let [a, b] = parties();
    let relay = SimRelay::new(1);
    let settings = Settings { ticket: true, ..Settings::default() };
    let host =
        |me, peer, seed| TautHost::new(me, map_with_relays(me, &[peer], std::slice::from_ref(&relay)), settings, seed);
    let hosts = (host(&a, &b, 2 * seed), host(&b, &a, 2 * seed + 1));
    let mut world = World::new((&a, hosts.0), (&b, hosts.1), LINK.with_loss(Probability::ALWAYS), seed);
    let station = world.put_up(relay.address, Box::new(relay.start(100 * seed)), LINK);
    for (side, mtu) in Side::BOTH.into_iter().zip(mtus) {
        world.set_way(station, side, LINK.with_mtu(mtu));
    }
    world.run(secs(2));
    (world, station)
}

#[test]
fn fault_i1_the_relays_header_counts_and_the_narrower_link_decides() {
    for_seeds(4, |seed| {
        for mtus in [[1_500, 1_500], [1_500, 1_400], [1_124, 9_000]] {
            let (mut world, _) = relayed(mtus, seed);
            Side::BOTH.into_iter().for_each(|side| world.flow(side, ms(100)));
            world.run(secs(4));
            let narrow = mtus.into_iter().min().unwrap() - RELAY;
            assert!(limits(&world).iter().all(|found| is_right(*found, narrow)), "{:?} of {narrow}", limits(&world));
            assert!(way(&world, Side::A).way.is_relayed());
        }
    });
}

/// `taut status` shows no limit, rather than that of the former path.
fn assert_shown_limit_is_of_the_path_in_use(world: &TautWorld) {
    for side in Side::BOTH {
        let path = host(world, side).node().peers().find_map(|peer| peer.path).expect("the peer has paths");
        let relayed = path.way.is_some_and(|way| way.is_relayed());
        let carries = if relayed { 1_300 - RELAY } else { 1_500 };
        assert!(path.limit.is_none() || is_right(path.limit, carries), "{path:?}");
    }
}

#[test]
fn fault_i1_a_direct_path_and_the_relay_keep_their_own_limits() {
    let (mut world, station) = relayed([1_300; 2], 1);
    Side::BOTH.into_iter().for_each(|side| world.flow(side, ms(100)));
    world.run(secs(4));
    assert!(limits(&world).iter().all(|found| is_right(*found, 1_300 - RELAY)));
    world.set_links(LINK);
    for _ in 0..2_000 {
        world.run(ms(10));
        assert_shown_limit_is_of_the_path_in_use(&world);
    }
    assert_eq!(limits(&world), [Some(1_440); 2]);
    world.set_links(LINK.with_loss(Probability::ALWAYS));
    world.run(secs(2));
    assert!(limits(&world).iter().all(|found| is_right(*found, 1_300 - RELAY)), "{:?}", limits(&world));
    assert!(world.counts_to(station, Side::A).data > 0);
}
