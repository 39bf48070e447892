//! A relay in the world: the real rules of a relay ([`taut_relay::Server`], [`Forward`]), with STUN at two ports.

use std::collections::VecDeque;
use std::net::SocketAddr;

use taut_base::{PrivateKey, PublicKey, RelayId, Time};
use taut_noise::public_key;
use taut_relay::{
    ClientAddress, Credentials, Forward, ForwardRate, NetworkTag, RelayLimits, Server, ServerClocks, ServerOutput,
    SigningKey, Terms, Ticket,
};
use taut_wire::stun::{BindingRequest, BindingResponse, MAX_ANSWER_LEN};

use crate::party::Party;
use crate::station::Station;
use crate::wall::WALL_AT_START;
use taut_testkit::Seeded;

/// The network that all tickets are for.
const NETWORK: NetworkTag = NetworkTag([7; 16]);

/// Rate limit of a client, 1 Gbit/s: no scenario reaches it.
const SHARE: ForwardRate = ForwardRate::bits_per_second(1_000_000_000);

/// A relay of the network, as the coordinator lists it.
#[derive(Clone)]
pub struct SimRelay {
    number: u8,
    /// The address with the first port. STUN answers at this port and the next one.
    pub address: SocketAddr,
}

impl SimRelay {
    /// Creates relay `number`, at an address of its own.
    pub fn new(number: u8) -> Self {
        Self { number, address: SocketAddr::from(([198, 51, 100, number], 3478)) }
    }

    /// Returns the number in the map.
    pub fn id(&self) -> RelayId {
        RelayId(u32::from(self.number))
    }

    fn key(&self) -> PrivateKey {
        PrivateKey::from_bytes([0xa0 + self.number; 32])
    }

    /// Returns the public key that the map lists.
    pub fn public(&self) -> PublicKey {
        public_key(&self.key())
    }

    /// Returns the entry in the map.
    pub fn listed(&self) -> taut_netmap::Relay {
        taut_netmap::Relay {
            id: self.id(),
            name: format!("relay-{}", self.number),
            key: self.public(),
            endpoints: vec![self.address],
            stun_port: self.address.port() + 1,
            web: None,
            busy: false,
        }
    }

    /// Starts the relay.
    pub fn start(&self, seed: u64) -> RelayStation {
        let mut chance = Seeded::new(seed);
        let mut bytes = [0; 32];
        taut_base::Entropy::fill(&mut chance, &mut bytes);
        let server = Server::new(self.key(), vec![coordinator().verifying()], RelayLimits::DEFAULT, bytes);
        RelayStation { me: self.clone(), server, forward: Forward::new(SHARE), chance, out: VecDeque::new() }
    }
}

/// Returns the key that signs tickets.
fn coordinator() -> SigningKey {
    SigningKey::from_seed([0xc0; 32]).expect("any 32 bytes are a key")
}

/// Returns the credentials that a member binds with. They are valid for any scenario.
pub fn credentials(member: &Party) -> Credentials {
    let bind = PrivateKey::from_bytes([0xb0 + member.number; 32]);
    let not_before = WALL_AT_START.as_secs();
    let terms = Terms {
        network: NETWORK,
        id: None,
        node: member.public(),
        bind: public_key(&bind),
        not_before,
        expires: not_before + 72 * 3600,
    };
    Credentials { bind, ticket: Ticket::sign(&terms, &coordinator()), numbered: None }
}

/// A running relay.
pub struct RelayStation {
    me: SimRelay,
    server: Server,
    forward: Forward,
    chance: Seeded,
    out: VecDeque<(u16, SocketAddr, Vec<u8>)>,
}

impl RelayStation {
    fn answer_stun(&mut self, port: u16, source: SocketAddr, request: &BindingRequest) {
        let other = SocketAddr::new(self.me.address.ip(), self.me.address.port() + 1 - port);
        let mut bytes = [0; MAX_ANSWER_LEN];
        let answer = BindingResponse { transaction: request.transaction, mapped: source, other: Some(other) };
        let length = answer.write(&mut bytes);
        let from = if request.change_port { 1 - port } else { port };
        self.out.push_back((from, source, bytes[..length].to_vec()));
    }

    fn take(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                ServerOutput::Change(change) => self.forward.apply(&change),
                ServerOutput::Reply(reply) => {
                    if let ClientAddress::Udp(address) = reply.address {
                        self.out.push_back((0, address, reply.as_bytes().to_vec()));
                    }
                }
            }
        }
    }
}

impl Station for RelayStation {
    fn receive(&mut self, port: u16, source: SocketAddr, datagram: &[u8], now: Time) {
        if let Ok(request) = BindingRequest::parse(datagram) {
            return self.answer_stun(port.min(1), source, &request);
        }
        let place = ClientAddress::Udp(source);
        if port != 0 {
            return;
        }
        let mut frame = datagram.to_vec();
        let forwarded = self.forward.lane_at(&place).and_then(|from| self.forward.forward(from, &mut frame, now).ok());
        if let Some(ClientAddress::Udp(to)) = forwarded {
            self.out.push_back((0, to, frame));
        } else {
            let clocks = ServerClocks { now, wall: WALL_AT_START.saturating_add(now.since(Time::ZERO)) };
            // The server counts refused frames.
            let _ = self.server.handle_frame(place, None, datagram, clocks, &mut self.chance);
            self.take();
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.server.handle_timeout(now);
        self.take();
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.server.poll_timeout()
    }

    fn poll_transmit(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)> {
        self.out.pop_front()
    }
}
