use std::string::ToString;
use std::vec;

use super::*;
use taut_base::SAFE_PACKET;

use crate::families::Families;
use crate::packet_limit::PacketLimit;
use crate::search::SearchProgress;

fn way(endpoint: &str) -> WayReport {
    WayReport {
        way: Way::Direct(endpoint.parse().unwrap()),
        origins: Origins::default(),
        in_use: false,
        known_for: Duration::ZERO,
        proven_for: None,
        down: None,
        suspected: false,
        sent: 20,
        answered: 0,
        answered_elsewhere: 0,
        peer_probes: 0,
        heard_ago: None,
        refused: 0,
        round_trip: None,
        loss: None,
        fits: None,
        limit: None,
        seen_as: None,
        family: true,
        place: HERE.place(endpoint.parse().unwrap()),
        asleep: false,
    }
}

/// A relay that carries data.
fn relay() -> WayReport {
    let place = "192.0.2.9:3478".parse().unwrap();
    let way_by = Way::Relayed { relay: place, id: 1 };
    WayReport { way: way_by, in_use: true, proven_for: Some(Duration::ZERO), answered: 20, ..way("192.0.2.9:3478") }
}

const SECOND: Duration = Duration::from_secs(1);

const HERE: LocalNetwork<'_> = LocalNetwork::behind(Nat::Cone);

#[test]
fn the_same_silence_means_different_things() {
    let far = way("192.0.2.1:1");
    let old = WayReport {
        down: Some((SECOND * 10, DownCause::Silent)),
        heard_ago: Some(SECOND * 11),
        answered: 9,
        ..far.clone()
    };
    let by_relay = WayReport { proven_for: None, answered: 0, ..relay() };
    for (meaning, report) in [
        (Meaning::Silent, far.clone()),
        (Meaning::OneWay, WayReport { heard_ago: Some(SECOND), ..far.clone() }),
        (Meaning::Elsewhere, WayReport { answered_elsewhere: 1, ..far.clone() }),
        (Meaning::NoFamily, WayReport { family: false, ..far.clone() }),
        (Meaning::Trying, WayReport { sent: 2, ..far.clone() }),
        (Meaning::Limited, WayReport { sent: 2, refused: 9, ..far.clone() }),
        (Meaning::Judged, WayReport { suspected: true, proven_for: Some(SECOND), ..far.clone() }),
        (Meaning::Ready, WayReport { proven_for: Some(SECOND), ..far.clone() }),
        (Meaning::InUse, WayReport { in_use: true, proven_for: Some(SECOND), ..far.clone() }),
        // A way in use that is down carries nothing.
        (Meaning::Died, WayReport { in_use: true, ..old.clone() }),
        (Meaning::Died, old.clone()),
        (Meaning::OneWay, WayReport { heard_ago: Some(SECOND), ..old.clone() }),
        (Meaning::Lossy, WayReport { down: Some((SECOND, DownCause::Lossy)), ..far.clone() }),
        (Meaning::NoData, WayReport { down: Some((SECOND, DownCause::NoData)), ..far.clone() }),
        (
            Meaning::TooLong(1_420),
            WayReport { limit: UNANSWERED, proven_for: Some(SECOND), in_use: true, ..far.clone() },
        ),
        (Meaning::InUse, WayReport { limit: found(1_340), proven_for: Some(SECOND), in_use: true, ..far.clone() }),
        // Without a session no data goes, whatever was chosen.
        (Meaning::Asleep, WayReport { asleep: true, in_use: true, sent: 0, ..far.clone() }),
        (Meaning::Asleep, WayReport { asleep: true, sent: 0, ..by_relay.clone() }),
        // A relay is not behind a firewall like a peer.
        (Meaning::InUse, relay()),
        (Meaning::InUse, WayReport { sent: 0, ..by_relay.clone() }),
        (Meaning::Promised, WayReport { sent: 0, in_use: false, ..by_relay.clone() }),
        (Meaning::RelaySilent, by_relay.clone()),
        (Meaning::Died, WayReport { down: old.down, ..relay() }),
    ] {
        assert_eq!(report.meaning(), meaning, "{report:?}");
        assert!(!meaning.to_string().is_empty() && !meaning.name().is_empty());
    }
}

#[test]
fn the_location_of_a_silent_address_explains_it() {
    let networks = ["192.168.1.0/24", "fd01:2:3::/64"].map(|text| text.parse().unwrap());
    let own = ["192.168.1.2:8288".parse().unwrap()];
    let seen = ["198.51.100.2:40000".parse().unwrap()];
    let here = LocalNetwork { networks: &networks, own: &own, seen: &seen, ..HERE };
    for (endpoint, meaning) in [
        ("192.168.1.3:8288", Meaning::Neighbour),
        ("[fd01:2:3::7]:8288", Meaning::Neighbour),
        ("192.168.1.2:9000", Meaning::OwnAddress),
        ("192.168.2.3:8288", Meaning::OtherNetwork),
        ("100.64.0.9:8288", Meaning::OtherNetwork),
        ("198.51.100.2:8288", Meaning::Hairpin),
        ("198.51.100.3:8288", Meaning::Silent),
    ] {
        let report = WayReport { place: here.place(endpoint.parse().unwrap()), ..way(endpoint) };
        assert_eq!(report.meaning(), meaning, "{endpoint}");
    }
}

/// Facts, and the verdict that follows from them.
struct Facts {
    ways: Vec<WayReport>,
    ours: Nat,
    theirs: Nat,
    families: Families,
}

fn facts(ways: Vec<WayReport>) -> Facts {
    Facts { ways, ours: Nat::Cone, theirs: Nat::Cone, families: Families::default() }
}

const GUESSED: SearchProgress = SearchProgress { rounds: 3, of: 3, odds: 98 };

fn verdict(facts: &Facts) -> Verdict {
    let way = facts.ways.iter().find(|way| way.in_use).map(|way| way.way);
    let asleep = facts.ways.iter().any(|way| way.asleep);
    let here = LocalNetwork { nat: facts.ours, ..HERE };
    Verdict::of(way, &facts.ways, asleep, facts.theirs, facts.families, GUESSED, &here)
}

#[test]
fn fault_d5_the_first_reason_that_fits_is_reported() {
    let silent = || way("192.0.2.1:1");
    let v6 = |family| WayReport { family, ..way("[2001:db8::1]:1") };
    let used = |report: WayReport| WayReport { in_use: true, proven_for: Some(SECOND), answered: 9, ..report };
    let died = || WayReport { down: Some((SECOND, DownCause::Silent)), answered: 9, ..silent() };
    let dead_relay = || WayReport { proven_for: None, down: Some((SECOND, DownCause::Silent)), ..relay() };
    let hard = |ways, ours, theirs| Facts { ours, theirs, ..facts(ways) };
    let only_v4 = Families { v4: true, v6: false };
    let table = [
        // Direct ways that carry data.
        (Verdict::Direct, facts(vec![relay_idle(), used(silent())])),
        (Verdict::Direct, facts(vec![dead_idle(), used(silent())])),
        (Verdict::Direct, hard(vec![used(v6(true)), silent()], Nat::Symmetric, Nat::Symmetric)),
        // Nothing comes back: neither the NAT nor a firewall is the reason, and the relay carries nothing.
        (Verdict::Unreachable, facts(vec![dead_relay(), died()])),
        (Verdict::Unreachable, hard(vec![dead_relay(), died()], Nat::Symmetric, Nat::Symmetric)),
        (Verdict::Unreachable, facts(vec![WayReport { in_use: true, ..died() }])),
        (Verdict::Unreachable, facts(vec![WayReport { proven_for: None, answered: 0, ..relay() }, silent()])),
        (Verdict::Unreachable, facts(vec![])),
        // Relayed, with the reason.
        (Verdict::NoCandidates, facts(vec![relay()])),
        (Verdict::Looking, facts(vec![relay(), WayReport { sent: 2, ..silent() }])),
        (Verdict::Died, facts(vec![relay(), died()])),
        (Verdict::Filtered, facts(vec![relay(), silent()])),
        (Verdict::OneWay, facts(vec![relay(), WayReport { heard_ago: Some(SECOND), ..silent() }])),
        (Verdict::Poor, facts(vec![relay(), WayReport { down: Some((SECOND, DownCause::Lossy)), ..silent() }])),
        (Verdict::NoData, facts(vec![relay(), WayReport { down: Some((SECOND, DownCause::NoData)), ..silent() }])),
        (Verdict::NoHairpin, facts(vec![relay(), WayReport { place: EndpointLocation::OwnNat, ..silent() }])),
        (
            Verdict::Neighbour,
            facts(vec![
                relay(),
                WayReport { place: EndpointLocation::OwnNat, ..silent() },
                WayReport { place: EndpointLocation::SameNetwork, ..silent() },
            ]),
        ),
        (Verdict::Filtered, facts(vec![relay(), WayReport { place: EndpointLocation::SameNetwork, ..silent() }])),
        (Verdict::BothHard, hard(vec![relay(), silent()], Nat::Symmetric, Nat::Sequential)),
        (Verdict::OneHard { ours: false, guessed: GUESSED }, hard(vec![relay(), silent()], Nat::Cone, Nat::Symmetric)),
        (Verdict::Blocked { ours: true }, hard(vec![relay(), silent()], Nat::Blocked, Nat::Symmetric)),
        (Verdict::Blocked { ours: false }, hard(vec![relay(), silent()], Nat::Cone, Nat::Blocked)),
        // A hard NAT explains nothing without a common family, or with IPv6 only.
        (
            Verdict::NoCommonFamily { ours_v4: true },
            Facts { families: only_v4, ..hard(vec![relay(), v6(false)], Nat::Symmetric, Nat::Symmetric) },
        ),
        (
            Verdict::NoCommonFamily { ours_v4: true },
            Facts { families: only_v4, ..hard(vec![relay(), v6(false)], Nat::Blocked, Nat::Cone) },
        ),
        (Verdict::Filtered, hard(vec![relay(), v6(true)], Nat::Symmetric, Nat::Cone)),
        // No sized probe is answered on the path in use, whatever the other ways do. A limit that was found is no problem.
        (Verdict::TooLong { fits: 1_420 }, facts(vec![WayReport { limit: UNANSWERED, ..relay() }, silent()])),
        (
            Verdict::TooLong { fits: 1_420 },
            facts(vec![relay_idle(), used(WayReport { limit: UNANSWERED, ..silent() })]),
        ),
        (Verdict::Direct, facts(vec![relay_idle(), used(WayReport { limit: found(1_240), ..silent() })])),
        (Verdict::Direct, facts(vec![WayReport { limit: UNANSWERED, ..relay_idle() }, used(silent())])),
        // There is no session.
        (Verdict::Asleep, facts(vec![WayReport { asleep: true, ..relay() }])),
    ];
    for (wanted, facts) in table {
        let told = verdict(&facts);
        assert_eq!(told, wanted, "{:?}", facts.ways);
        let nothing_wrong = matches!(told, Verdict::Direct | Verdict::Asleep | Verdict::Looking);
        assert_eq!(told.fix(true).is_none(), nothing_wrong, "{told:?}");
    }
}

fn relay_idle() -> WayReport {
    WayReport { in_use: false, ..relay() }
}

fn dead_idle() -> WayReport {
    WayReport { in_use: false, proven_for: None, down: Some((SECOND, DownCause::Silent)), ..relay() }
}

const UNANSWERED: Option<WayLimit> = Some(WayLimit { bytes: 1_420, cause: LimitCause::Unanswered });

fn found(bytes: u16) -> Option<WayLimit> {
    Some(WayLimit { bytes, cause: LimitCause::Probes })
}

#[test]
fn fault_i10_the_mtu_that_passes_is_reported_with_the_fix() {
    // Where probes find the limit, it is named with its cause.
    let limit = WayLimit { bytes: 1_340, cause: LimitCause::Probes };
    assert_eq!(limit.to_string(), "packets up to 1340 bytes (found by probes: longer ones are lost)");
    // A path that is not in use is not searched.
    let untried = WayLimit::of(relay().way, &PacketLimit::default(), &HERE);
    assert_eq!(untried, WayLimit { bytes: SAFE_PACKET, cause: LimitCause::Untried });
    assert_eq!(untried.to_string(), "packets up to 1000 bytes (more is tried once this path is in use)");
    // Where they do not, the first sentence names the problem and `--mtu` the fix, also for a link that no packet of the smallest MTU fits.
    let told = Verdict::TooLong { fits: 1_420 };
    assert!(["MTU", "1420 bytes", "`--mtu`"].iter().all(|part| told.to_string().contains(part)), "{told}");
    let fix = told.fix(true).unwrap();
    assert!(fix.contains("`--mtu`") && fix.contains("`--mtu 1280`"), "{fix}");
    assert!(fix.contains("1340 bytes over IPv4, or 1360 over IPv6"), "{fix}");
}

#[test]
fn a_node_that_asks_for_no_port_mapping_does_not_name_it_as_the_fix_of_its_own_side() {
    for (ours, maps, named) in [(true, true, true), (false, false, true), (true, false, false)] {
        let fix = Verdict::OneHard { ours, guessed: GUESSED }.fix(maps).unwrap();
        assert_eq!(fix.contains("port mapping"), named, "{fix}");
    }
}

#[test]
fn sentences_name_their_subject() {
    let told = Verdict::OneHard { ours: false, guessed: GUESSED }.to_string();
    assert!(told.contains("98 of 100"), "{told}");
    let told = Verdict::NoCommonFamily { ours_v4: false }.to_string();
    assert!(told.contains("this host has IPv6 only") && told.contains("only IPv4 addresses"), "{told}");
}
