//! Hostile packets at the filter of one peer (faults G4 to G7): millions of them, in all forms, between packets of the host. Each verdict is compared with that of a model that
//! knows how the packet was made and never reads one.
//!
//! `TAUT_THOROUGH=1 cargo test --profile ci -p taut-lane hostile_tests` sends ten million.

mod made;
mod model;

use std::sync::Arc;

use taut_base::{PeerId, Time};
use taut_filter::{FlowTable, Gate, PacketFilter, Services};
use taut_testkit::{Seeded, seeds};
use taut_wire::ip::Packet;

use self::made::Made;
use self::model::Model;
use super::{FRAGMENTED, PeerGate, SOURCES};

const PEER: PeerId = PeerId(7);
/// Packets of one seed. Rules and flows are those of the seed.
const PACKETS: u32 = 10_000;
/// One packet in so many has a wrong bit, so that nothing is known about it.
const DAMAGED: usize = 20;
/// One packet in so many is the host's.
const SENT: usize = 4;

#[test]
fn fault_g4_g5_g6_g7_hostile_packets_meet_the_verdict_of_a_model_and_take_no_memory() {
    let (mut packets, mut passed) = (0_u64, 0_u64);
    for seed in seeds(20, 1_500) {
        let mut both = Both::new(Seeded::new(seed));
        (0..PACKETS).for_each(|_| both.step());
        assert!(both.peer.sources.len() <= SOURCES && both.peer.fragmented.len() <= FRAGMENTED);
        assert!(both.gate.flows.bytes() <= FlowTable::new([0; 16]).bytes() + 64 * 1024, "{}", both.gate.flows.bytes());
        (packets, passed) = (packets + both.received, passed + both.passed);
    }
    println!("{packets} packets of the peer, {passed} passed, 0 wrong verdicts");
    // A test in which nothing passes, or everything, compares nothing.
    assert!(passed > packets / 20 && passed < packets / 2, "{passed} of {packets}");
}

/// The filter and its model, which see the same packets.
struct Both {
    seeded: Seeded,
    gate: Gate,
    peer: PeerGate,
    model: Model,
    second: u32,
    received: u64,
    passed: u64,
}

impl Both {
    fn new(mut seeded: Seeded) -> Self {
        let model = Model::drawn(&mut seeded);
        let filter = Arc::new(PacketFilter::new(&model.filter()));
        let flows = Arc::new(FlowTable::new([9; 16]));
        let gate = Gate { filter, flows, services: Services::default() };
        Self { seeded, gate, peer: PeerGate::default(), model, second: 1_000, received: 0, passed: 0 }
    }

    fn now(&self) -> Time {
        Time::ZERO + std::time::Duration::from_secs(self.second.into())
    }

    fn step(&mut self) {
        if self.seeded.index(SENT) == 0 {
            // Some pauses are longer than the host's connections may be silent.
            let pause = if self.seeded.index(40) == 0 { self.seeded.below_u64(700) as u32 } else { 0 };
            self.second += 1 + pause;
            let made = Made::sent(&mut self.seeded);
            let now = self.now();
            self.peer.sent(&self.gate, PEER, &Packet::parse(&made.bytes).unwrap(), now);
            self.model.sent(&made, self.second);
            // A new flow may take the place of one that is over, which the model keeps.
            assert!(self.gate.flows.len() <= self.model.flows(), "after second {}", self.second);
        } else {
            let before = self.gate.flows.len();
            self.receive();
            assert!(self.gate.flows.len() <= before, "a peer adds no flow");
        }
    }

    fn receive(&mut self) {
        let mut made = Made::received(&mut self.seeded);
        let now = self.now();
        let damaged = self.seeded.index(DAMAGED) == 0;
        if damaged {
            let place = self.seeded.index(made.bytes.len());
            // Addresses stay: the caller of the filter has checked them.
            let addresses = if made.six { 8..40 } else { 12..20 };
            made.bytes[place] ^= if addresses.contains(&place) { 0 } else { 1 << self.seeded.index(8) };
        }
        let Ok(packet) = Packet::parse(&made.bytes) else {
            // Without a whole IP header nothing reaches the filter.
            assert!(damaged || made.is_malformed(), "{made:?}");
            return;
        };
        self.received += 1;
        if damaged {
            // Its verdict may have consequences that the model does not see, so both begin anew.
            self.peer.refusal(&self.gate, PEER, &packet, now);
            let flows = Arc::new(FlowTable::new([9; 16]));
            self.gate = Gate { filter: Arc::clone(&self.gate.filter), flows, services: Services::default() };
            (self.peer, self.second) = (PeerGate::default(), self.second + 1);
            self.model.forget();
            return;
        }
        let refusal = self.peer.refusal(&self.gate, PEER, &packet, now);
        let wanted = self.model.passes(&made, self.second);
        assert_eq!(refusal.is_none(), wanted, "{made:?} in second {}: {refusal:?}; {:?}", self.second, self.model);
        self.passed += u64::from(wanted);
    }
}
