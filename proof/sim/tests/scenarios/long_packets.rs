//! Long packets of applications between whole nodes, on links that lose longer ones without an error message: nothing is lost that a path could have carried.

use taut_base::DEFAULT_MTU;
use taut_path::Verdict;
use taut_sim::{Link, Probability, Settings, Side, World};
use taut_testkit::Seeded;

use crate::{TautWorld, assert_complete, for_seeds, ms, parties, secs, taut_host, taut_world_with};

const LINK: Link = Link::clean(ms(5));

/// Bytes of an inner packet as long as the MTU of the device before a limit was found.
const FULL: usize = 1_420;

/// Bytes around an inner packet over IPv4.
const OVERHEAD: usize = 60;

/// The time within which a path that has shrunk has to carry all packets again.
const FOUND: std::time::Duration = secs(2);

/// Returns two nodes whose applications send packets of these lengths every 10 ms from the start.
fn talking(lengths: std::ops::RangeInclusive<usize>, links: [Link; 2], settings: Settings, seed: u64) -> TautWorld {
    let mut world = taut_world_with(settings, LINK, seed);
    world.set_lengths(lengths);
    for (side, link) in Side::BOTH.into_iter().zip(links) {
        world.set_link(side, link);
        world.flow(side, ms(10));
    }
    world
}

fn limit(world: &TautWorld, side: Side) -> usize {
    let host = if side == Side::A { world.a() } else { world.b() };
    host.packet_limit().map_or(0, usize::from)
}

/// Asserts that the limit of packets from `side` is what a link of `mtu` bytes leaves, to eight bytes.
#[track_caller]
fn assert_limit(world: &TautWorld, side: Side, mtu: usize) {
    let (found, exact) = (limit(world, side), mtu - OVERHEAD);
    assert!((exact - 8..=exact).contains(&found), "{found} on a link of {mtu} bytes");
}

#[test]
fn fault_i1_no_full_size_packet_is_lost_from_the_first_one() {
    for_seeds(8, |seed| {
        for mtu in [1_124, 1_280, 1_400, 1_492, 1_500, 9_000] {
            for settings in
                [Settings::default(), Settings { agent_delay: ms(3), lane_delay: ms(5), ..Settings::default() }]
            {
                let mut world = talking(FULL..=FULL, [LINK.with_mtu(mtu); 2], settings, seed);
                let start = world.now();
                world.run(secs(5));
                assert_complete(&world, start, world.ago(ms(100)));
                Side::BOTH.into_iter().for_each(|side| assert_limit(&world, side, mtu));
            }
        }
    });
}

#[test]
fn fault_i1_each_direction_carries_what_it_can_from_the_first_packet_on() {
    for_seeds(8, |seed| {
        let mtus = [1_280, 9_000];
        let mut world = talking(40..=FULL, mtus.map(|mtu| LINK.with_mtu(mtu)), Settings::default(), seed);
        let start = world.now();
        world.run(secs(5));
        assert_complete(&world, start, world.ago(ms(100)));
        Side::BOTH.into_iter().zip(mtus).for_each(|(side, mtu)| assert_limit(&world, side, mtu));
    });
}

#[test]
fn fault_i2_a_link_of_900_bytes_carries_long_packets_in_pieces() {
    for_seeds(8, |seed| {
        let mut world = talking(40..=FULL, [LINK.with_mtu(900); 2], Settings::default(), seed);
        let start = world.now();
        world.run(secs(10));
        assert_complete(&world, start + FOUND, world.ago(ms(100)));
        Side::BOTH.into_iter().for_each(|side| assert_limit(&world, side, 900));
    });
}

#[test]
fn fault_i1_a_link_that_shrinks_without_notice_loses_packets_for_two_seconds_at_most() {
    for_seeds(8, |seed| {
        for after in [1_400, 1_280, 1_124, 900] {
            let mut world = talking(FULL..=FULL, [LINK; 2], Settings::default(), seed);
            world.run(secs(5));
            let sessions = (world.a().established(), world.b().established());
            world.set_links(LINK.with_mtu(after));
            let shrunk = world.now();
            world.run(secs(10));
            assert_complete(&world, shrunk + FOUND, world.ago(ms(100)));
            Side::BOTH.into_iter().for_each(|side| assert_limit(&world, side, after));
            assert_eq!((world.a().established(), world.b().established()), sessions, "the session goes on");
        }
    });
}

#[test]
fn fault_i1_a_link_that_changes_again_and_again_is_followed_under_traffic() {
    for_seeds(4, |seed| {
        let mut chance = Seeded::new(seed);
        let mut world = talking(FULL..=FULL, [LINK; 2], Settings::default(), seed);
        world.run(secs(5));
        for _ in 0..12 {
            let mtus = [(); 2].map(|()| [900, 1_124, 1_280, 1_400, 1_500, 9_000][chance.index(6)]);
            for (side, mtu) in Side::BOTH.into_iter().zip(mtus) {
                world.set_link(side, LINK.with_mtu(mtu));
            }
            let changed = world.now();
            world.run(secs(20));
            assert_complete(&world, changed + FOUND, world.ago(ms(100)));
        }
    });
}

#[test]
fn fault_i1_long_packets_that_are_lost_at_random_do_not_shrink_a_path_that_carries_data() {
    for_seeds(8, |seed| {
        let mut world = talking(FULL..=FULL, [LINK; 2], Settings::default(), seed);
        world.run(secs(5));
        world.set_links(LINK.with_long_loss(Probability::percent(20)));
        let (mut short, mut seen) = (0, 0);
        for _ in 0..600 {
            world.run(ms(100));
            for side in Side::BOTH {
                seen += 1;
                short += usize::from(limit(&world, side) < FULL);
            }
        }
        assert!(short * 20 < seen, "seed {seed}: the limit was too low {short} of {seen} times");
        world.set_links(LINK);
        world.run(secs(5));
        let clean = world.now();
        world.run(secs(5));
        assert_complete(&world, clean, world.ago(ms(100)));
    });
}

/// A flow of packets that still pass, and are long as well, hides no flow that is stuck.
#[test]
fn fault_i1_a_link_that_shrinks_is_followed_while_other_long_packets_pass() {
    for_seeds(8, |seed| {
        for after in [1_400, 1_280] {
            let mut world = talking(1_050..=FULL, [LINK; 2], Settings::default(), seed);
            world.run(secs(5));
            world.set_links(LINK.with_mtu(after));
            let shrunk = world.now();
            world.run(secs(10));
            assert_complete(&world, shrunk + 2 * FOUND, world.ago(ms(100)));
            Side::BOTH.into_iter().for_each(|side| assert_limit(&world, side, after));
        }
    });
}

/// Release 0.1.0 joins no pieces and answers no sized probe: it gets whole packets of up to 1,420 bytes, as from its own release.
#[test]
fn an_old_peer_gets_whole_packets_from_the_first_one_and_keeps_1420() {
    for_seeds(8, |seed| {
        for first in Side::BOTH {
            let [a, b] = parties();
            let old = Settings { is_old: true, ..Settings::default() };
            let hosts = (taut_host(&a, &b, Settings::default(), 2 * seed), taut_host(&b, &a, old, 2 * seed + 1));
            let mut world = World::new((&a, hosts.0), (&b, hosts.1), LINK, seed);
            world.set_lengths(FULL..=FULL);
            let start = world.now();
            // The old one offers nothing if it is the initiator.
            world.flow(first, ms(50));
            world.run(ms(10));
            Side::BOTH.into_iter().for_each(|side| world.flow(side, ms(50)));
            world.run(secs(60));
            assert_complete(&world, start, world.ago(ms(100)));
            assert_eq!(limit(&world, Side::A), FULL, "seed {seed}, {first:?} first");
            let report = world.a().report(world.now()).expect("the peer has paths");
            assert_eq!(report.verdict, Verdict::TooLong { fits: DEFAULT_MTU }, "until a sized probe was answered");
        }
    });
}
