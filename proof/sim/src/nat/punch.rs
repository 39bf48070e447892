//! The best possible hole punching between two hosts: all addresses are known, rounds are unlimited, and ports are guessed within a budget.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;

use taut_base::{Entropy, Time};

use crate::nat::internet::{HostId, Internet};
use crate::nat::verdict::Reach;
use taut_testkit::Seeded;

/// Rounds in which both hosts send to all addresses that they know. Two rounds open the filters and get an answer; further ones serve addresses learned on
/// the way.
const ROUNDS: usize = 4;

/// Port of a host's first socket. Further sockets have the following ports.
const PORT: u16 = 8288;

/// The limits of guessing.
#[derive(Clone, Copy, Debug)]
pub struct PunchBudget {
    /// Maximum number of sockets that one host opens.
    pub sockets: u16,
    /// Maximum number of ports that one host tries.
    pub ports: u16,
}

/// 256 open ports of 64,512 and 1,024 tries hit in 98 of 100 cases: 1 - (1 - 256/64512)^1024. A home router's table has room for both numbers.
pub const BUDGET: PunchBudget = PunchBudget { sockets: 256, ports: 1024 };

/// Returns the best path that `a` and `b` find in this internet when `servers` report their external endpoints: direct, direct by guessing within `budget`,
/// or none. `seed` determines the guesses, which fail now and then.
pub fn punch(
    net: &mut Internet,
    (a, b): (HostId, HostId),
    servers: (HostId, HostId),
    budget: PunchBudget,
    seed: u64,
) -> Reach {
    let mut party = [Puncher::new(a), Puncher::new(b)];
    for puncher in &mut party {
        puncher.ask(net, servers);
    }
    if exchange(net, &mut party) {
        return Reach::Direct;
    }
    // From here on, guessing starts from scratch with two other sockets.
    let mut party = [Puncher::guessing(a, &party[0]), Puncher::guessing(b, &party[1])];
    for puncher in &mut party {
        puncher.ask(net, servers);
    }
    guess(net, &mut party, budget, seed);
    if exchange(net, &mut party) { Reach::Guess } else { Reach::Relay }
}

/// The time of all events. Nothing expires because no time passes.
const NOW: Time = Time(1_000_000_000_000);

struct Puncher {
    host: HostId,
    /// The host's sockets, by port.
    ports: Vec<u16>,
    /// The external endpoints of the first socket as the servers see them, in order.
    seen: Vec<SocketAddrV4>,
    /// Endpoints where the other host may be. Every socket sends to all of them.
    targets: BTreeSet<SocketAddrV4>,
    /// The host's own port and the source endpoint of each datagram that arrived from the other host.
    heard: BTreeSet<(u16, SocketAddrV4)>,
}

impl Puncher {
    fn new(host: HostId) -> Self {
        Self { host, ports: vec![PORT], seen: Vec::new(), targets: BTreeSet::new(), heard: BTreeSet::new() }
    }

    fn guessing(host: HostId, before: &Self) -> Self {
        let next = before.ports.last().map_or(PORT, |port| port + 1);
        Self { ports: vec![next], ..Self::new(host) }
    }

    /// Asks both servers, at two ports each, for the external endpoint of the first socket.
    fn ask(&mut self, net: &mut Internet, servers: (HostId, HostId)) {
        for server in [servers.0, servers.1] {
            for port in [3478, 3479] {
                let destination = SocketAddrV4::new(net.address(server), port);
                if let Ok(delivery) = net.carry(self.host, self.ports[0], destination, NOW) {
                    self.seen.push(delivery.source);
                }
            }
        }
    }

    /// Returns the known endpoints of the other host, without guesses: its own addresses, and those that servers see.
    fn known(&self, net: &Internet) -> impl Iterator<Item = SocketAddrV4> {
        let own = SocketAddrV4::new(net.address(self.host), self.ports[0]);
        std::iter::once(own).chain(self.seen.iter().copied())
    }

    fn is_hard(&self) -> bool {
        self.seen.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// Returns the step between successive external ports, if it is constant.
    fn step(&self) -> Option<u16> {
        let steps: BTreeSet<u16> =
            self.seen.windows(2).map(|pair| pair[1].port().wrapping_sub(pair[0].port())).collect();
        steps.first().copied().filter(|step| steps.len() == 1 && (1..=8).contains(step))
    }

    /// Returns the host's external endpoint for its `number`-th new destination from now.
    fn foretold(&self, step: u16, number: u16) -> Option<SocketAddrV4> {
        let last = self.seen.last()?;
        Some(SocketAddrV4::new(*last.ip(), last.port().wrapping_add(step.wrapping_mul(number))))
    }
}

/// Sends from both hosts to all known and learned endpoints. Returns true if a datagram was answered.
fn exchange(net: &mut Internet, party: &mut [Puncher; 2]) -> bool {
    for (own, other) in [(0, 1), (1, 0)] {
        let known: Vec<_> = party[other].known(net).collect();
        party[own].targets.extend(known);
    }
    for _ in 0..ROUNDS {
        for own in 0..2 {
            let from = &party[own];
            let everywhere = from.ports.iter().flat_map(|port| from.targets.iter().map(|target| (*port, *target)));
            let sent: Vec<_> = from.heard.iter().copied().chain(everywhere).collect();
            for (port, target) in sent {
                if send(net, party, own, port, target) {
                    return true;
                }
            }
        }
    }
    false
}

/// Sends one datagram. Returns true if it arrived at the other host and answers a datagram that came the same way.
fn send(net: &mut Internet, party: &mut [Puncher; 2], own: usize, port: u16, target: SocketAddrV4) -> bool {
    let other = 1 - own;
    let Ok(delivery) = net.carry(party[own].host, port, target, NOW) else { return false };
    if delivery.to != party[other].host || !party[other].ports.contains(&delivery.destination.port()) {
        return false;
    }
    party[other].heard.insert((delivery.destination.port(), delivery.source));
    party[own].heard.contains(&(port, target))
}

/// Opens sockets and sends to ports that may be the right ones.
fn guess(net: &mut Internet, party: &mut [Puncher; 2], budget: PunchBudget, seed: u64) {
    let mut chance = Seeded::new(seed);
    match [0, 1].map(|own| (party[own].is_hard(), party[own].step())) {
        [(true, Some(one)), (true, Some(two))] => foretell_both(net, party, one, two),
        [(true, _), (true, _)] => gamble(net, party, budget, &mut chance),
        [(true, Some(step)), _] => foretell(net, party, 0, step),
        [_, (true, Some(step))] => foretell(net, party, 1, step),
        [(true, None), _] => birthday(net, party, 0, budget, &mut chance),
        [_, (true, None)] => birthday(net, party, 1, budget, &mut chance),
        _ => {}
    }
}

/// Number of next ports of the hard side that are tried.
const FORETOLD: u16 = 16;

fn foretell(net: &mut Internet, party: &mut [Puncher; 2], hard: usize, step: u16) {
    let known = 1 - hard;
    for number in 1..=FORETOLD {
        if let Some(target) = party[hard].foretold(step, number) {
            party[known].targets.insert(target);
            send(net, party, known, party[known].ports[0], target);
        }
    }
}

/// Predicts the ports of both sides: the n-th datagram of each side goes from its n-th port to the other side's n-th port.
fn foretell_both(net: &mut Internet, party: &mut [Puncher; 2], one: u16, two: u16) {
    for number in 1..=FORETOLD {
        let targets = [party[1].foretold(two, number), party[0].foretold(one, number)];
        for own in 0..2 {
            if let Some(target) = targets[own] {
                party[own].targets.insert(target);
                send(net, party, own, party[own].ports[0], target);
            }
        }
    }
}

/// Opens many sockets on the hard side towards the known address of the other side, which tries random ports.
fn birthday(net: &mut Internet, party: &mut [Puncher; 2], hard: usize, budget: PunchBudget, chance: &mut Seeded) {
    let known = 1 - hard;
    let (Some(there), Some(here)) = (party[known].seen.first().copied(), party[hard].seen.first().copied()) else {
        return;
    };
    open(net, party, hard, budget, |_| there);
    for _ in 0..budget.ports {
        let target = SocketAddrV4::new(*here.ip(), any_port(chance));
        party[known].targets.insert(target);
        send(net, party, known, party[known].ports[0], target);
    }
}

/// Guesses ports at random on both sides, when both are hard.
fn gamble(net: &mut Internet, party: &mut [Puncher; 2], budget: PunchBudget, chance: &mut Seeded) {
    for own in 0..2 {
        let Some(there) = party[1 - own].seen.first().copied() else { return };
        let step = party[1 - own].step();
        let last = party[1 - own].seen.last().copied().unwrap_or(there);
        open(net, party, own, budget, |number| match step {
            Some(step) => {
                SocketAddrV4::new(*there.ip(), last.port().wrapping_add(step.wrapping_mul(number % FORETOLD + 1)))
            }
            None => SocketAddrV4::new(*there.ip(), any_port(chance)),
        });
    }
}

fn open(
    net: &mut Internet,
    party: &mut [Puncher; 2],
    own: usize,
    budget: PunchBudget,
    mut target: impl FnMut(u16) -> SocketAddrV4,
) {
    let first = party[own].ports[0];
    for number in 1..budget.sockets {
        let port = first + number;
        party[own].ports.push(port);
        let target = target(number);
        send(net, party, own, port, target);
    }
}

fn any_port(chance: &mut Seeded) -> u16 {
    u16::try_from(1024 + chance.below(64_512)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
