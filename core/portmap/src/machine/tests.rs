//! The machine in front of simulated gateways: honest ones, and those of fault D15.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use proptest::prelude::*;
use taut_base::Time;

use super::{
    BACK_OFF, FetchError, Gateway, GatewaySocket, LossReason, MIN_INTERVAL, PortMapper, PortmapEvent, PortmapOutput,
};
use crate::http::{Answer, HttpError};
use crate::status::{Protocol, ProtocolStatus};
use crate::{LEASE, nat_pmp, pcp, ssdp};

const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);
const OWN: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 5);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(5, 5, 5, 9);
const START: Time = Time(1_000_000_000_000);

/// A simulated gateway: the protocols that it speaks, and its answers.
#[derive(Clone)]
struct Router {
    pcp: bool,
    nat_pmp: bool,
    upnp: bool,
    /// True if its port for PCP and NAT-PMP is closed rather than silent.
    closed: bool,
    outside: Ipv4Addr,
    /// The outer port is the inner one plus this.
    shift: u16,
    /// The granted lease in seconds; `None` grants the requested one.
    lease: Option<u32>,
    /// When it was started.
    started: Time,
    /// Bodies of its UPnP pages and answers, by a word of the request.
    description: String,
    /// UPnP's error codes for the next calls that add a mapping.
    errors: Vec<u16>,
    status: u16,
    /// Its mappings: inner port, outer port.
    mapped: Vec<(u16, u16)>,
    heard: u32,
}

impl Router {
    fn new() -> Self {
        let description = "<service><serviceType>urn:schemas-upnp-org:service:WANIPConnection:1</serviceType>\
            <controlURL>/ctl</controlURL></service>";
        Self {
            pcp: false,
            nat_pmp: false,
            upnp: false,
            closed: false,
            outside: OUTSIDE,
            shift: 0,
            lease: None,
            started: Time::ZERO,
            description: String::from(description),
            errors: Vec::new(),
            status: 200,
            mapped: Vec::new(),
            heard: 0,
        }
    }

    fn epoch(&self, now: Time) -> u32 {
        u32::try_from(now.since(self.started).as_secs()).unwrap()
    }

    fn map(&mut self, port: u16, lease: u32) -> (u16, u32) {
        let outside = port.wrapping_add(self.shift);
        self.mapped.retain(|(other, _)| *other != port);
        if lease > 0 {
            self.mapped.push((port, outside));
        }
        (outside, if lease == 0 { 0 } else { self.lease.unwrap_or(lease) })
    }

    /// Returns the answer to a datagram on the port of PCP and NAT-PMP.
    fn datagram(&mut self, bytes: &[u8], now: Time) -> Option<Vec<u8>> {
        self.heard += 1;
        let epoch = self.epoch(now).to_be_bytes();
        match (bytes.first().copied().unwrap_or(9), bytes.len()) {
            (2, pcp::MAP_LEN) if self.pcp => {
                let port = u16::from_be_bytes([bytes[40], bytes[41]]);
                let (outside, lease) = self.map(port, u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]));
                let mut reply = bytes.to_vec();
                (reply[1], reply[3]) = (0x81, 0);
                reply[4..8].copy_from_slice(&lease.to_be_bytes());
                reply[8..12].copy_from_slice(&epoch);
                reply[42..44].copy_from_slice(&outside.to_be_bytes());
                reply[44..60].copy_from_slice(&self.outside.to_ipv6_mapped().octets());
                Some(reply)
            }
            (2, _) if self.nat_pmp => Some([&[0, 0x81, 0, 1][..], &epoch].concat()),
            (0, 2) if self.nat_pmp => Some([&[0, 128, 0, 0][..], &epoch, &self.outside.octets()].concat()),
            (0, 12) if self.nat_pmp => {
                let port = u16::from_be_bytes([bytes[4], bytes[5]]);
                let (outside, lease) = self.map(port, u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]));
                Some([&[0, 129, 0, 0][..], &epoch, &bytes[4..6], &outside.to_be_bytes(), &lease.to_be_bytes()].concat())
            }
            _ => None,
        }
    }

    fn page(&mut self, request: &str) -> Result<Answer, FetchError> {
        self.heard += 1;
        let number = |name: &str| -> u16 {
            request
                .split(name)
                .nth(1)
                .and_then(|rest| rest.split('<').next())
                .and_then(|text| text.parse().ok())
                .unwrap()
        };
        let body = if request.starts_with("GET") {
            self.description.clone()
        } else if request.contains("#GetExternalIPAddress") {
            let outside = self.outside;
            format!(
                "<u:GetExternalIPAddressResponse><NewExternalIPAddress>{outside}</NewExternalIPAddress></u:GetExternalIPAddressResponse>"
            )
        } else if let (true, false) = (request.contains("#Add"), self.errors.is_empty()) {
            let body = format!("<errorCode>{}</errorCode>", self.errors.remove(0));
            return Ok(Answer { status: 500, body: body.into_bytes() });
        } else if request.contains("#AddPortMapping") {
            self.mapped.push((number("<NewInternalPort>"), number("<NewExternalPort>")));
            String::from("<u:AddPortMappingResponse/>")
        } else {
            let outside = number("<NewExternalPort>");
            self.mapped.retain(|(_, other)| *other != outside);
            String::from("<u:DeletePortMappingResponse/>")
        };
        Ok(Answer { status: self.status, body: body.into_bytes() })
    }
}

type Random = Box<dyn FnMut(&mut [u8])>;

/// A machine and its gateway in virtual time.
struct World {
    machine: PortMapper<Random>,
    router: Router,
    now: Time,
    /// Mappings that were made and lost.
    events: Vec<PortmapEvent>,
    /// Changes of a protocol's status.
    answered: Vec<(Protocol, ProtocolStatus)>,
    /// The protocol of each datagram that was sent.
    asked: Vec<Protocol>,
}

impl World {
    fn new(router: Router, ports: &[u16]) -> Self {
        let mut seed = 0_u8;
        let entropy: Random = Box::new(move |bytes| {
            bytes.iter_mut().for_each(|byte| {
                seed = seed.wrapping_mul(97).wrapping_add(13);
                *byte = seed;
            });
        });
        let machine = PortMapper::new(entropy, vec!["100.64.0.0/10".parse().unwrap()]);
        let mut world =
            Self { machine, router, now: START, events: Vec::new(), answered: Vec::new(), asked: Vec::new() };
        world.machine.set_ports(ports, START);
        world.machine.set_gateway(Some(Gateway { address: GATEWAY, own: OWN }), START);
        world
    }

    /// Carries out the machine's outputs while time passes.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.act();
            match self.machine.poll_timeout() {
                Some(next) if next <= end => {
                    assert!(next > self.now || self.machine.poll_output().is_none(), "the machine spins");
                    self.now = self.now.max(next);
                    self.machine.handle_timeout(self.now);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn act(&mut self) {
        let mut steps = 0;
        while let Some(output) = self.machine.poll_output() {
            steps += 1;
            assert!(steps < 1_000, "the machine acts without end");
            match output {
                PortmapOutput::Send { socket: GatewaySocket::Pcp, to, bytes } => {
                    assert_eq!(to, SocketAddrV4::new(GATEWAY, pcp::PORT));
                    self.asked.push(if bytes[0] == 2 { Protocol::Pcp } else { Protocol::NatPmp });
                    if self.router.closed {
                        self.machine.handle_closed(self.now);
                    } else if let Some(reply) = self.router.datagram(&bytes, self.now) {
                        self.machine.handle_datagram(GatewaySocket::Pcp, to.into(), &reply, self.now);
                    }
                }
                PortmapOutput::Send { socket: GatewaySocket::Ssdp, to, .. } => {
                    assert!(to == ssdp::GROUP || *to.ip() == GATEWAY);
                    self.asked.push(Protocol::Upnp);
                    if self.router.upnp {
                        let reply = format!("HTTP/1.1 200 OK\r\nLOCATION: http://{GATEWAY}:5000/root.xml\r\n\r\n");
                        let from = SocketAddr::from((GATEWAY, 1900));
                        self.machine.handle_datagram(GatewaySocket::Ssdp, from, reply.as_bytes(), self.now);
                    }
                }
                PortmapOutput::Fetch { id, place, request } => {
                    assert_eq!(*place.ip(), GATEWAY);
                    let answer = self.router.page(&String::from_utf8(request).unwrap());
                    self.machine.handle_answer(id, answer, self.now);
                }
                PortmapOutput::Event(PortmapEvent::Answered { protocol, status }) => {
                    self.answered.push((protocol, status));
                }
                PortmapOutput::Event(event) => self.events.push(event),
            }
        }
    }

    fn outsides(&self) -> Vec<String> {
        let mappings = self.machine.report().mappings;
        mappings.iter().map(|mapping| format!("{} {}", mapping.outside, mapping.protocol)).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn pcp_maps_every_port_and_nothing_else_is_used() {
    let mut world = World::new(Router { pcp: true, nat_pmp: true, upnp: true, ..Router::new() }, &[8288, 8289]);
    world.run(5 * SECOND);
    assert_eq!(world.outsides(), ["5.5.5.9:8288 pcp", "5.5.5.9:8289 pcp"]);
    assert_eq!(world.machine.report().protocol(Protocol::Pcp).status, ProtocolStatus::Serves);
    assert!(!world.asked.contains(&Protocol::Upnp));
    assert_eq!(world.router.mapped, [(8288, 8288), (8289, 8289)]);
}

#[test]
fn nat_pmp_serves_where_pcp_is_not_spoken() {
    let mut world = World::new(Router { nat_pmp: true, upnp: true, shift: 100, ..Router::new() }, &[8288, 8289]);
    world.run(5 * SECOND);
    assert_eq!(world.outsides(), ["5.5.5.9:8388 nat-pmp", "5.5.5.9:8389 nat-pmp"]);
    assert!(matches!(world.machine.report().protocol(Protocol::Pcp).status, ProtocolStatus::Refused(_)));
}

#[test]
fn upnp_is_tried_at_once_when_the_port_of_pcp_is_closed() {
    for closed in [false, true] {
        let mut world = World::new(Router { upnp: true, closed, ..Router::new() }, &[8288, 8289]);
        world.run(if closed { Duration::ZERO } else { 2 * SECOND });
        assert_eq!(world.outsides(), ["5.5.5.9:8288 upnp", "5.5.5.9:8289 upnp"], "closed: {closed}");
    }
}

#[test]
fn without_any_protocol_the_machine_backs_off_and_tries_again() {
    let mut world = World::new(Router::new(), &[8288]);
    world.run(10 * SECOND);
    let asked = world.asked.len();
    assert!(world.events.is_empty() && asked > 0 && asked < 20, "{asked}");
    assert!(world.machine.report().protocols.iter().all(|protocol| protocol.status == ProtocolStatus::Silent));
    world.run(BACK_OFF / 2);
    assert_eq!(world.asked.len(), asked);
    world.router.pcp = true;
    world.machine.check(world.now);
    world.run(SECOND);
    assert_eq!(world.outsides(), ["5.5.5.9:8288 pcp"]);
}

#[test]
fn a_mapping_is_renewed_at_half_its_lease_or_lost() {
    for mut router in [Router::new(), Router::new(), Router::new()].into_iter().enumerate().map(|(kind, mut router)| {
        [&mut router.pcp, &mut router.nat_pmp, &mut router.upnp][kind].clone_from(&true);
        router
    }) {
        router.started = START;
        let mut world = World::new(router, &[8288]);
        world.run(5 * SECOND);
        world.events.clear();
        world.run(LEASE * 3);
        assert!(world.events.len() >= 5, "{:?}", world.events);
        assert!(world.events.iter().all(|event| matches!(event, PortmapEvent::Mapped(_))));
        (world.router.pcp, world.router.nat_pmp, world.router.upnp) = (false, false, false);
        world.router.status = 404;
        world.run(LEASE + SECOND);
        assert_eq!(world.events.last(), Some(&PortmapEvent::Lost { port: 8288, reason: LossReason::Expired }));
        assert!(world.machine.report().mappings.is_empty());
    }
}

#[test]
fn a_restarted_gateway_is_asked_for_everything_again() {
    for (pcp, nat_pmp) in [(true, false), (false, true)] {
        let mut world = World::new(Router { pcp, nat_pmp, ..Router::new() }, &[8288, 8289]);
        world.run(60 * SECOND);
        world.router.mapped.clear();
        world.router.started = world.now;
        // One port is due for any reason; its answer shows the restart.
        world.machine.slots[0].next = world.now;
        world.run(5 * SECOND);
        assert_eq!(world.router.mapped, [(8288, 8288), (8289, 8289)]);
    }
}

#[test]
fn ports_that_are_not_needed_any_more_are_given_back() {
    for kind in 0..3 {
        let mut router = Router::new();
        [&mut router.pcp, &mut router.nat_pmp, &mut router.upnp][kind].clone_from(&true);
        let mut world = World::new(router, &[8288, 8289]);
        world.run(5 * SECOND);
        world.machine.set_ports(&[8289], world.now);
        world.run(SECOND);
        assert_eq!(world.router.mapped, [(8289, 8289)], "{kind}");
        assert_eq!(world.events.last(), Some(&PortmapEvent::Lost { port: 8288, reason: LossReason::GivenBack }));
        world.machine.set_ports(&[], world.now);
        world.run(5 * SECOND);
        assert!(world.router.mapped.is_empty() && world.machine.is_quiet(), "{kind}");
        assert_eq!(world.machine.poll_timeout(), None);
    }
}

#[test]
fn a_silent_gateway_does_not_delay_the_end() {
    let mut world = World::new(Router { pcp: true, ..Router::new() }, &[8288]);
    world.run(5 * SECOND);
    world.router.pcp = false;
    world.machine.set_ports(&[], world.now);
    world.run(2 * SECOND);
    assert!(world.machine.is_quiet());
}

#[test]
fn another_gateway_is_asked_from_the_start() {
    let mut world = World::new(Router { pcp: true, ..Router::new() }, &[8288]);
    world.run(5 * SECOND);
    world.machine.set_gateway(None, world.now);
    world.run(SECOND);
    assert_eq!(world.events.last(), Some(&PortmapEvent::Lost { port: 8288, reason: LossReason::GatewayChanged }));
    assert_eq!((world.machine.report().gateway, world.machine.poll_timeout()), (None, None));
    world.machine.set_gateway(Some(Gateway { address: GATEWAY, own: OWN }), world.now);
    world.run(SECOND);
    assert_eq!(world.outsides(), ["5.5.5.9:8288 pcp"]);
}

#[test]
fn upnp_accepts_another_port_and_a_permanent_mapping() {
    let errors = vec![718, 725, 718];
    let mut world = World::new(Router { upnp: true, closed: true, errors, ..Router::new() }, &[8288]);
    world.run(SECOND);
    assert_eq!(world.router.mapped.len(), 1);
    let (port, outside) = world.router.mapped[0];
    assert!(port == 8288 && outside != 8288 && outside >= 1_024);
    assert_eq!(world.outsides(), [format!("5.5.5.9:{outside} upnp")]);
}

#[test]
fn fault_d15_outer_endpoints_that_may_not_be_sent_to_are_never_passed_on() {
    let odd = ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "169.254.169.254", "100.64.0.7"];
    for outside in odd.map(|text| text.parse().unwrap()) {
        for kind in 0..3 {
            let mut router = Router { outside, closed: kind == 2, ..Router::new() };
            [&mut router.pcp, &mut router.nat_pmp, &mut router.upnp][kind].clone_from(&true);
            let mut world = World::new(router, &[8288]);
            world.run(10 * SECOND);
            assert!(world.events.is_empty(), "{outside} {:?}", world.events);
            assert!(world.router.mapped.is_empty(), "{outside}: what is of no use is given back");
            assert!(matches!(world.machine.report().protocols[kind].status, ProtocolStatus::Unusable(_)), "{outside}");
        }
    }
    // Port 0.
    let mut world = World::new(Router { pcp: true, shift: 0_u16.wrapping_sub(8288), ..Router::new() }, &[8288]);
    world.run(10 * SECOND);
    assert!(world.events.is_empty());
}

#[test]
fn fault_d15_leases_are_believed_within_bounds() {
    let mut world = World::new(Router { pcp: true, lease: Some(u32::MAX), ..Router::new() }, &[8288]);
    world.run(SECOND);
    assert!(world.machine.report().mappings[0].until <= world.now + LEASE);
    for lease in [1, 119] {
        let mut world = World::new(Router { pcp: true, lease: Some(lease), ..Router::new() }, &[8288]);
        world.run(Duration::from_secs(3_600));
        assert!(world.events.is_empty());
        assert!(world.router.heard < 100, "asked {} times in an hour", world.router.heard);
    }
}

#[test]
fn fault_d15_a_gateway_that_always_claims_a_restart_does_not_set_the_pace() {
    for (pcp, nat_pmp) in [(true, false), (false, true)] {
        let mut world = World::new(Router { pcp, nat_pmp, ..Router::new() }, &[8288, 8289, 8290]);
        for _ in 0..120 {
            // The gateway's count never leaves 0.
            world.router.started = world.now;
            world.machine.check(world.now);
            world.run(30 * SECOND);
        }
        let rounds = 3_600 / u32::try_from(MIN_INTERVAL.as_secs()).unwrap();
        assert!(world.router.heard <= rounds * 3 * 2, "asked {} times in an hour", world.router.heard);
    }
}

#[test]
fn fault_d15_messages_of_other_hosts_are_dropped() {
    let mut world = World::new(Router::new(), &[8288]);
    let mut honest = Router { pcp: true, nat_pmp: true, ..Router::new() };
    let reply = honest.datagram(&nat_pmp::ADDRESS_REQUEST, START).unwrap();
    for from in ["192.168.1.2:5351", "192.168.1.1:5352", "[::ffff:192.168.1.1]:5351"] {
        world.machine.handle_datagram(GatewaySocket::Pcp, from.parse().unwrap(), &reply, START);
    }
    let found = format!("HTTP/1.1 200 OK\r\nLOCATION: http://{GATEWAY}:5000/\r\n\r\n");
    world.run(2 * SECOND);
    world.machine.handle_datagram(
        GatewaySocket::Ssdp,
        "192.168.1.2:1900".parse().unwrap(),
        found.as_bytes(),
        world.now,
    );
    world.run(10 * SECOND);
    assert_eq!((world.events.len(), world.machine.report().foreign_messages), (0, 4));
}

#[test]
fn fault_d15_pcp_without_the_nonce_is_ignored() {
    let mut world = World::new(Router::new(), &[8288]);
    let Some(PortmapOutput::Send { bytes, .. }) = world.machine.poll_output() else { panic!("nothing was asked") };
    let mut reply = Router { pcp: true, ..Router::new() }.datagram(&bytes, START).unwrap();
    reply[24] ^= 1;
    world.machine.handle_datagram(GatewaySocket::Pcp, SocketAddr::from((GATEWAY, pcp::PORT)), &reply, START);
    let mapped = |machine: &mut PortMapper<Random>| {
        std::iter::from_fn(|| machine.poll_output())
            .filter(|output| matches!(output, PortmapOutput::Event(PortmapEvent::Mapped(_))))
            .count()
    };
    assert_eq!(mapped(&mut world.machine), 0);
    reply[24] ^= 1;
    world.machine.handle_datagram(GatewaySocket::Pcp, SocketAddr::from((GATEWAY, pcp::PORT)), &reply, START);
    assert_eq!(mapped(&mut world.machine), 1);
}

#[test]
fn fault_d15_a_url_on_another_host_is_not_fetched() {
    let mut world = World::new(Router { closed: true, ..Router::new() }, &[8288]);
    world.act();
    let reply = b"HTTP/1.1 200 OK\r\nLOCATION: http://10.9.9.9:80/\r\n\r\n";
    world.machine.handle_datagram(GatewaySocket::Ssdp, SocketAddr::from((GATEWAY, 1900)), reply, world.now);
    // `act` would reject a fetch from another address.
    world.run(10 * SECOND);
    assert!(matches!(world.machine.report().protocol(Protocol::Upnp).status, ProtocolStatus::Unusable(_)));
    let router = Router { upnp: true, closed: true, status: 302, ..Router::new() };
    let mut world = World::new(router, &[8288]);
    world.run(10 * SECOND);
    assert!(world.events.is_empty());
}

#[test]
fn fault_d15_pages_that_come_slowly_or_never_end_take_bounded_time() {
    for failure in [FetchError::TooSlow, FetchError::NoConnection, FetchError::Http(HttpError::TooLong)] {
        let mut world = World::new(Router { closed: true, ..Router::new() }, &[8288]);
        world.act();
        for page in 0..50 {
            let reply = format!("HTTP/1.1 200 OK\r\nLOCATION: http://{GATEWAY}:5000/{page}\r\n\r\n");
            world.machine.handle_datagram(
                GatewaySocket::Ssdp,
                SocketAddr::from((GATEWAY, 1900)),
                reply.as_bytes(),
                world.now,
            );
        }
        let mut fetches = 0;
        for _ in 0..60 {
            while let Some(output) = world.machine.poll_output() {
                if let PortmapOutput::Fetch { id, .. } = output {
                    fetches += 1;
                    world.now = world.now + 5 * SECOND;
                    world.machine.handle_answer(id, Err(failure), world.now);
                }
            }
            world.now = world.now + SECOND;
            world.machine.handle_timeout(world.now);
        }
        assert_eq!(fetches, super::upnp::MAX_PAGES, "{failure:?}");
        assert!(matches!(world.machine.stage, super::Stage::BackOff { .. }));
    }
}

/// An input to the machine.
#[derive(Clone, Debug)]
enum Step {
    Datagram(bool, Vec<u8>),
    /// The last datagram that was sent is returned, with some bytes replaced by these.
    Echo(Vec<(usize, u8)>),
    Answer(u16, String),
    Fail,
    Closed,
    Pass(u64),
    Ports(Vec<u16>),
    Gateway(bool),
    Check,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = prop_oneof![
        Just(Router::new().description),
        Just(String::from("<a:GetExternalIPAddressResponse><NewExternalIPAddress>5.5.5.9</NewExternalIPAddress>")),
        Just(String::from("<AddPortMappingResponse/>")),
        (700_u16..730).prop_map(|code| format!("<errorCode>{code}</errorCode>")),
        ".{0,60}",
    ];
    let step = prop_oneof![
        (any::<bool>(), prop::collection::vec(any::<u8>(), 0..70)).prop_map(|(pcp, bytes)| Step::Datagram(pcp, bytes)),
        Just(Step::Datagram(false, format!("HTTP/1.1 200 OK\r\nLOCATION: http://{GATEWAY}:80/\r\n\r\n").into_bytes())),
        prop::collection::vec((0_usize..60, any::<u8>()), 0..6).prop_map(Step::Echo),
        (200_u16..=200, page).prop_map(|(status, body)| Step::Answer(status, body)),
        Just(Step::Fail),
        Just(Step::Closed),
        (0_u64..4_000_000).prop_map(Step::Pass),
        prop::collection::vec(any::<u16>(), 0..20).prop_map(Step::Ports),
        any::<bool>().prop_map(Step::Gateway),
        Just(Step::Check),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn fault_d15_whatever_happens_memory_is_bounded_and_only_good_candidates_come_out(steps in steps()) {
        let mut world = World::new(Router::new(), &[8288]);
        let (mut last, mut open) = (Vec::new(), None);
        for step in steps {
            let from = |port: u16| SocketAddr::from((GATEWAY, port));
            match step {
                Step::Datagram(true, bytes) => world.machine.handle_datagram(GatewaySocket::Pcp, from(pcp::PORT), &bytes, world.now),
                Step::Datagram(false, bytes) => world.machine.handle_datagram(GatewaySocket::Ssdp, from(1900), &bytes, world.now),
                Step::Echo(changes) => {
                    let mut reply = Router { pcp: true, nat_pmp: true, ..Router::new() }.datagram(&last, world.now).unwrap_or_default();
                    for (place, byte) in changes {
                        reply.iter_mut().skip(place).take(1).for_each(|old| *old = byte);
                    }
                    world.machine.handle_datagram(GatewaySocket::Pcp, from(pcp::PORT), &reply, world.now);
                }
                Step::Answer(status, body) => if let Some(id) = open.take() {
                    world.machine.handle_answer(id, Ok(Answer { status, body: body.into_bytes() }), world.now);
                },
                Step::Fail => if let Some(id) = open.take() {
                    world.machine.handle_answer(id, Err(FetchError::TooSlow), world.now);
                },
                Step::Closed => world.machine.handle_closed(world.now),
                Step::Pass(milliseconds) => {
                    world.now = world.now + Duration::from_millis(milliseconds);
                    world.machine.handle_timeout(world.now);
                }
                Step::Ports(ports) => world.machine.set_ports(&ports, world.now),
                Step::Gateway(there) => {
                    let gateway = there.then_some(Gateway { address: GATEWAY, own: OWN });
                    world.machine.set_gateway(gateway, world.now);
                }
                Step::Check => world.machine.check(world.now),
            }
            let mut outputs = 0;
            while let Some(output) = world.machine.poll_output() {
                outputs += 1;
                match output {
                    PortmapOutput::Send { socket: GatewaySocket::Pcp, to, bytes } => {
                        prop_assert_eq!(*to.ip(), GATEWAY);
                        last = bytes;
                    }
                    PortmapOutput::Fetch { id, place, .. } => {
                        prop_assert_eq!(*place.ip(), GATEWAY);
                        open = Some(id);
                    }
                    PortmapOutput::Event(PortmapEvent::Mapped(mapping)) => {
                        prop_assert!(taut_path::acceptable(mapping.outside, &world.machine.overlay));
                        prop_assert!(mapping.until <= world.now + LEASE);
                    }
                    PortmapOutput::Send { .. } | PortmapOutput::Event(_) => {}
                }
            }
            prop_assert!(outputs < 200, "{outputs} outputs at once");
            prop_assert!(world.machine.slots.len() <= crate::MAX_PORTS && world.machine.releases.len() <= 2 * crate::MAX_PORTS);
            if let Some(next) = world.machine.poll_timeout().filter(|next| *next <= world.now) {
                // Nothing is left to do: another call at the same moment changes nothing.
                world.machine.handle_timeout(world.now);
                prop_assert!(world.machine.poll_timeout().is_none_or(|later| later > world.now), "{next:?} stays due");
            }
        }
    }
}

#[test]
fn a_status_is_reported_when_it_changes_and_not_each_time_it_is_asked_for() {
    let mut world = World::new(Router::new(), &[8288]);
    world.run(20 * BACK_OFF);
    let silent = Protocol::ALL.map(|protocol| (protocol, ProtocolStatus::Silent));
    assert_eq!(world.answered, silent, "in each of twenty rounds");
    world.router.pcp = true;
    world.run(2 * BACK_OFF);
    assert_eq!(world.answered[3..], [(Protocol::Pcp, ProtocolStatus::Serves)]);
}
