//! Wall clocks that are wrong, jump, or go back. Timers use the time since boot; only the timestamps of initiations use the wall clock.

use std::time::Duration;

use taut_sim::{Host, Link, Probability, Side, TautHost, World};
use taut_wire::icmp::{Echo, EchoKind};

use crate::{TautWorld, for_seeds, minutes, ms, native, parties, secs, taut_world};

const TEN_YEARS: Duration = secs(3_652 * 86_400);

/// Jumps of a clock, each from the time that the jump before left.
fn jumps(now: Duration) -> [Duration; 5] {
    [now + TEN_YEARS, now - TEN_YEARS, Duration::ZERO, now, now + 2 * TEN_YEARS]
}

/// Traffic in both directions while the clock of one host jumps every ten minutes; each side makes some of the sessions.
fn flows_on<B: Host>(mut world: World<TautHost, B>, first: Side, set: impl Fn(&mut World<TautHost, B>, Duration)) {
    world.run(ms(10));
    world.send(first);
    world.run(secs(1));
    let start = world.now();
    world.flow(Side::A, ms(500));
    world.flow(Side::B, ms(700));
    let now = world.a().wall_clock(start);
    for wall in jumps(now) {
        let sessions = world.a().established();
        set(&mut world, wall);
        world.run(minutes(10));
        let made = world.a().established() - sessions;
        assert!((4..=5).contains(&made), "{made} sessions in ten minutes after the jump to {wall:?}");
    }
    crate::assert_complete(&world, start, world.ago(secs(1)));
    assert_eq!(world.counts(first.other()).initiations, 0, "nobody missed an answer");
}

#[test]
fn fault_m1_a_wall_clock_that_jumps_in_mid_flow_loses_nothing_and_renews_as_before() {
    for first in Side::BOTH {
        flows_on(taut_world(Link::clean(ms(20)), 1), first, |world: &mut TautWorld, wall| {
            world.with_a(|host, now| host.set_wall_clock(wall, now));
        });
        flows_on(native::world(Link::clean(ms(20)), 1), first, |world, wall| {
            world.with_a(|host, now| host.set_wall_clock(wall, now));
        });
    }
}

/// Some traffic, so that the peer has accepted timestamps of today; then silence until the sessions are gone.
fn acquainted<B: Host>(world: &mut World<TautHost, B>) {
    world.run(ms(10));
    world.flow(Side::A, secs(1));
    world.run(minutes(5));
    world.stop(Side::A);
    world.run(minutes(10));
}

/// Reboots the first host with its clock at `wall`. Returns true if its first packet arrives within three seconds.
fn heard_after_reboot<B: Host>(world: &mut World<TautHost, B>, wall: Duration) -> bool {
    world.with_a(|host, now| {
        host.set_wall_clock(wall, now);
        host.restart(now);
    });
    let packet = world.ledger(Side::A).sent();
    world.send(Side::A);
    world.run(secs(3));
    world.ledger(Side::A).arrival(packet).is_some()
}

/// Reboots without a clock, with a clock that is behind, and with a correct one: the peer accepts each, because timestamps continue from the stored ceiling.
fn is_heard_after_each_reboot<B: Host>(mut world: World<TautHost, B>) {
    acquainted(&mut world);
    let today = world.a().wall_clock(world.now());
    for wall in [Duration::ZERO, today - TEN_YEARS, Duration::ZERO, today, today - secs(1)] {
        assert!(heard_after_reboot(&mut world, wall), "the clock at {wall:?}");
        world.run(minutes(20));
    }
}

#[test]
fn fault_m2_a_reboot_with_a_clock_in_the_past_is_heard_by_a_taut_peer_and_by_a_stock_one() {
    for_seeds(3, |seed| {
        is_heard_after_each_reboot(taut_world(Link::clean(ms(20)), seed));
        is_heard_after_each_reboot(native::world(Link::clean(ms(20)), seed));
    });
}

/// When both the clock and the file are lost, the used timestamps are unknown. The peer ignores the host's initiations until the peer itself starts a
/// handshake, which needs no timestamp of the host.
fn is_heard_again_once_spoken_to<B: Host>(mut world: World<TautHost, B>) {
    acquainted(&mut world);
    let today = world.a().wall_clock(world.now());
    world.with_a(|host, _| host.lose_stamps());
    assert!(!heard_after_reboot(&mut world, Duration::ZERO), "the peer took a stamp of 1970 for a new one");
    let (start, first) = (world.now(), world.ledger(Side::B).sent());
    world.send(Side::B);
    world.run(secs(6));
    assert!(world.ledger(Side::B).arrival(first).is_some_and(|arrival| arrival.since(start) < secs(6)));
    let packet = world.ledger(Side::A).sent();
    world.send(Side::A);
    world.run(secs(1));
    assert!(world.ledger(Side::A).arrival(packet).is_some(), "the session of the peer carries both ways");
    // The host is accepted as soon as its clock is correct.
    assert!(heard_after_reboot(&mut world, today + minutes(90)));
}

#[test]
fn fault_m2_a_reboot_with_clock_and_stamps_lost_is_healed_by_the_peers_first_packet() {
    is_heard_again_once_spoken_to(taut_world(Link::clean(ms(20)), 1));
    is_heard_again_once_spoken_to(native::world(Link::clean(ms(20)), 1));
}

/// Time since boot that stands still, or goes back by minutes as with a broken hypervisor: no panic, and no side treats it as a long time.
#[test]
fn fault_m4_a_time_since_boot_that_goes_back_breaks_nothing() {
    let link = Link::clean(ms(20));
    let mut world = taut_world(link, 1);
    world.send(Side::A);
    world.run(secs(1));
    for back in [Duration::ZERO, ms(1), secs(10), minutes(3)] {
        let start = world.now();
        world.flow(Side::A, ms(500));
        world.flow(Side::B, ms(700));
        world.run(secs(130));
        crate::assert_complete(&world, start, world.ago(secs(1)));
        let initiations = world.counts(Side::A).initiations;
        // Packets that the host sends meanwhile are lost and in no ledger.
        world.set_links(link.with_loss(Probability::ALWAYS));
        let packet = echo();
        let earlier = world.ago(back);
        world.with_a(|host, _| {
            host.handle_timeout(earlier);
            host.send(&packet, earlier);
            host.receive(([198, 51, 100, 66], 666).into(), &packet, earlier);
        });
        world.with_b(|host, _| host.handle_timeout(earlier));
        assert_eq!(world.counts(Side::A).initiations, initiations, "{back:?} back is no age");
        world.set_links(link);
    }
}

/// Sends a packet from the first host to the second.
fn echo() -> Vec<u8> {
    let [a, b] = parties();
    let mut packet = vec![0; 60];
    let echo = Echo { kind: EchoKind::Request, ident: 1, sequence: 1, payload: &[0; 32] };
    assert_eq!(echo.write_packet(a.overlay(), b.overlay(), &mut packet), Ok(60));
    packet
}
