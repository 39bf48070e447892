//! A hostile member of the network: any messages inside its session with a node, in any order, cost the traffic between the two and nothing else (fault
//! B11).
#![expect(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, as tests do")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, LaneId, Time};
use taut_sim::{Host, LanesHost, Ledger, Party, Seeded, Settings, map_for};
use taut_wire::control::{Abilities, ControlMessage, Endpoints, Lanes, Search, Suite, Suites};
use taut_wire::wireguard::DATA_OVERHEAD;

use crate::{for_seeds, ms};

/// The attacked node, a harmless member, and a hostile one.
const VICTIM: usize = 0;
const BYSTANDER: usize = 1;
const HOSTILE: usize = 2;

/// A datagram in flight: its arrival time, its number, the receiving host and port, its source, and its bytes.
type InFlight = (Time, u64, usize, u16, SocketAddr, Vec<u8>);

/// Three nodes on one wire.
struct Trio {
    parties: [Party; 3],
    hosts: [LanesHost; 3],
    now: Time,
    chance: Seeded,
    delay: Duration,
    wire: BinaryHeap<Reverse<InFlight>>,
    carried: u64,
    /// Percentage of the hostile member's datagrams that are withheld.
    withheld: u64,
    /// Lengths of the datagrams that the victim has sent, by destination address and port.
    seen: BTreeMap<SocketAddr, Vec<usize>>,
    /// Forged source of the hostile member's datagrams, if they are forged.
    forged: Option<SocketAddr>,
    /// Lengths of the datagrams that the victim sent to the bystander at the current time.
    sent: Vec<usize>,
    to_bystander: Ledger,
    to_hostile: Ledger,
}

impl Trio {
    fn new(lanes: [usize; 3], delay: Duration, seed: u64) -> Self {
        let parties = [1, 2, 3].map(Party::new);
        let [victim, bystander, hostile] = &parties;
        let peers: [Vec<&Party>; 3] = [vec![bystander, hostile], vec![victim], vec![victim]];
        let host = |place: usize| {
            let late = vec![Duration::ZERO; lanes[place]];
            let map = map_for(&parties[place], &peers[place]);
            LanesHost::new(&parties[place], map, Settings::default(), &late, 3 * seed + place as u64)
        };
        let hosts = [VICTIM, BYSTANDER, HOSTILE].map(host);
        let book = |to: &Party| {
            let mut ledger = Ledger::new(victim.overlay(), to.overlay());
            ledger.set_flows(6);
            ledger
        };
        Self {
            to_bystander: book(bystander),
            to_hostile: book(hostile),
            hosts,
            now: Time::ZERO + Duration::from_secs(1_000),
            chance: Seeded::new(!seed),
            delay,
            wire: BinaryHeap::new(),
            carried: 0,
            withheld: 0,
            seen: BTreeMap::new(),
            forged: None,
            sent: Vec::new(),
            parties,
        }
    }

    /// Collects the datagrams and the packets that a host sends and delivers.
    fn collect(&mut self, from: usize) {
        while let Some((port, destination, datagram)) = self.hosts[from].poll_transmit_at() {
            if from == VICTIM {
                self.seen.entry(destination).or_default().push(datagram.len());
            }
            let Some(to) = self.parties.iter().position(|party| party.endpoint.ip() == destination.ip()) else {
                continue;
            };
            if (from, to) == (VICTIM, BYSTANDER) {
                self.sent.push(datagram.len());
            }
            if from == HOSTILE && u64::from(self.chance.below(100)) < self.withheld {
                continue;
            }
            let first = self.parties[to].endpoint.port();
            let Some(place) = destination.port().checked_sub(first).filter(|port| *port < self.hosts[to].ports())
            else {
                continue;
            };
            let source = SocketAddr::new(self.parties[from].endpoint.ip(), self.parties[from].endpoint.port() + port);
            let source = self.forged.filter(|_| from == HOSTILE).unwrap_or(source);
            self.carried += 1;
            self.wire.push(Reverse((self.now + self.delay, self.carried, to, place, source, datagram)));
        }
        while let Some(packet) = self.hosts[from].poll_delivered() {
            match from {
                BYSTANDER => self.to_bystander.deliver(&packet, self.now),
                HOSTILE => self.to_hostile.deliver(&packet, self.now),
                _ => {}
            }
        }
    }

    /// Advances the time.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let arrival = self.wire.peek().map(|Reverse((due, ..))| *due);
            let timer = (0..3).filter_map(|place| Some((self.hosts[place].poll_timeout()?, place))).min();
            let Some(due) = arrival.into_iter().chain(timer.map(|(due, _)| due)).min().filter(|due| *due <= end) else {
                break;
            };
            self.now = self.now.max(due);
            let place = if arrival.is_some_and(|arrival| timer.is_none_or(|(timer, _)| arrival <= timer)) {
                let Some(Reverse((_, _, to, port, source, datagram))) = self.wire.pop() else { unreachable!() };
                self.hosts[to].receive_at(port, source, &datagram, self.now);
                to
            } else {
                let (_, place) = timer.unwrap();
                self.hosts[place].handle_timeout(self.now);
                place
            };
            self.collect(place);
        }
        self.now = end;
    }

    /// Sends a packet from the victim's host to the bystander; returns true if it left at the same time.
    fn send_to_bystander(&mut self) -> bool {
        let packet = self.to_bystander.send(self.now);
        self.sent.clear();
        self.hosts[VICTIM].send(&packet, self.now);
        self.collect(VICTIM);
        self.sent.contains(&(packet.len().next_multiple_of(16) + DATA_OVERHEAD))
    }

    fn send_to_hostile(&mut self) {
        let packet = self.to_hostile.send(self.now);
        self.hosts[VICTIM].send(&packet, self.now);
        self.collect(VICTIM);
    }

    /// Sends a message of the hostile member on one of its lanes.
    fn say(&mut self) {
        let lane = LaneId(u8::try_from(self.chance.below(3)).unwrap());
        let message = some_message(&mut self.chance);
        self.hosts[HOSTILE].say(lane, message, self.now);
        self.collect(HOSTILE);
    }

    /// Both nodes have a session with the victim.
    fn meet(&mut self) {
        for _ in 0..200 {
            self.send_to_bystander();
            self.send_to_hostile();
            self.run(ms(10));
        }
    }
}

fn some_lanes(chance: &mut Seeded) -> Lanes {
    let ports: Vec<u16> = (0..chance.below(16)).map(|_| u16::try_from(8_288 + chance.below(6)).unwrap()).collect();
    Lanes::with_ports(&ports)
}

/// The address of the hostile member, with its port or a neighbouring one.
fn some_place(chance: &mut Seeded) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 3], u16::try_from(8_286 + chance.below(5)).unwrap()))
}

/// Any kind of control message, with any contents.
fn some_message(chance: &mut Seeded) -> ControlMessage {
    let suite = if chance.below(2) == 0 { Suite::ChaCha20Poly1305 } else { Suite::Aes256Gcm };
    match chance.below(7) {
        0 => ControlMessage::Offer { lanes: some_lanes(chance), suites: Suites::STOCK, abilities: Abilities::OURS },
        1 => ControlMessage::Accept { lanes: some_lanes(chance), suite, abilities: Abilities::OURS },
        2 => ControlMessage::Probe { id: chance.next_u64() },
        3 => ControlMessage::Answer { id: chance.next_u64(), seen: SocketAddr::from(([192, 0, 2, 3], 8_288)) },
        4 => ControlMessage::Receipt {
            suite,
            counter: chance.next_u64() >> chance.below(64),
            longest: chance.next_u32().to_le_bytes()[0].into(),
        },
        5 => {
            let (serial, heard) = (chance.next_u32(), chance.next_u32());
            let places: Vec<SocketAddr> = (0..chance.below(9)).map(|_| some_place(chance)).collect();
            ControlMessage::Endpoints(Endpoints::new(serial, heard, u8::try_from(chance.below(7)).unwrap(), places))
        }
        _ => ControlMessage::Search(Search {
            from: some_place(chance),
            step: u8::try_from(chance.below(3)).unwrap(),
            ports: 1_024,
            sockets: 256,
        }),
    }
}

#[test]
fn fault_b11_whatever_a_member_says_packets_to_another_one_leave_at_once_and_in_order() {
    for_seeds(40, |seed| {
        let mut chance = Seeded::new(seed);
        let lanes = [[1, 1, 3], [1, 1, 3], [2, 1, 3], [3, 2, 16]][chance.below(4) as usize];
        let mut trio = Trio::new(lanes, [ms(0), ms(1), ms(11)][chance.below(3) as usize], seed);
        trio.meet();
        // A steady rate and an unsteady one; answers that arrive, that arrive sometimes, and that never arrive.
        let (pace, withheld) = ([1, 1, 20][chance.below(3) as usize], [0, 30, 90][chance.below(3) as usize]);
        trio.withheld = withheld;
        let mut late = 0;
        for step in 0..6_000 {
            for _ in 0..chance.below(pace + 1) {
                trio.say();
            }
            if chance.below(4) > 0 {
                trio.send_to_hostile();
            }
            // Nobody but the bystander affects its lanes: it has one lane here, or its lanes are open by now.
            late += usize::from(!trio.send_to_bystander());
            trio.run(ms(1));
            assert_eq!(late, 0, "after {step} ms a packet to the bystander waited");
        }
        trio.withheld = 0;
        trio.run(Duration::from_secs(10));
        assert_eq!(trio.to_bystander.sent(), trio.to_bystander.arrived());
        assert_eq!(trio.to_bystander.overtaken(), 0, "packets were overtaken");
        // The member is served again once it behaves.
        for _ in 0..100 {
            trio.send_to_hostile();
            trio.run(ms(10));
        }
        assert!(trio.to_hostile.arrived_of(ms(100), trio.now), "nothing reaches the member any more");
    });
}

#[test]
fn fault_d16_lanes_that_a_member_names_are_probed_within_the_budget_of_its_probes() {
    let mut trio = Trio::new([1, 1, 1], ms(1), 1);
    trio.meet();
    trio.seen.clear();
    let lanes = Lanes::with_ports(&(9_000..9_015).collect::<Vec<_>>());
    let offer = ControlMessage::Offer { lanes, suites: Suites::STOCK, abilities: Abilities::OURS };
    for _ in 0..1_000 {
        trio.hosts[HOSTILE].say(LaneId::FIRST, offer, trio.now);
        trio.collect(HOSTILE);
        trio.run(ms(10));
    }
    let probes: usize = trio.seen.iter().filter(|(place, _)| place.port() >= 9_000).map(|(_, sent)| sent.len()).sum();
    // A burst of 60, then 20 a second for ten seconds.
    assert!((15..=60 + 200).contains(&probes), "{probes} probes in ten seconds");
}

#[test]
fn fault_d16_an_offer_is_not_answered_by_more_than_it_has_where_nobody_has_proven_to_be() {
    let mut trio = Trio::new([16, 1, 1], ms(1), 1);
    trio.meet();
    let elsewhere = SocketAddr::from(([203, 0, 113, 7], 7));
    trio.seen.clear();
    trio.forged = Some(elsewhere);
    let offer = ControlMessage::Offer { lanes: Lanes::ONE, suites: Suites::STOCK, abilities: Abilities::OURS };
    trio.hosts[HOSTILE].say(LaneId::FIRST, offer, trio.now);
    trio.collect(HOSTILE);
    trio.forged = None;
    trio.run(ms(100));
    let (probe, answer) = (32 + DATA_OVERHEAD, 48 + DATA_OVERHEAD);
    let sent = trio.seen.get(&elsewhere).cloned().unwrap_or_default();
    assert!(sent.iter().all(|length| *length == probe), "nothing but probes: {sent:?}");
    let home = trio.seen.get(&trio.parties[HOSTILE].endpoint).cloned().unwrap_or_default();
    assert!(home.contains(&answer), "the answer goes where the member is: {home:?}");
}
