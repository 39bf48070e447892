use super::*;

struct Counter(u8);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0 = self.0.wrapping_add(1);
        bytes.fill(self.0);
    }
}

fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_millis(milliseconds)
}

fn place(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], port))
}

fn own() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 8288))
}

fn outer(port: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], port))
}

fn nat_report() -> NatReport {
    let server = |number: u8| StunServer {
        relay: RelayId(u32::from(number)),
        places: vec![place(number, 3478)],
        other_port: 3479,
    };
    let mut nat_report = NatReport::default();
    nat_report.set_hosts(&[own()]);
    nat_report.set_servers(&[server(1), server(2)], at(0));
    nat_report
}

/// Returns the requests that are due.
fn asks(nat_report: &mut NatReport, entropy: &mut Counter, now: Time) -> Vec<StunQuery> {
    nat_report.handle_timeout(entropy, now);
    nat_report.queries.drain(..).collect()
}

/// Returns the endpoints and the kind of NAT, if they changed since the last call.
fn change(nat_report: &mut NatReport) -> Option<(Vec<SocketAddr>, Nat)> {
    nat_report.has_changed().then(|| (nat_report.reflexive.clone(), nat_report.nat))
}

/// Runs against a NAT. `nat` returns the endpoint that a server sees, if its answer comes; `open` says whether answers from other ports pass. Returns
/// the number of requests from the lane's socket.
fn run(
    nat_report: &mut NatReport,
    from: u64,
    until: u64,
    nat: impl Fn(SocketAddr) -> Option<SocketAddr>,
    open: bool,
) -> usize {
    let mut entropy = Counter(u8::try_from(from % 251).unwrap());
    let mut asked = 0;
    let mut now = from;
    while let Some(due) = nat_report.poll_timeout().filter(|due| *due < at(until)) {
        now = now.max(u64::try_from(due.since(Time::ZERO).as_millis()).unwrap());
        let asks = asks(nat_report, &mut entropy, at(now));
        asked += asks.iter().filter(|ask| !ask.from_test_socket).count();
        for ask in asks {
            let Some(mapped) = nat(ask.to) else { continue };
            let BindingRequest { transaction, change_port } = ask.request;
            let source = if change_port { SocketAddr::new(ask.to.ip(), 3479) } else { ask.to };
            let far = if ask.to.ip() == place(1, 0).ip() { 30 } else { 10 };
            if !change_port || open {
                nat_report.handle_answer(source, &BindingResponse { transaction, mapped, other: None }, at(now + far));
            }
        }
    }
    asked
}

#[test]
fn kinds_of_nat_are_told_apart() {
    let kind = |nat: &dyn Fn(SocketAddr) -> Option<SocketAddr>, open| {
        let mut nat_report = nat_report();
        run(&mut nat_report, 0, 2_000, nat, open);
        let view = nat_report.view();
        (view.nat, view.mapping, view.filtering)
    };
    let (loose, strict) = (NatFiltering::AtMostAddressDependent, NatFiltering::AddressAndPortDependent);
    assert_eq!(kind(&|_| Some(own()), true), (Nat::Open, NatMapping::None, loose));
    assert_eq!(kind(&|_| Some(outer(7)), true), (Nat::Cone, NatMapping::EndpointIndependent, loose));
    assert_eq!(kind(&|_| Some(outer(7)), false), (Nat::Cone, NatMapping::EndpointIndependent, strict));
    let last = |to: SocketAddr| u16::from(to.ip().to_string().ends_with('1'));
    let by_address = |to: SocketAddr| Some(outer(1_000 + 20_000 * last(to)));
    assert_eq!(kind(&by_address, false), (Nat::Symmetric, NatMapping::AddressDependent, strict));
    let by_port = |to: SocketAddr| Some(outer(1_000 + 20_000 * last(to) + 7 * to.port()));
    assert_eq!(kind(&by_port, false), (Nat::Symmetric, NatMapping::AddressAndPortDependent, strict));
    let in_a_row = |to: SocketAddr| Some(outer(1_000 + 3 * (2 - last(to)) + 6 * (to.port() - 3478)));
    assert_eq!(kind(&in_a_row, false).0, Nat::Sequential);
    assert_eq!(kind(&|_| None, false), (Nat::Unknown, NatMapping::Unknown, NatFiltering::Unknown));
}

/// The outer port of the test socket.
const APART: u16 = 9;

/// A Linux router that masquerades: it keeps the outer port for all destinations. An unasked datagram takes the outer port for its source, and the
/// next datagram to that source gets another port.
#[derive(Default)]
struct Masquerade {
    taken: Vec<(SocketAddr, u16)>,
    sent_to: Vec<(SocketAddr, u16)>,
    drawn: Vec<(SocketAddr, u16)>,
}

impl Masquerade {
    /// Returns the outer port of a datagram from a socket whose usual outer port is `port`.
    fn out(&mut self, to: SocketAddr, port: u16) -> u16 {
        if self.taken.contains(&(to, port)) && !self.sent_to.contains(&(to, port)) {
            self.drawn.push((to, port));
        }
        self.sent_to.push((to, port));
        if self.drawn.contains(&(to, port)) { 50_000 + port } else { port }
    }

    /// Returns true if a datagram from this source gets in.
    fn comes_in(&mut self, from: SocketAddr, port: u16) -> bool {
        let passes = self.sent_to.contains(&(from, port));
        if !passes {
            self.taken.push((from, port));
        }
        passes
    }
}

#[test]
fn fault_d18_a_router_that_masquerades_is_a_port_restricted_cone() {
    for relays in [1, 2] {
        let server = |number: u8| StunServer {
            relay: RelayId(number.into()),
            places: vec![place(number, 3478)],
            other_port: 3479,
        };
        let mut nat_report = NatReport::default();
        nat_report.set_hosts(&[own()]);
        nat_report.set_servers(&(1..=relays).map(server).collect::<Vec<_>>(), at(0));
        let (mut entropy, mut router) = (Counter(0), Masquerade::default());
        while let Some(due) = nat_report.poll_timeout().filter(|due| *due < at(3_000)) {
            for ask in asks(&mut nat_report, &mut entropy, due) {
                let BindingRequest { transaction, change_port } = ask.request;
                let mapped = outer(router.out(ask.to, if ask.from_test_socket { APART } else { 7 }));
                let source = if change_port { SocketAddr::new(ask.to.ip(), 3479) } else { ask.to };
                if router.comes_in(source, if ask.from_test_socket { APART } else { 7 }) {
                    nat_report.handle_answer(
                        source,
                        &BindingResponse { transaction, mapped, other: None },
                        due + millis(20),
                    );
                }
            }
        }
        let view = nat_report.view();
        let told = (view.nat, view.filtering, view.seen);
        assert_eq!(told, (Nat::Cone, NatFiltering::AddressAndPortDependent, vec![outer(7)]), "{relays} relays");
    }
}

fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn blocked_udp_is_reported_after_two_rounds_and_tested_ever_more_rarely() {
    let mut nat_report = nat_report();
    run(&mut nat_report, 0, 2_000, |_| None, false);
    assert_eq!(nat_report.view().udp, None);
    run(&mut nat_report, 2_000, 8_000, |_| None, false);
    assert_eq!((nat_report.view().udp, nat_report.view().nat), (Some(false), Nat::Blocked));
    let asked = run(&mut nat_report, 8_000, 608_000, |_| None, false);
    assert!(asked <= 12 * 9, "{asked} in ten minutes");
    run(&mut nat_report, 608_000, 700_000, |_| Some(outer(7)), true);
    assert_eq!((nat_report.view().udp, nat_report.view().nat), (Some(true), Nat::Cone));
}

#[test]
fn the_nearest_relay_is_known_after_one_round() {
    let mut nat_report = nat_report();
    run(&mut nat_report, 0, 2_000, |_| Some(outer(7)), true);
    let relays: Vec<_> =
        nat_report.view().relays.iter().map(|distance| (distance.relay.0, distance.round_trip.as_millis())).collect();
    assert_eq!(relays, [(2, 10), (1, 30)]);
}

#[test]
fn while_nothing_changes_one_request_goes_every_25_seconds_or_five_minutes() {
    let mut nat_report = nat_report();
    nat_report.set_talking(true, at(0));
    run(&mut nat_report, 0, 2_000, |_| Some(outer(7)), true);
    assert_eq!(change(&mut nat_report), Some((vec![outer(7)], Nat::Cone)));
    let asked = run(&mut nat_report, 2_000, 302_000, |_| Some(outer(7)), true);
    assert!((11..=12).contains(&asked), "{asked} in five minutes");
    nat_report.set_talking(false, at(302_000));
    let asked = run(&mut nat_report, 330_000, 600_000, |_| Some(outer(7)), true);
    assert!(asked <= 2, "{asked} while nobody talks");
    assert_eq!(change(&mut nat_report), None);
}

#[test]
fn fault_d4_a_mapping_that_changed_is_found_and_told() {
    let mut nat_report = nat_report();
    nat_report.set_talking(true, at(0));
    run(&mut nat_report, 0, 2_000, |_| Some(outer(7)), true);
    change(&mut nat_report);
    run(&mut nat_report, 2_000, 32_000, |_| Some(outer(8)), true);
    assert_eq!(change(&mut nat_report), Some((vec![outer(8)], Nat::Cone)));
}

/// Returns a report after five seconds behind a NAT.
fn known() -> NatReport {
    let mut nat_report = nat_report();
    run(&mut nat_report, 0, 5_000, |_| Some(outer(40_000)), false);
    change(&mut nat_report);
    nat_report
}

#[test]
fn fault_d4_a_path_in_doubt_has_the_mapping_tested_at_once_but_seldom() {
    let mut nat_report = known();
    nat_report.handle_doubt(at(6_000));
    assert!(
        run(&mut nat_report, 6_000, 8_000, |_| Some(outer(50_000)), false) > 1,
        "one question, and a round for its answer"
    );
    assert_eq!(change(&mut nat_report).map(|(seen, _)| seen), Some(vec![outer(50_000)]));
    let mut asked = 0;
    for moment in (9_000..14_000).step_by(100) {
        nat_report.handle_doubt(at(moment));
        asked += run(&mut nat_report, moment, moment + 100, |_| Some(outer(50_000)), false);
    }
    assert_eq!(asked, 3);
}

#[test]
fn fault_d4_a_question_that_is_lost_while_the_nat_starts_again_is_asked_again_soon_and_of_others() {
    let mut nat_report = known();
    nat_report.set_talking(true, at(5_000));
    run(&mut nat_report, 5_000, 6_000, |_| Some(outer(40_000)), false);
    nat_report.handle_doubt(at(6_000));
    assert_eq!(run(&mut nat_report, 6_000, 7_000, |_| None, false), 2);
    // The nearest relay does not come back.
    let mapped = |to: SocketAddr| (to == place(1, 3478)).then(|| outer(50_000));
    run(&mut nat_report, 7_000, 11_000, mapped, false);
    assert_eq!(change(&mut nat_report).map(|(seen, _)| seen), Some(vec![outer(50_000)]));
    // Without answers the interval becomes the usual one.
    run(&mut nat_report, 11_000, 100_000, |_| None, false);
    let asked = run(&mut nat_report, 100_000, 200_000, |_| None, false);
    assert!(asked <= 4, "{asked} in 100 s");
}

#[test]
fn fault_d4_a_doubt_during_a_round_is_looked_into_after_it() {
    let mut nat_report = nat_report();
    run(&mut nat_report, 0, 1_000, |_| Some(outer(40_000)), false);
    change(&mut nat_report);
    nat_report.handle_doubt(at(1_000));
    run(&mut nat_report, 1_000, 2_000, |_| Some(outer(50_000)), false);
    assert_eq!(change(&mut nat_report).map(|(seen, _)| seen), Some(vec![outer(50_000)]));
}

#[test]
fn fault_d4_an_answer_that_is_older_than_a_doubt_does_not_settle_it() {
    let mut nat_report = known();
    nat_report.handle_doubt(at(6_000));
    let asks = asks(&mut nat_report, &mut Counter(77), at(6_000));
    nat_report.handle_doubt(at(6_050));
    let answer = BindingResponse { transaction: asks[0].request.transaction, mapped: outer(40_000), other: None };
    nat_report.handle_answer(asks[0].to, &answer, at(6_100));
    run(&mut nat_report, 6_100, 9_000, |_| Some(outer(50_000)), false);
    assert_eq!(change(&mut nat_report).map(|(seen, _)| seen), Some(vec![outer(50_000)]));
}

#[test]
fn answers_that_were_not_asked_for_are_ignored() {
    let mut nat_report = nat_report();
    let asks = asks(&mut nat_report, &mut Counter(0), at(0));
    let mut answer = BindingResponse { transaction: [99; 12], mapped: outer(7), other: None };
    let mut measured = |source, answer: &BindingResponse, now| {
        nat_report.handle_answer(source, answer, at(now));
        nat_report.measured.pop_front()
    };
    assert_eq!(measured(place(1, 3478), &answer, 5), None, "an unknown transaction");
    answer.transaction = asks[0].request.transaction;
    assert_eq!(measured(place(9, 3478), &answer, 5), None, "from elsewhere");
    assert!(measured(asks[0].to, &answer, 5).is_some());
    assert_eq!(measured(asks[0].to, &answer, 6), None, "twice");
    let late = BindingResponse { transaction: asks[1].request.transaction, ..answer };
    nat_report.handle_timeout(&mut Counter(50), at(6_000));
    nat_report.handle_answer(asks[1].to, &late, at(6_001));
    assert_eq!(nat_report.measured.pop_front(), None, "long ago");
}

#[test]
fn udp_is_not_blocked_while_peers_are_heard_and_relays_are_away() {
    // The NAT has not changed.
    let mut nat_report = known();
    nat_report.handle_network_change(Families::default(), at(5_000));
    run(&mut nat_report, 5_000, 8_000, |_| Some(outer(40_000)), false);
    let before = nat_report.view();
    assert_eq!((before.nat, before.udp), (Nat::Cone, Some(true)));
    change(&mut nat_report);
    nat_report.set_servers(&nat_report.servers.clone()[..1], at(8_000));
    for second in 8..68 {
        nat_report.handle_heard(at(1_000 * second));
        run(&mut nat_report, 1_000 * second, 1_000 * (second + 1), |_| None, false);
        let now = nat_report.view();
        assert_eq!((now.nat, now.mapping, now.filtering), (before.nat, before.mapping, before.filtering), "{second} s");
    }
    assert_eq!(change(&mut nat_report), None, "peers are told nothing else");
    // In another network the kind is unknown; after a long silence UDP counts as blocked.
    nat_report.handle_network_change(Families::default(), at(68_000));
    run(&mut nat_report, 68_000, 78_000, |_| None, false);
    assert_eq!((nat_report.view().nat, nat_report.view().udp), (Nat::Unknown, None));
    run(&mut nat_report, 78_000, 260_000, |_| None, false);
    assert_eq!((nat_report.view().nat, nat_report.view().udp), (Nat::Blocked, Some(false)));
    // A direct datagram shows at once that UDP is not blocked.
    nat_report.handle_heard(at(260_000));
    assert_eq!(nat_report.view().nat, Nat::Unknown);
    assert_eq!(change(&mut nat_report), Some((vec![], Nat::Unknown)));
}

#[test]
fn every_change_is_an_event_with_its_reason() {
    let events = |nat_report: &mut NatReport| {
        let outputs = std::iter::from_fn(|| nat_report.poll_output());
        let event = |output| if let NatReportOutput::Event(event) = output { Some(event) } else { None };
        outputs.filter_map(event).collect::<Vec<_>>()
    };
    let mut nat_report = nat_report();
    let changed = |from, to, reason| NatEvent::NatChanged { from, to, reason };
    run(&mut nat_report, 0, 2_000, |_| Some(outer(7)), true);
    let found = [
        NatEvent::EndpointsChanged { from: vec![], to: vec![outer(7)] },
        changed(Nat::Unknown, Nat::Cone, NatChangeReason::RoundEnded),
    ];
    assert_eq!(events(&mut nat_report), found);
    run(&mut nat_report, 2_000, 602_000, |_| Some(outer(7)), true);
    assert_eq!(events(&mut nat_report), [], "nothing changed");
    nat_report.handle_network_change(Families::default(), at(602_000));
    run(&mut nat_report, 602_000, 900_000, |_| None, true);
    let lost = [
        NatEvent::EndpointsChanged { from: vec![outer(7)], to: vec![] },
        changed(Nat::Cone, Nat::Unknown, NatChangeReason::RoundEnded),
        changed(Nat::Unknown, Nat::Blocked, NatChangeReason::RoundEnded),
    ];
    assert_eq!(events(&mut nat_report), lost);
    nat_report.handle_heard(at(900_000));
    assert_eq!(events(&mut nat_report), [changed(Nat::Blocked, Nat::Unknown, NatChangeReason::DatagramHeard)]);
}
