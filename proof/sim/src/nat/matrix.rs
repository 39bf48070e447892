//! The list of kinds and verdicts as text: the contents of `lab/hosts/nats/matrix.json`.

use std::fmt::Write;

use crate::nat::kind::{Filtering, Kind, Mapping, Place, Ports};
use crate::nat::verdict::possible;

/// Returns the text of `lab/hosts/nats/matrix.json`: all kinds with their traits, and every pair in every place with its verdict.
/// `cargo test -p taut-sim --lib nat::matrix` writes it with TAUT_WRITE=1 in the environment; the tests here and in the lab read it.
pub fn matrix() -> String {
    let kinds: Vec<String> = Kind::ALL.into_iter().map(kind_line).collect();
    let pairs: Vec<String> = pairs().map(|(a, b, place)| pair_line(a, b, place)).collect();
    format!(
        "{{\n \"schema\": 1,\n \"kinds\": [\n{}\n ],\n \"pairs\": [\n{}\n ]\n}}\n",
        kinds.join(",\n"),
        pairs.join(",\n")
    )
}

/// Returns every possible pair once.
pub(super) fn pairs() -> impl Iterator<Item = (Kind, Kind, Place)> {
    let apart = Kind::ALL
        .into_iter()
        .enumerate()
        .flat_map(|(number, a)| Kind::ALL.into_iter().skip(number).map(move |b| (a, b, Place::Apart)));
    let together = Kind::ALL.into_iter().flat_map(|kind| {
        let places = [Place::SameLan, Place::Isolated, Place::SameCarrier].into_iter();
        places.filter(move |place| place.fits(kind)).map(move |place| (kind, kind, place))
    });
    apart.chain(together)
}

fn kind_line(kind: Kind) -> String {
    let traits = kind.traits();
    let mut line = format!("  {{\"name\": \"{}\"", kind.name());
    let texts = [
        ("mapping", mapping(traits.mapping)),
        ("filtering", filtering(traits.filtering)),
        ("ports", ports(traits.ports)),
    ];
    for (key, value) in texts {
        let _ = write!(line, ", \"{key}\": \"{value}\"");
    }
    let _ = write!(line, ", \"timeout_s\": {}", traits.timeout.as_secs());
    let flags = [
        ("hairpin", traits.hairpin),
        ("udp", traits.udp),
        ("tcp", traits.tcp),
        ("one_way", traits.one_way),
        ("carrier", traits.carrier),
    ];
    for (key, value) in flags {
        let _ = write!(line, ", \"{key}\": {value}");
    }
    line + "}"
}

fn pair_line(a: Kind, b: Kind, place: Place) -> String {
    let verdict = possible(a, b, place);
    let (a, b, place, reach) = (a.name(), b.name(), place.name(), verdict.reach.name());
    format!(
        "  {{\"a\": \"{a}\", \"b\": \"{b}\", \"place\": \"{place}\", \"reach\": \"{reach}\", \"why\": \"{}\"}}",
        verdict.why
    )
}

const fn mapping(mapping: Mapping) -> &'static str {
    match mapping {
        Mapping::None => "none",
        Mapping::EndpointIndependent => "endpoint-independent",
        Mapping::AddressAndPortDependent => "address-and-port-dependent",
    }
}

const fn filtering(filtering: Filtering) -> &'static str {
    match filtering {
        Filtering::None => "none",
        Filtering::EndpointIndependent => "endpoint-independent",
        Filtering::AddressDependent => "address-dependent",
        Filtering::AddressAndPortDependent => "address-and-port-dependent",
    }
}

const fn ports(ports: Ports) -> &'static str {
    match ports {
        Ports::Random => "random",
        Ports::Sequential => "sequential",
    }
}

#[cfg(test)]
mod tests;
