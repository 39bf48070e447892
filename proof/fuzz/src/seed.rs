//! Seeds of the corpora: real messages and packets, a few of each kind.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use taut_base::{NodeId, PrivateKey, PublicKey};
use taut_netmap::{JoinToken, RelayToken, ToNode};
use taut_sim::{Link, Party, Settings, Side, TautHost, World, map_for};
use taut_wire::control::{self, Abilities, ControlMessage, Endpoints, Lanes, Search, Suite, Suites};
use taut_wire::icmp::{Echo, EchoKind};
use taut_wire::stun::{BindingRequest, BindingResponse, MAX_ANSWER_LEN, REQUEST_LEN};
use taut_wire::vnet::{self, VnetHeader};

use crate::input::piece;
use crate::lane::PEER_ADDRESS;
use crate::relay;
use crate::superpackets::{make_partial, repair};

/// Returns the seeds of a target's corpus; none for an unknown name.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "wireguard" => datagrams().into_iter().chain([[&[3, 0, 0, 0], [7; 60].as_slice()].concat()]).collect(),
        "control" => control_messages(),
        "stun" => stun_messages(),
        "relay-frame" => relay::frames(),
        "relay-ticket" => tickets(),
        "relay" => relay_scripts(),
        "relay-member" => member_scripts(),
        "packet" => packets(),
        "checksum" => vec![Vec::new(), vec![0xff; 33], (0..64).collect(), vec![0; 20]],
        "split" => superpackets(),
        "pieces" => crate::pieces::seeds(&[four(6, &syn()), six(6, &syn()), six(17, &udp(1_400)), four(17, &udp(900))]),
        "merge" => trains(),
        "lane" => lanes(),
        "session" => sessions(),
        "records" => records(),
        "text" => ["100.64.0.0/10", "fd00:7a07::/48", "my-host.example", "AAECAw==", "_-8", &key().to_string()]
            .map(bytes)
            .to_vec(),
        "release" => crate::release::seeds(),
        "toml" => crate::settings_file::seeds(),
        "json" => crate::json::seeds(),
        "signature" => crate::signature::seeds(),
        "token" => tokens(),
        "url" => ["http://10.0.0.1:8288", "https://taut.example/vpn/", "http://[fd00::1]:80", " HTTP://a "]
            .map(bytes)
            .to_vec(),
        "uapi" => uapi(),
        "to-node" => to_node(),
        "to-coordinator" => to_coordinator(),
        "relay-channel" => relay_channel(),
        "map" => maps(),
        "state-file" => vec![Vec::new(), bytes("\u{1}\u{2}{}"), taut_control::fuzzing::whole_file(b"{\"a\":1}\n")],
        "identity" => identities(),
        "event-log" => event_logs(),
        "local-api" => local_api(),
        "netlink" => netlink(),
        "gateway-datagram" => crate::portmap::datagrams(),
        "gateway-http" => crate::portmap::answers(),
        "gateway-xml" => crate::portmap::pages(),
        "dns" => crate::dns::message_seeds(),
        "dns-stub" => crate::dns::stub_seeds(),
        "forwarded" => crate::forwarded::header_seeds(),
        "proxy-header" => crate::forwarded::start_seeds(),
        "proxy-client" => crate::proxy::seeds(),
        "websocket" => crate::websocket::seeds(),
        "policy" => crate::policy::seeds(),
        "portmap" => crate::portmap::scripts(),
        "http" => http(),
        _ => Vec::new(),
    }
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn key() -> PublicKey {
    Party::new(2).public()
}

/// Bytes of the longest datagram of a session that is a seed, 400: more than all messages without padding.
const LONGEST_SEED: usize = 400;

/// The messages of two nodes from the first packet to the first keepalive.
fn datagrams() -> Vec<Vec<u8>> {
    let (a, b) = (Party::new(1), Party::new(2));
    let host = |me: &Party, other: &Party| TautHost::new(me, map_for(me, &[other]), Settings::default(), 1);
    let link = Link::clean(Duration::from_millis(1));
    let mut world = World::new((&a, host(&a, &b)), (&b, host(&b, &a)), link, 3);
    world.record();
    world.send(Side::B);
    world.run(Duration::from_secs(12));
    let all = world.take_history().into_iter().map(|recorded| recorded.datagram);
    // Messages of one kind and length are alike, and so are sized probes of any length: one of each is a seed.
    let mut known = std::collections::BTreeSet::new();
    all.filter(|datagram| datagram.len() <= LONGEST_SEED && known.insert((datagram[0], datagram.len()))).collect()
}

/// One control message of each kind.
fn control_messages() -> Vec<Vec<u8>> {
    let suite = Suite::Aes256Gcm;
    let messages = [
        ControlMessage::Offer {
            lanes: Lanes::with_ports(&[8289, 8290, 40_000]),
            suites: Suites::STOCK.with(suite),
            abilities: Abilities::OURS,
        },
        ControlMessage::Accept { lanes: Lanes::ONE, suite, abilities: Abilities::OURS },
        ControlMessage::Probe { id: 7 },
        ControlMessage::Answer { id: 7, seen: SocketAddr::from(([192, 0, 2, 1], 8288)) },
        ControlMessage::Answer { id: 8, seen: SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 8288)) },
        ControlMessage::Receipt { suite, counter: 1 << 40, longest: 7 },
        ControlMessage::Endpoints(Endpoints::new(
            9,
            8,
            2,
            [SocketAddr::from(([192, 0, 2, 1], 8288)), SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 8288))],
        )),
        ControlMessage::Search(Search {
            from: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            step: 1,
            ports: 1_024,
            sockets: 256,
        }),
    ];
    let bytes = |message: ControlMessage| {
        let mut bytes = [0; control::MAX];
        let length = message.write(&mut bytes);
        bytes[..length].to_vec()
    };
    messages.map(bytes).to_vec()
}

/// Requests and answers of STUN, and a request as other implementations send it.
fn stun_messages() -> Vec<Vec<u8>> {
    let transaction = *b"twelve bytes";
    let addresses = [SocketAddr::from(([192, 0, 2, 1], 8288)), SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 3479))];
    let request = |change_port| {
        let mut bytes = [0; REQUEST_LEN];
        BindingRequest { transaction, change_port }.write(&mut bytes);
        bytes.to_vec()
    };
    let answer = |mapped, other| {
        let mut bytes = [0; MAX_ANSWER_LEN];
        let length = BindingResponse { transaction, mapped, other }.write(&mut bytes);
        bytes[..length].to_vec()
    };
    let stock = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42], transaction.as_slice()].concat();
    let [four, six] = addresses;
    vec![request(false), request(true), answer(four, None), answer(four, Some(six)), answer(six, Some(four)), stock]
}

/// A ticket as bytes and as text.
fn tickets() -> Vec<Vec<u8>> {
    let bind = PrivateKey::from_bytes([9; 32]);
    let tickets = [relay::ticket_of(1, &bind), relay::numbered_of(1, NodeId(7), &bind)];
    tickets.iter().flatten().flat_map(|ticket| [ticket.as_bytes().to_vec(), bytes(&ticket.to_string())]).collect()
}

/// Frames to the relay, frames to forward, and frames to each client.
fn relay_scripts() -> Vec<Vec<u8>> {
    let script = |kinds: [u8; 2]| {
        let frames = relay::frames()
            .into_iter()
            .flat_map(move |frame| kinds.map(|kind| [&[kind], piece(&frame).as_slice()].concat()));
        frames.collect::<Vec<_>>().concat()
    };
    vec![script([0, 1]), script([4, 2]), script([5, 0])]
}

/// Messages of a member from its own address and from others, messages of the relay to it, and binds.
fn member_scripts() -> Vec<Vec<u8>> {
    let word = |kind: u8, message: u8| {
        let mut piece = vec![kind, message];
        piece.resize(1 + 40, 7);
        piece
    };
    let words = |kind: u8| (1..=17).map(|message| word(kind, message)).collect::<Vec<_>>().concat();
    let moves = |kind: u8| [word(kind, 1), vec![2, 200, 0], word(kind, 11), word(12, 1)].concat();
    let bind = |kind: u8, seconds: u8, numbered: u8| vec![kind, seconds, 0, numbered];
    let binds =
        [bind(3, 9, 0), bind(7, 10, 1), bind(15, 11, 1), bind(3, 8, 0), vec![2, 0, 40], bind(3, 12, 1), word(8, 1)];
    // Lane 1 is asked for at another address, is given back, and is asked for again where the member reads.
    let lane = |kind: u8, message: u8| {
        let mut piece = word(kind, message);
        piece[2] = 1;
        piece
    };
    let lanes =
        [lane(4, 12), lane(20, 12), lane(0, 16), lane(16, 12), lane(16, 14), lane(1, 13), lane(1, 15), word(2, 0)];
    let all = [words(0), words(1), words(12), words(16)];
    all.into_iter().chain([[moves(4), moves(8), moves(12)].concat(), binds.concat(), lanes.concat()]).collect()
}

fn tcp(flags: u8, payload: usize) -> Vec<u8> {
    let header = [0x9c, 0x40, 1, 0xbb, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, flags, 2, 0, 0, 0, 0, 0];
    header.into_iter().chain((0..payload).map(|place| place.to_le_bytes()[0])).collect()
}

fn udp(payload: usize) -> Vec<u8> {
    let [high, low] = u16::try_from(8 + payload).unwrap_or(8).to_be_bytes();
    [0x9c, 0x40, 0, 53, high, low, 0, 0].into_iter().chain((0..payload).map(|place| place.to_le_bytes()[0])).collect()
}

fn four(protocol: u8, message: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(20 + message.len()).unwrap_or(20).to_be_bytes();
    let mut packet = vec![0x45, 0, high, low, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0];
    packet.extend(PEER_ADDRESS);
    packet.extend([100, 64, 0, 1]);
    packet.extend(message);
    repair(&mut packet);
    packet
}

fn six(next: u8, message: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(message.len()).unwrap_or(0).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, high, low, next, 64];
    for host in [2, 1] {
        packet.extend([0xfd, 0, 0x7a, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    packet.extend(message);
    repair(&mut packet);
    packet
}

fn packets() -> Vec<Vec<u8>> {
    let echo = Echo { kind: EchoKind::Request, ident: 7, sequence: 1, payload: b"taut" };
    let mut room = [0; 64];
    let length = echo.write_packet(PEER_ADDRESS.into(), [100, 64, 0, 1].into(), &mut room).unwrap_or(0);
    let mut fragment = four(17, &udp(16));
    fragment[6..8].copy_from_slice(&[0x20, 1]);
    let options = [&[17, 0, 1, 4, 0, 0, 0, 0], udp(4).as_slice()].concat();
    let fragment_header = [&[17, 0, 0, 9, 0, 0, 0, 1], udp(4).as_slice()].concat();
    let routing = [&[6, 0, 4, 0, 0, 0, 0, 0], tcp(0x10, 4).as_slice()].concat();
    vec![
        room[..length].to_vec(),
        four(6, &tcp(0x18, 10)),
        four(17, &udp(5)),
        fragment,
        six(6, &tcp(0x10, 9)),
        six(17, &udp(6)),
        six(60, &options),
        six(44, &fragment_header),
        six(43, &routing),
    ]
}

fn superpackets() -> Vec<Vec<u8>> {
    let with = |gso_type, packet: Vec<u8>, start, offset, hdr_len| {
        let flags = vnet::NEEDS_CSUM;
        let header = VnetHeader { flags, gso_type, hdr_len, gso_size: 100, csum_start: start, csum_offset: offset };
        [&header.encode(), packet.as_slice()].concat()
    };
    let options = [&[17, 0, 1, 4, 0, 0, 0, 0], udp(250).as_slice()].concat();
    vec![
        with(vnet::GSO_TCPV4, four(6, &tcp(0x99, 450)), 20, 16, 40),
        with(vnet::GSO_TCPV6 | vnet::GSO_ECN, six(6, &tcp(0x91, 300)), 40, 16, 60),
        with(vnet::GSO_UDP_L4, four(17, &udp(350)), 20, 6, 28),
        with(vnet::GSO_UDP_L4, six(17, &udp(200)), 40, 6, 48),
        with(vnet::GSO_UDP_L4, six(60, &options), 48, 6, 56),
        with(vnet::GSO_NONE, four(6, &tcp(0x10, 20)), 20, 16, 40),
        [&VnetHeader::NONE.encode(), six(17, &udp(9)).as_slice()].concat(),
    ]
}

/// The first packet of a TCP connection, with its options.
fn syn() -> Vec<u8> {
    let mut syn = tcp(0x02, 0);
    syn.extend([2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]);
    syn[12] = 0xa0;
    syn
}

/// For `merge`: a packet and the packets that follow it.
fn trains() -> Vec<Vec<u8>> {
    let train = |packet: &[u8], how: &[u8]| {
        let mut script = [&[0, how[0]], piece(packet).as_slice()].concat();
        script.extend(&how[1..]);
        script
    };
    let short = four(6, &tcp(0x18, 7));
    // The fourth and last packet of its flow: its sequence number is 3 * 90 bytes after the first one's.
    let mut finished = four(6, &tcp(0x11, 90));
    finished[26..28].copy_from_slice(&(0x100_u16 + 270).to_be_bytes());
    repair(&mut finished);
    vec![
        train(&four(6, &tcp(0x10, 100)), &[1, 2, 2, 2, 2]),
        train(&six(6, &tcp(0x18, 60)), &[1, 2, 6, 2, 10, 2]),
        train(&four(17, &udp(50)), &[1, 2, 2, 2]),
        train(&six(17, &udp(1)), &[1, 2, 2, 6, 2]),
        [train(&four(6, &tcp(0x10, 90)), &[1, 2, 2, 1]), piece(&finished)].concat(),
        [train(&four(6, &tcp(0x90, 100)), &[1, 2, 2, 1]), piece(&short)].concat(),
        [vec![0], packets().iter().flat_map(|packet| [vec![1], piece(packet)].concat()).collect()].concat(),
        train(&four(6, &tcp(0x10, 80)), &[17, 18, 18, 2, 18, 18]),
        train(&six(17, &udp(40)), &[17, 18, 18, 26, 18]),
    ]
}

fn lanes() -> Vec<Vec<u8>> {
    let good = four(6, &tcp(0x10, 40));
    let stranger =
        |bytes: &[u8]| [&[0], u16::try_from(bytes.len()).unwrap_or(0).to_le_bytes().as_slice(), &piece(bytes)].concat();
    let peer = |count: u8, packet: &[u8]| [&[1, count], piece(packet).as_slice()].concat();
    let altered = |place: u8, mask: u8| [&[2, place, 0, mask], piece(&good).as_slice()].concat();
    let outbound = [&[5], piece(&[&VnetHeader::NONE.encode(), good.as_slice()].concat()).as_slice()].concat();
    let mut partial = good.clone();
    assert!(make_partial(&mut partial), "the packet is plain TCP");
    let mut seeds: Vec<_> = datagrams().iter().map(|datagram| stranger(datagram)).collect();
    seeds.push([peer(0, &good), vec![3, 0, 3, 0], altered(5, 0), altered(20, 1), altered(8, 0x80)].concat());
    seeds.push([peer(7, &six(17, &udp(9))), peer(3, &good), vec![4, 0x10, 0x27], outbound].concat());
    seeds.push(packets().iter().flat_map(|packet| peer(1, packet)).collect());
    // Under AES: unmarked, marked, marked although the checksum is complete; marked under WireGuard's own suite.
    seeds.push([peer(0x83, &good), peer(0xc3, &partial), peer(0xc0, &good), peer(0x41, &partial)].concat());
    // In pieces, marked and unmarked.
    let in_pieces = [peer(0x08, &good), peer(0xc8, &partial), peer(0x28, &six(17, &udp(90)))].concat();
    seeds.push([in_pieces, peer(0, &[0x10, 0, 2, 0, 9, 9, 9, 9, 40, 0, 0x45]), peer(0x08, &good)].concat());
    // Through the relay: packets, a frame whose packet belongs to no session, a message of the relay itself, a STUN answer.
    let relay = |bytes: &[u8]| {
        let size = u16::try_from(bytes.len()).unwrap_or(0) | 0x8000;
        [&[0], size.to_le_bytes().as_slice(), &piece(bytes)].concat()
    };
    let frame = [&[0x80, 0, 0, 0, 7, 0, 0, 0], datagrams()[0].as_slice()].concat();
    let stun = [&[1, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[9; 12]].concat();
    let packets = [peer(0x23, &good), peer(0xa1, &six(17, &udp(9))), peer(0, &good)].concat();
    seeds.push([packets, relay(&frame), relay(&frame[..8]), relay(&[0x83; 40]), relay(&stun)].concat());
    seeds
}

fn sessions() -> Vec<Vec<u8>> {
    let alter = |side: u8, number: u8, place: u8, mask: u8, cut: u8, from: u8| {
        vec![2 | side, number, place, 0, mask, cut, from]
    };
    // For side B the kind is the remainder of 0x80 + kind divided by 6; that of 0x80 alone is 2.
    vec![
        [vec![0, 1, 0xe8, 3], alter(0, 0, 0, 0, 0, 0), alter(0, 1, 9, 1, 0, 1), alter(0, 2, 0, 0, 3, 2)].concat(),
        [vec![0, 1, 20, 0, 0x82, 1, 200, 0], alter(0, 3, 20, 0x80, 0, 2), vec![4, 0, 1, 0xff, 0xff]].concat(),
        [vec![0, 0x84, 1, 30, 0], alter(0, 0, 116, 1, 0, 2), vec![5, 200, 0, 1, 0xff, 0xff]].concat(),
        [&[0, 1, 10, 0, 3, 2], piece(&datagrams()[0]).as_slice(), &[0, 1, 0, 9]].concat(),
    ]
}

fn records() -> Vec<Vec<u8>> {
    let step =
        |how: u8, place: u8, mask: u8, content: &[u8]| [&[how, place, 0, mask], piece(content).as_slice()].concat();
    let good = step(0, 0, 0, b"");
    let opened = [good.clone(), good.clone()].concat();
    vec![
        [opened.clone(), step(0, 0, 0, b"{\"type\":\"pong\"}"), step(0, 0, 0, b""), step(1, 2, 1, b"x")].concat(),
        [opened, step(2, 7, 0, b"cut")].concat(),
        step(1, 40, 4, b""),
        [good, step(3, 0, 0, &[9; 48])].concat(),
    ]
}

fn tokens() -> Vec<Vec<u8>> {
    let urls = vec![String::from("http://10.0.0.1:8288"), String::from("https://taut.example")];
    let token = JoinToken { network: [1; 16], coordinator: key(), urls, secret: [3; 32] };
    let mut body = vec![7; 16 + 32 + 32];
    body.extend([2, 3, b'a', b':', b'/', 1, b'b']);
    let urls = vec![String::from("https://taut.example")];
    let relay = RelayToken { coordinator: key(), tickets: [9; 32], proof: [8; 64], urls };
    vec![
        bytes(&token.encode()),
        body,
        bytes("taut2-AAAA"),
        bytes(" tskey-auth-1\n"),
        bytes(&relay.encode()),
        bytes("tautrelay2-AAAA"),
    ]
}

/// Requests of `wg`: the size of the parts in which a request arrives, then requests.
fn uapi() -> Vec<Vec<u8>> {
    let [zeros, one, two] = ["00", "1f", "Ab"].map(|byte| byte.repeat(32));
    let peer = format!(
        "public_key={two}\npreshared_key={one}\nendpoint=192.0.2.1:51820\npersistent_keepalive_interval=25\n\
         replace_allowed_ips=true\nallowed_ip=10.0.0.1/8\nallowed_ip=-fd00::/64\nallowed_ip=fd00::1\nprotocol_version=1\n"
    );
    let interface = format!("set=1\nprivate_key={one}\nlisten_port=51820\nfwmark=7\nreplace_peers=true\n");
    let texts = [
        String::from("get=1\n\nget=1\n\nget=2\n\nget"),
        format!("{interface}{peer}\n"),
        format!("set=1\nprivate_key={zeros}\n{peer}public_key={one}\nremove=true\nupdate_only=true\n\nget=1\n\n"),
        format!("set=1\npublic_key={two}\nendpoint=[fd00::1]:5\npreshared_key={zeros}\nallowed_ip=0.0.0.0/0\n\n"),
    ];
    texts.iter().zip([1, 3, 64, 255]).map(|(text, part)| [&[part], text.as_bytes()].concat()).collect()
}

fn to_node() -> Vec<Vec<u8>> {
    let map = map_for(&Party::new(1), &[&Party::new(2)]);
    let delta = json!({ "type": "delta", "from": 1, "to": 2, "removes": [2], "later": {} });
    let refused = json!({ "type": "refused", "code": "removed", "message": "gone" });
    let presence = json!({ "type": "presence", "whole": true, "nodes": [[2, true]] });
    let relays = json!({ "type": "delta", "from": 2, "to": 3, "relays": [relay(1)] });
    let ticket = json!({ "type": "ticket", "ticket": "dGlja2V0", "expires": 1_800_000_000 });
    let twin = json!({ "type": "twin", "problem": { "code": "twin", "message": "two", "hint": "join" } });
    let others = [
        delta,
        refused,
        presence,
        json!({ "type": "pong" }),
        json!({ "type": "from-the-future", "x": [1] }),
        relays,
        ticket,
        twin,
    ];
    [serde_json::to_vec(&ToNode::Map(map)).unwrap_or_default()]
        .into_iter()
        .chain(others.map(|other| bytes(&other.to_string())))
        .collect()
}

fn relay_channel() -> Vec<Vec<u8>> {
    let hello = json!({ "type": "hello", "schema": 1, "version": "0.2.0" });
    let load = json!({
        "type": "load", "clients": 7, "clients_max": 65_536, "bits_per_second": 1_000_000, "capacity": 0, "processor": 120,
        "dropped": 3, "uptime": 60,
    });
    let network = "00112233445566778899aabbccddeeff";
    let removed = json!({ "network": network, "node": 7, "key": key(), "at": 1_795_000_000 });
    let former_key = json!({ "network": network, "key": key(), "at": 5 });
    let revoked = json!({ "type": "revoked", "revocations": [removed, former_key] });
    let problem = json!({ "type": "refused", "code": "not-a-member", "message": "m", "hint": "h" });
    let closing = json!({ "type": "closing", "reason": "r" });
    let [noted, goodbye, new] = ["noted", "goodbye", "new"].map(|kind| json!({ "type": kind }));
    [hello, load, revoked, problem, noted, goodbye, new, closing].map(|message| bytes(&message.to_string())).to_vec()
}

fn to_coordinator() -> Vec<Vec<u8>> {
    let enrol = json!({ "secret": "c2VjcmV0", "name": "host" });
    let hello =
        json!({ "type": "hello", "schema": 1, "node_key": key(), "enrol": enrol, "have": 3, "version": "0.1.0" });
    let endpoints = json!({ "type": "endpoints", "endpoints": ["192.0.2.1:8288", "[fd00::1]:8288"], "ports": [8288] });
    let [ping, goodbye] = ["ping", "goodbye"].map(|kind| json!({ "type": kind }));
    let observed = json!({ "type": "endpoints", "endpoints": [], "ports": [], "observed": ["203.0.113.7:40000"] });
    let relays = json!({ "type": "relays", "ids": [0, 7] });
    let bound = json!({ "type": "hello", "schema": 1, "node_key": key(), "bind_key": key(), "run": 7 });
    [hello, endpoints, ping, goodbye, json!({ "type": "new" }), observed, relays, bound]
        .map(|message| bytes(&message.to_string()))
        .to_vec()
}

fn maps() -> Vec<Vec<u8>> {
    let map = serde_json::to_vec(&map_for(&Party::new(1), &[&Party::new(2), &Party::new(3)])).unwrap_or_default();
    let fourth = json!({ "id": 4, "name": "d", "key": Party::new(4).public(), "addresses": ["100.64.0.4", "fd00:7a07::4"],
        "endpoints": ["192.0.2.4:8288"] });
    let change = json!({ "from": 1, "to": 2, "upserts": [fourth], "removes": [2] });
    let me = json!({ "id": 1, "name": "me", "key": Party::new(5).public(), "addresses": ["100.64.0.9"] });
    let deltas = [change, json!({ "from": 2, "to": 9, "me": me })];
    let deltas: Vec<u8> = deltas.iter().flat_map(|delta| piece(delta.to_string().as_bytes())).collect();
    let relayed =
        json!({ "id": 2, "name": "b", "key": Party::new(2).public(), "addresses": ["100.64.0.2"], "relays": [1, 0] });
    let gone = json!({ "from": 1, "to": 2, "upserts": [relayed], "relays": [relay(1), relay(7)] });
    let relays = [gone, json!({ "from": 2, "to": 3, "relays": [] })];
    let relays: Vec<u8> = relays.iter().flat_map(|delta| piece(delta.to_string().as_bytes())).collect();
    vec![piece(&map), [piece(&map), deltas].concat(), [piece(&map), relays].concat()]
}

/// A relay with an endpoint of each kind.
fn relay(number: u8) -> serde_json::Value {
    json!({ "id": number, "name": "r", "key": Party::new(number + 10).public(), "stun_port": 3479, "web": "wss://r.example/",
        "endpoints": ["198.51.100.1:3478", "[2001:db8::1]:3478", "0.0.0.0:3478"] })
}

fn identities() -> Vec<Vec<u8>> {
    let (key, secret) = (taut_base::encode_base64(&[5; 32]), taut_base::encode_base64url(&[6; 32]));
    let network = "00112233445566778899aabbccddeeff";
    let identity = json!({ "machine_key": key, "node_key": key, "network": network, "coordinator": key, "name": "host",
        "urls": ["http://10.0.0.1:8288"], "enrol_secret": secret, "accepted": true, "wanted": true, "port": 8288 });
    let map = map_for(&Party::new(1), &[&Party::new(2)]);
    let saved = json!({ "network": network, "recent": [key], "map": map });
    vec![[&[0], identity.to_string().as_bytes()].concat(), [&[1], saved.to_string().as_bytes()].concat()]
}

fn event_logs() -> Vec<Vec<u8>> {
    let line = taut_agent::fuzzing::event_line("nas");
    let file = format!("{line}\n{{\"cut off\n\n{line}\n{}", &line[..40]);
    let later = "{ \"schema\":2,\"time\":\"2026-11-24T03:12\",\"level\":\"trace\",\"area\":\"new\",\"event\":\"x\",\"n\":-1.5e3,\"b\":null,\"t\":\"\\u00e4\\n\"}\n";
    vec![bytes(&file), bytes(later), bytes("a\u{1b}[2J\"\\\n")]
}

fn local_api() -> Vec<Vec<u8>> {
    let lines = "{\"command\":\"status\"}\n{\"command\":\"down\"}\n{\"command\":\"up\",\"join\":\"taut1-x\",\"name\":\"a\"}\nnonsense\n\n";
    let nothing = vec![b'\n'; 4_000];
    (0..4).map(|how| [&[how], lines.as_bytes()].concat()).chain([[vec![0], nothing].concat()]).collect()
}

/// Requests to the coordinator's HTTP API: method and path, headers, an empty line, the body. `TOKEN` stands for an operator's.
fn http() -> Vec<Vec<u8>> {
    let requests = [
        ("GET /api/v1/networks", ""),
        ("POST /api/v1/networks", "{\"name\":\"lab\",\"ipv4_prefix\":\"10.9.0.0/24\"}"),
        ("GET /api/v1/networks/default", ""),
        ("GET /api/v1/keys?network=default", ""),
        ("POST /api/v1/keys", "{\"network\":\"default\",\"one_off\":true,\"expires_in\":3600}"),
        ("DELETE /api/v1/keys/2", ""),
        ("GET /api/v1/nodes?network=default", ""),
        ("PATCH /api/v1/nodes/old?network=default", "{\"name\":\"new\"}"),
        ("DELETE /api/v1/nodes/7", ""),
        ("PUT /api/v2/%ff?network=a&network=b", ""),
        ("GET /healthz", ""),
    ];
    let with_token = requests.map(|(head, body)| bytes(&format!("{head}\nauthorization: Bearer TOKEN\n\n{body}")));
    let upgrade = "GET /control/v1?network=00112233445566778899aabbccddeeff\nconnection: upgrade\nupgrade: websocket\n\
        sec-websocket-version: 13\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\n\n";
    with_token.into_iter().chain([bytes(upgrade), bytes("GET /api/v1/nodes\nauthorization: Basic eDp5\n\n")]).collect()
}

/// Answers of the kernel, in this machine's byte order: the awaited sequence number, then messages.
fn netlink() -> Vec<Vec<u8>> {
    let attribute = |kind: u16, value: &[u8]| {
        let length = u16::try_from(4 + value.len()).unwrap_or(4);
        let mut bytes = [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let message = |kind: u16, flags: u16, payload: &[u8]| {
        let length = u32::try_from(16 + payload.len()).unwrap_or(16);
        [&length.to_ne_bytes(), [kind.to_ne_bytes(), flags.to_ne_bytes()].as_flattened(), &[0; 8], payload].concat()
    };
    // RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, NLMSG_ERROR, NLMSG_DONE (rtnetlink.h, netlink.h).
    let link = [
        vec![0, 0, 1, 0, 2, 0, 0, 0, 0x43, 0, 1, 0, 0, 0, 0, 0],
        attribute(3, b"eth0\0"),
        attribute(4, &[220, 5, 0, 0]),
        attribute(18, &attribute(1, b"tun\0")),
    ];
    let address = [vec![2, 24, 0x80, 0, 2, 0, 0, 0], attribute(1, &[10, 0, 0, 1]), attribute(2, &[10, 0, 0, 1])];
    let metrics = attribute(8, &attribute(2, &[220, 5, 0, 0]));
    let route = [
        vec![2, 8, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0],
        attribute(1, &[10, 0, 0, 0]),
        attribute(4, &[2, 0, 0, 0]),
        metrics,
    ];
    let error = [vec![0xea, 0xff, 0xff, 0xff, 16, 0, 0, 0], vec![0; 12], attribute(1, b"no\0")].concat();
    let all = [message(16, 2, &link.concat()), message(20, 2, &address.concat()), message(24, 2, &route.concat())];
    let end = [message(2, 0x300, &error), message(3, 2, &[0; 4])];
    all.into_iter().chain(end).map(|answer| [vec![0; 4], answer].concat()).collect()
}
