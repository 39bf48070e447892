//! Hours on a link with loss.

use taut_sim::{Link, Probability, Side};

use crate::{TautWorld, for_seeds, minutes, ms, secs, taut_world};

/// No arrival for this long is not chance: it takes 25 packets in a row that all get lost, one in 10^17 at a loss of 20 %. WireGuard's own limit, after
/// which an unanswered side makes a new session, is 15 s.
const STALL: std::time::Duration = secs(5);

fn rough(loss: u32) -> Link {
    Link::clean(ms(20))
        .with_loss(Probability::percent(loss))
        .with_jitter(ms(30))
        .with_duplication(Probability::percent(10))
}

fn assert_flows(world: &TautWorld, from: taut_base::Time, loss: f64) {
    for side in Side::BOTH {
        let ledger = world.ledger(side);
        let silence = ledger.longest_silence(from, world.now());
        assert!(silence < STALL, "nothing came from {side:?} for {silence:?}");
        let missing = ledger.missing(from, world.now()) as f64 / ledger.sent() as f64;
        assert!((missing - loss).abs() < 0.015, "{missing} of the packets of {side:?} are lost, the wire loses {loss}");
    }
}

#[test]
fn an_hour_with_loss_duplicates_and_reordering_has_no_stall_and_loses_what_the_wire_loses() {
    for (percent, loss) in [(5, 0.05), (20, 0.20)] {
        for_seeds(2, |seed| {
            let mut world = taut_world(rough(percent), seed);
            let start = world.now();
            world.flow(Side::A, ms(200));
            world.flow(Side::B, ms(170));
            world.run(minutes(60));
            assert_flows(&world, start, loss);
            // One session every 120 s, and sometimes one more where a response or the first packet under it was lost.
            assert!((30..=45).contains(&world.a().established()), "{} sessions", world.a().established());
        });
    }
}

#[test]
fn packets_that_overtake_each_other_all_the_time_all_arrive_once() {
    for_seeds(5, |seed| {
        let mut world = taut_world(rough(0).with_jitter(ms(200)), seed);
        world.send(Side::A);
        world.run(secs(2));
        let start = world.now();
        world.flow(Side::A, ms(10));
        world.flow(Side::B, ms(10));
        world.run(secs(60));
        crate::assert_complete(&world, start, start + secs(59));
    });
}

#[test]
fn traffic_resumes_whatever_is_lost_in_bursts() {
    for_seeds(5, |seed| {
        let mut world = taut_world(rough(5), seed);
        world.flow(Side::A, ms(500));
        world.flow(Side::B, ms(500));
        for burst in 1..30 {
            world.run(secs(40 + 7 * burst % 60));
            world.set_links(rough(100));
            world.run(secs(burst));
            world.set_links(rough(0));
            let back = world.now();
            world.run(secs(15));
            for side in Side::BOTH {
                // The next initiation comes after 5 s and its jitter at most.
                let silence = world.ledger(side).longest_silence(back, world.now());
                assert!(silence < secs(7), "{silence:?} of silence from {side:?} after {burst} s without a wire");
            }
            world.set_links(rough(5));
        }
    });
}
