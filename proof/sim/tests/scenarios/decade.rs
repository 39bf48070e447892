//! Years of uptime: the interval of renewals is the same at any time since boot, also where narrow time counters would wrap.

use std::time::Duration;

use taut_base::Time;
use taut_sim::{Link, Settings, Side};

use crate::{TautWorld, minutes, ms, secs, taut_world_with};

const INTERVAL: Duration = ms(500);
const DELAY: Duration = ms(20);
/// The initiator renews with the first packet that finds the session 120 s old. A session counts from the response, a round trip after the
/// packet that asked for it, so the packet 120 s after that one comes 40 ms too early, and the next one 460 ms later.
const RHYTHM: Duration = ms(120_500);

/// Returns the times at which the first host made sessions, during traffic without loss.
fn births(world: &mut TautWorld, duration: Duration) -> Vec<Time> {
    // The first host sends first, so that it starts all sessions.
    world.send(Side::A);
    world.run(secs(1));
    let (start, until) = (world.now(), world.now() + duration);
    world.flow(Side::A, INTERVAL);
    world.flow(Side::B, ms(700));
    let mut births = Vec::new();
    while world.now() < until {
        world.run(secs(1));
        births.extend(world.a().node().peers().find_map(|peer| peer.session));
    }
    for side in Side::BOTH {
        world.stop(side);
    }
    world.run(secs(1));
    crate::assert_complete(world, start, until);
    births.dedup();
    births
}

fn assert_rhythm(births: &[Time], at_least: usize) {
    assert!(births.len() > at_least, "{births:?}");
    for pair in births.windows(2) {
        assert_eq!(pair[1].since(pair[0]), RHYTHM, "{births:?}");
    }
}

/// Returns the number of session indices in use on both sides.
fn kept(world: &TautWorld) -> [usize; 2] {
    [world.a().node().indices_in_use(), world.b().node().indices_in_use()]
}

#[test]
fn fault_m8_ten_years_of_uptime_keep_the_rhythm_and_gather_nothing() {
    let mut world = taut_world_with(Settings::default(), Link::clean(DELAY), 1);
    world.send(Side::A);
    world.run(minutes(10));
    let bounds = kept(&world);
    let mut made = world.a().established();
    // A month of silence, then ten minutes of traffic, for ten years.
    for _ in 0..122 {
        world.sleep(secs(30 * 86_400));
        let births = births(&mut world, minutes(10));
        assert_rhythm(&births, 4);
        assert_eq!(world.a().established() - made, births.len() as u64);
        made = world.a().established();
        world.run(minutes(10));
        assert_eq!(kept(&world), bounds, "after {:?}", world.now().since(Time::ZERO));
    }
    assert_eq!(world.counts(Side::B).initiations, 0);
}

#[test]
fn fault_m8_where_narrower_counters_of_time_wrap_nothing_is_lost_and_the_rhythm_goes_on() {
    // 2^31 and 2^32 microseconds, milliseconds and seconds, 2^53 nanoseconds (a double's), 2^63 nanoseconds, and 584 years: the last hour.
    let (milli, second) = (1_000_000, 1_000_000_000);
    let wraps = [1_000 << 31, 1_000 << 32, milli << 31, milli << 32, 1 << 53, second << 31, second << 32, 1 << 63];
    for wrap in wraps.into_iter().chain([u64::MAX - 3_600 * second]) {
        let mut world = taut_world_with(Settings::default(), Link::clean(DELAY), 1);
        world.sleep(Time(wrap).since(world.now()).saturating_sub(minutes(5)));
        let births = births(&mut world, minutes(10));
        assert_rhythm(&births, 4);
        assert!(births.first() < Some(&Time(wrap)) && births.last() > Some(&Time(wrap)), "across {wrap}");
    }
}
