//! Derives the kind of NAT from the answers of a survey, without IO.

use std::net::SocketAddr;

use taut_agent::api::{Filtering, MappingBehaviour, NatStatus};

use super::survey::{Family, ObservedAddress};

/// Returns the NAT of one address family; `None` if no server was asked.
pub(super) fn nat(family: &Family) -> Option<NatStatus> {
    if !family.asked || family.local.is_none() {
        return None;
    }
    if family.answers.is_empty() {
        return Some(NatStatus::unanswered());
    }
    let mut seen_as: Vec<SocketAddr> = family.answers.iter().map(|seen| seen.mapped).collect();
    seen_as.sort();
    seen_as.dedup();
    Some(NatStatus::new(mapping(family.local, &family.answers), filtering(family), family.hairpin, seen_as))
}

fn filtering(family: &Family) -> Filtering {
    match family.other_port_answered {
        None => Filtering::Unknown,
        Some(true) => Filtering::NotByPort,
        Some(false) => Filtering::AddressAndPortDependent,
    }
}

/// Returns the mapping behaviour: compares the addresses that several servers see for one socket.
fn mapping(local: Option<SocketAddr>, answers: &[ObservedAddress]) -> MappingBehaviour {
    let pairs = || answers.iter().flat_map(|one| answers.iter().map(move |other| (one, other)));
    let of_one_host =
        || pairs().filter(|(one, other)| one.server.ip() == other.server.ip() && one.server != other.server);
    let of_several = || pairs().filter(|(one, other)| one.server.ip() != other.server.ip());
    let same = |(one, other): (&ObservedAddress, &ObservedAddress)| one.mapped == other.mapped;
    if answers.iter().all(|seen| Some(seen.mapped) == local) {
        return MappingBehaviour::NotTranslated;
    }
    if !of_one_host().all(same) {
        return MappingBehaviour::AddressAndPortDependent;
    }
    let (hosts, ports) = (of_several().count(), of_one_host().count());
    match (of_several().all(same), hosts, ports) {
        (_, 0, 0) => MappingBehaviour::Unknown,
        (_, 0, _) => MappingBehaviour::NotByPort,
        (true, ..) => MappingBehaviour::EndpointIndependent,
        (false, _, 0) => MappingBehaviour::AddressAndPortDependent,
        (false, ..) => MappingBehaviour::AddressDependent,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taut_agent::api::NatKind;

    use super::*;

    /// Returns a survey result. `answers`: each server as `host:port`, with the outside port that it saw.
    fn family(answers: &[(&str, u16)], other_port_answered: Option<bool>) -> Family {
        let seen = |(server, port): &(&str, u16)| ObservedAddress {
            server: server.parse().unwrap(),
            mapped: SocketAddr::from(([203, 0, 113, 1], *port)),
            time: Duration::from_millis(1),
        };
        Family {
            asked: true,
            local: Some("192.168.0.2:5".parse().unwrap()),
            answers: answers.iter().map(seen).collect(),
            other_port_answered,
            hairpin: None,
        }
    }

    #[test]
    fn each_kind_of_nat_by_its_answers() {
        const ONE: &str = "198.51.100.1:3478";
        const SAME: &str = "198.51.100.1:3479";
        const TWO: &str = "198.51.100.2:3478";
        for (answers, other, mapping, kind) in [
            (&[][..], None, MappingBehaviour::Unknown, NatKind::Unknown),
            (&[(ONE, 7)], None, MappingBehaviour::Unknown, NatKind::Unknown),
            (&[(ONE, 7), (SAME, 7)], Some(true), MappingBehaviour::NotByPort, NatKind::Cone),
            (
                &[(ONE, 7), (SAME, 7), (TWO, 7)],
                Some(false),
                MappingBehaviour::EndpointIndependent,
                NatKind::PortRestrictedCone,
            ),
            (&[(ONE, 7), (TWO, 7)], None, MappingBehaviour::EndpointIndependent, NatKind::Cone),
            (&[(ONE, 7), (SAME, 8)], None, MappingBehaviour::AddressAndPortDependent, NatKind::Symmetric),
            (&[(ONE, 7), (SAME, 7), (TWO, 8)], None, MappingBehaviour::AddressDependent, NatKind::Symmetric),
            (&[(ONE, 7), (TWO, 8)], None, MappingBehaviour::AddressAndPortDependent, NatKind::Symmetric),
        ] {
            let told = nat(&family(answers, other)).unwrap();
            assert_eq!((told.mapping, told.kind), (mapping, kind), "{answers:?}");
        }
    }

    #[test]
    fn an_own_address_means_no_nat() {
        let mut family = family(&[("198.51.100.1:3478", 5), ("198.51.100.1:3479", 5)], Some(false));
        family.local = Some("203.0.113.1:5".parse().unwrap());
        assert_eq!(nat(&family).unwrap().kind, NatKind::Firewall);
        family.other_port_answered = Some(true);
        assert_eq!(nat(&family).unwrap().kind, NatKind::None);
    }

    #[test]
    fn without_a_question_the_nat_is_unknown() {
        assert_eq!(nat(&Family::default()), None);
        let no_route = Family { local: None, ..family(&[], None) };
        assert_eq!(nat(&no_route), None);
    }
}
