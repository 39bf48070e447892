//! Random sequences of packets: the kernel must be able to restore every merged packet.

use super::*;
use proptest::prelude::*;

/// A packet of a sequence.
#[derive(Clone, Copy, Debug)]
enum Step {
    Data,
    Short,
    Long,
    Push,
    Fin,
    PureAck,
    Syn,
    Reset,
    Urgent,
    Cwr,
    Ece,
    AckMoves,
    WindowMoves,
    OptionMoves,
    Gap,
    Again,
    IdJumps,
    TosMoves,
    TtlMoves,
    FragmentableToggles,
    IpOptions,
    Fragment,
    BadIpChecksum,
    BadChecksum,
    NoUdpChecksum,
    OtherProtocol,
}

/// Most packets are plain data, because otherwise runs would not grow.
fn any_step() -> impl Strategy<Value = Step> {
    use Step::{
        AckMoves, Again, BadChecksum, BadIpChecksum, Cwr, Data, Ece, Fin, Fragment, FragmentableToggles, Gap, IdJumps,
        IpOptions, Long, NoUdpChecksum, OptionMoves, OtherProtocol, PureAck, Push, Reset, Short, Syn, TosMoves,
        TtlMoves, Urgent, WindowMoves,
    };
    let odd = [
        Short,
        Long,
        Push,
        Fin,
        PureAck,
        Syn,
        Reset,
        Urgent,
        Cwr,
        Ece,
        AckMoves,
        WindowMoves,
        OptionMoves,
        Gap,
        Again,
        IdJumps,
        TosMoves,
        TtlMoves,
        FragmentableToggles,
        IpOptions,
        Fragment,
        BadIpChecksum,
        BadChecksum,
        NoUdpChecksum,
        OtherProtocol,
    ];
    prop_oneof![4 => Just(Data), 1 => proptest::sample::select(odd.to_vec())]
}

/// The sender of one flow.
struct Sender {
    ip: Ip,
    tcp: Tcp,
    udp: bool,
    size: usize,
}

impl Sender {
    /// Returns the sender of a flow. Some flows share their hosts.
    fn new(number: usize) -> Sender {
        let small = u8::try_from(number).unwrap();
        let ip = if number.is_multiple_of(2) { Ip::v4() } else { Ip::v6() };
        Sender {
            ip: Ip { source: small / 6, dont_fragment: number.is_multiple_of(5), ..ip },
            tcp: Tcp { source: 1_000 + u16::from(small), options: vec![small; (number % 3) * 4], ..Tcp::default() },
            udp: number % 3 == 2,
            size: 40 + number,
        }
    }

    fn next(&mut self, step: Step, seed: u8) -> Vec<u8> {
        let (ip, tcp) = (&mut self.ip, &mut self.tcp);
        match step {
            Step::AckMoves => tcp.acknowledgement += 1,
            Step::WindowMoves => tcp.window ^= 1,
            Step::OptionMoves => tcp.options = vec![seed; tcp.options.len()],
            Step::Gap => tcp.sequence = tcp.sequence.wrapping_add(1),
            Step::Again => tcp.sequence = tcp.sequence.wrapping_sub(40),
            Step::IdJumps => ip.id = ip.id.wrapping_add(7),
            Step::TosMoves => ip.tos ^= 2,
            Step::TtlMoves => ip.ttl ^= 1,
            Step::FragmentableToggles => ip.dont_fragment ^= true,
            _ => {}
        }
        let len = match step {
            Step::Short => self.size / 2,
            Step::Long => self.size + 3,
            Step::PureAck => 0,
            _ => self.size,
        };
        let mut packet = self.build(step, payload(len, seed));
        self.tcp.sequence = self.tcp.sequence.wrapping_add(u32::try_from(len).unwrap());
        self.ip.id = self.ip.id.wrapping_add(1);
        damage(&mut packet, step, self.udp);
        packet
    }

    fn build(&self, step: Step, payload: Vec<u8>) -> Vec<u8> {
        let mut ip = self.ip.clone();
        if let Step::IpOptions = step {
            ip.options = vec![0; 8];
        }
        if let Step::OtherProtocol = step {
            return ip.carry(50, &payload);
        }
        if self.udp {
            return ip.udp((self.tcp.source, 53), &payload);
        }
        let flags = match step {
            Step::Push => tcp::PSH,
            Step::Fin => tcp::FIN,
            Step::Syn => tcp::SYN,
            Step::Reset => tcp::RST,
            Step::Urgent => tcp::URG,
            Step::Cwr => tcp::CWR,
            Step::Ece => tcp::ECE,
            _ => 0,
        };
        let packet = ip.tcp(&Tcp { flags: tcp::ACK | flags, payload, ..self.tcp.clone() });
        match step {
            Step::Fragment if ip.six => ip.carry(44, &[&[6, 0, 0, 1, 0, 0, 0, 1][..], &packet[40..]].concat()),
            _ => packet,
        }
    }
}

fn damage(packet: &mut [u8], step: Step, udp: bool) {
    let four = packet[0] >> 4 == 4;
    let (transport, _) = upper_layer(packet);
    match step {
        Step::Fragment if four => packet[6] |= 0x20,
        Step::BadIpChecksum if four => packet[10] ^= 1,
        Step::BadChecksum => *packet.last_mut().unwrap() ^= 1,
        Step::NoUdpChecksum if udp => packet[transport + 6..transport + 8].fill(0),
        _ => {}
    }
}

fn is_fragment(packet: &[u8]) -> bool {
    Packet::parse(packet).unwrap().is_fragment()
}

fn hosts(packet: &[u8]) -> Vec<u8> {
    if packet[0] >> 4 == 4 { packet[12..20].to_vec() } else { packet[8..40].to_vec() }
}

/// Returns true if the order of two packets must be kept: they are of one flow, or one is a fragment, which may belong to any flow between its hosts.
fn ordered(a: &[u8], b: &[u8]) -> bool {
    let ((at_a, protocol_a), (at_b, protocol_b)) = (upper_layer(a), upper_layer(b));
    hosts(a) == hosts(b)
        && (is_fragment(a) || is_fragment(b) || (protocol_a == protocol_b && a[at_a..].get(..4) == b[at_b..].get(..4)))
}

/// Returns a packet without the fields that a merge may change: PSH, an ID without meaning, and the checksums over them.
fn without_freedom(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let (transport, protocol) = upper_layer(&packet);
    if packet[0] >> 4 == 4 {
        packet[10..12].fill(0);
        if packet[6] & 0x40 != 0 {
            packet[4..6].fill(0);
        }
    }
    if protocol == ip::TCP {
        packet[transport + 13] &= !tcp::PSH;
        packet[transport + 16..transport + 18].fill(0);
    }
    packet
}

/// Returns the packet that a segment of a run came from: the first one with equal bytes that was not found before.
fn origin(segment: &[u8], merged: bool, packets: &[(u32, Vec<u8>)], found: &[usize]) -> usize {
    let matches = |packet: &[u8]| {
        if merged { without_freedom(packet) == without_freedom(segment) } else { packet == segment }
    };
    (0..packets.len())
        .find(|at| !found.contains(at) && matches(&packets[*at].1))
        .unwrap_or_else(|| panic!("no packet was like this segment: {segment:02x?}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(taut_testkit::cases(1_000)))]

    #[test]
    fn the_kernel_restores_what_was_sent(
        steps in proptest::collection::vec((0_usize..12, any_step(), any::<u8>()), 1..120),
        flows in 1_usize..12,
        sessions in proptest::collection::vec(prop_oneof![9 => Just(1_u32), 1 => Just(2)], 120),
    ) {
        let mut senders: Vec<_> = (0..12).map(Sender::new).collect();
        let packets: Vec<_> = steps
            .iter()
            .zip(&sessions)
            .map(|(&(flow, step, seed), &session)| (session, senders[flow % flows].next(step, seed)))
            .collect();

        let mut found = vec![];
        for out in merge_sessions(Offloads::ALL, &packets) {
            let segments = split(&out);
            prop_assert_eq!(segments.len(), out.packets);
            let merged = out.packets > 1;
            prop_assert_eq!(merged, out.header != VnetHeader::NONE);
            let start = found.len();
            for segment in &segments {
                prop_assert!(!merged || is_right(segment));
                found.push(origin(segment, merged, &packets, &found));
            }
            if merged {
                prop_assert!(has_right_ip_header(&out.bytes));
                let run = &found[start..];
                prop_assert!(run.iter().all(|&at| is_right(&packets[at].1)), "a bad checksum was made good");
                prop_assert!(run.iter().all(|&at| packets[at].0 == packets[run[0]].0), "a session was crossed");
                check_psh(run, &packets, segments.last().unwrap())?;
            }
        }

        prop_assert_eq!(found.len(), packets.len());
        for (later, &b) in found.iter().enumerate() {
            for &a in &found[..later] {
                prop_assert!(a < b || !ordered(&packets[a].1, &packets[b].1), "{} came before {}", a, b);
            }
        }
    }

    #[test]
    fn takes_any_bytes(
        packets in proptest::collection::vec((0_usize..4, any_step(), any::<u8>(), 0_usize..60, any::<u8>()), 1..40),
        noise in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut senders: Vec<_> = (0..4).map(Sender::new).collect();
        let mut merger = Merger::new(Offloads::ALL);
        let mut buffer = noise;
        let mut places = Vec::from([(0, buffer.len())]);
        for (flow, step, seed, at, value) in packets {
            let mut packet = senders[flow].next(step, seed);
            let last = packet.len() - 1;
            packet[at.min(last)] = value;
            places.push((buffer.len(), buffer.len() + packet.len()));
            buffer.extend(packet);
        }
        for (start, end) in places {
            let _ = merger.push(&mut buffer, start..end, 1, None, |run| assert!(run.bytes() <= MAX_BYTES));
        }
        merger.flush(&mut buffer, |run| assert!(run.packets() <= MAX_RUN));
    }
}

/// Checks that PSH of any packet of a run is set on its last segment.
fn check_psh(run: &[usize], packets: &[(u32, Vec<u8>)], last: &[u8]) -> Result<(), TestCaseError> {
    let psh = |packet: &[u8]| match upper_layer(packet) {
        (at, ip::TCP) => packet[at + 13] & tcp::PSH,
        _ => 0,
    };
    let any = run.iter().fold(0, |any, &at| any | psh(&packets[at].1));
    prop_assert_eq!(psh(last), any);
    Ok(())
}
