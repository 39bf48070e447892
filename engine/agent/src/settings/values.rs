//! The values of settings: parsers, whose errors say what to write instead, and the texts that they accept again.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
#[cfg(feature = "userspace")]
use std::str::FromStr;
use std::time::Duration;

use taut_base::{MAX_LANES, MAX_MTU, MIN_MTU, closest, is_internet};
use taut_netmap::{DomainFault, MAX_ROUTES, check_domain, check_route};
#[cfg(feature = "userspace")]
use taut_proxy::{Forward, MAX_FORWARDS, Publish};
use taut_wire::control::{Suite, Suites};

use crate::config::{AnswerFilter, USERSPACE};
use crate::exit::{BadExitChoice, ExitChoice};
use crate::log::{Area, Levels};
use crate::subnets::AdvertisedRoute;

/// Longest name of a network interface, 15 bytes: `IFNAMSIZ` without the terminating zero (include/uapi/linux/if.h).
const MAX_INTERFACE_NAME: usize = 15;
/// Limit on the sockets of a port search, 1,024: most NATs cannot hold more mappings, and a search round with more would exceed its time.
const MOST_SEARCH_SOCKETS: u16 = 1_024;
/// Shortest age at which a key is rotated, one day: the coordinator allows four rotations a day.
const YOUNGEST_KEY: Duration = Duration::from_secs(86_400);
/// Limit on accepted domains, 64: as many as split domains of a network.
const MOST_DOMAINS: usize = taut_netmap::MAX_DOMAINS;
/// A second in nanoseconds.
const SECOND: u128 = 1_000_000_000;
/// Digits of a fraction that count: as many as `u64` holds for sure.
const MOST_FRACTION: usize = 18;
/// Names of the levels of events.
pub const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Parses a time such as `500ms`, `5s` or `2m`, or a bare number of seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let (whole, unit) = text.split_at(digits.len());
    let unit: u128 = match unit {
        "ms" => 1_000_000,
        "s" | "" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        _ => return None,
    };
    if !whole.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let (whole, fraction) = whole.split_once('.').unwrap_or((whole, ""));
    // Later digits change even a number of days by less than a nanosecond.
    let fraction = fraction.get(..fraction.len().min(MOST_FRACTION))?;
    let number = |digits: &str| digits.parse::<u64>().ok().map(u128::from);
    let (whole, tenths) = match (whole, fraction) {
        ("", fraction) => (0, number(fraction)?),
        (whole, "") => (number(whole)?, 0),
        (whole, fraction) => (number(whole)?, number(fraction)?),
    };
    let parts = 10_u128.pow(fraction.len().try_into().ok()?);
    let nanoseconds = whole * unit + tenths * unit / parts;
    Some(Duration::new((nanoseconds / SECOND).try_into().ok()?, (nanoseconds % SECOND).try_into().ok()?))
}

/// Checks the name of an interface: the kernel's rules (net/core/dev.c, `dev_valid_name`), without characters that a shell would need quoted.
///
/// # Errors
/// What a name is.
pub fn interface_name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let valid = !text.is_empty()
        && text.len() <= MAX_INTERFACE_NAME
        && text.bytes().all(allowed)
        && text != "."
        && text != "..";
    let wrong = || format!("write 1 to {MAX_INTERFACE_NAME} letters, digits, `-`, `_` or `.`");
    if valid { Ok(String::from(text)) } else { Err(wrong()) }
}

/// Parses the name of the TUN device; `userspace` is none.
pub(super) fn tun(text: &str) -> Result<String, String> {
    match text {
        USERSPACE if cfg!(not(feature = "userspace")) => {
            Err(not_built("userspace networks", "use a TUN device (`taut0`)"))
        }
        _ => interface_name(text),
    }
}

/// Parses the value of a setting for something that this build lacks.
#[cfg(not(feature = "userspace"))]
pub(super) fn lacking(text: &str, what: &str) -> Result<(), String> {
    match text {
        "" | "none" => Ok(()),
        _ => Err(not_built(what, "take the setting away")),
    }
}

/// Says that this build lacks what a value means, and what to do instead.
fn not_built(what: &str, instead: &str) -> String {
    format!("this taut was built without {what}, as for small routers; {instead}, or install the full package")
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(String::from("write `true` or `false`, or `on` or `off`")),
    }
}

pub(super) fn portmap(text: &str) -> Result<bool, String> {
    match switch(text)? {
        true if cfg!(not(feature = "portmap")) => {
            Err(not_built("port mappings", "write `false`, or take the setting away"))
        }
        is_on => Ok(is_on),
    }
}

/// Parses the routes that this node advertises; an empty text or `none` advertises nothing.
pub(super) fn advertised(text: &str) -> Result<Vec<AdvertisedRoute>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let route = |part: &str| match part {
        "0.0.0.0/0" | "::/0" => Err(format!(
            "{part} is no network behind this host; `--advertise-exit-node` offers the way to the internet"
        )),
        _ => part.parse().map_err(|error| format!("`{part}` is no route; {error}")),
    };
    let routes: Vec<AdvertisedRoute> = parts.map(route).collect::<Result<_, _>>()?;
    for prefix in routes.iter().flat_map(|route| [route.real, route.published]) {
        check_route(prefix, &[]).map_err(|error| format!("{prefix} cannot be advertised: {error}"))?;
    }
    let is_again = |(place, one): (usize, &AdvertisedRoute)| {
        routes[..place]
            .iter()
            .any(|other| other.published.overlaps(one.published) && other.published.length() == one.published.length())
    };
    match routes.len() > MAX_ROUTES || routes.iter().enumerate().any(is_again) {
        true => Err(format!("give up to {MAX_ROUTES} routes, and each of them once")),
        false => Ok(routes),
    }
}

/// Parses the choice of an exit node; an empty text means none.
pub(super) fn exit_node(text: &str) -> Result<ExitChoice, String> {
    if text.parse().is_ok_and(is_internet) {
        return Err(String::from(
            "that is an address of the internet; give the exit node's name, or its overlay address",
        ));
    }
    text.parse().map_err(|error: BadExitChoice| error.to_string())
}

pub(super) fn show_advertised(routes: &[AdvertisedRoute]) -> String {
    let list: Vec<String> = routes.iter().map(ToString::to_string).collect();
    if list.is_empty() { String::from("none") } else { list.join(",") }
}

/// Parses domains, separated by commas; an empty text or `none` is no domain.
pub(super) fn domains(text: &str) -> Result<Vec<String>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let mut domains = Vec::new();
    for part in parts {
        let domain = part.trim_end_matches('.').to_ascii_lowercase();
        if check_domain(&domain) == Err(DomainFault::NoDomain) {
            return Err(format!("`{part}` is no domain; write domains such as lan,corp.example, or `none`"));
        }
        if !domains.contains(&domain) {
            domains.push(domain);
        }
    }
    let most = MOST_DOMAINS;
    if domains.len() > most { Err(format!("give up to {most} domains")) } else { Ok(domains) }
}

/// Parses which addresses answers for public names must not have.
pub(super) fn dns_filter(text: &str) -> Result<AnswerFilter, String> {
    let known = AnswerFilter::ALL.into_iter().find(|filter| filter.name() == text);
    known.ok_or_else(|| format!("write {}", AnswerFilter::ALL.map(|filter| format!("`{}`", filter.name())).join(", ")))
}

/// Parses the servers that are asked through an exit node; an empty text or `exit` is the exit node itself.
pub(super) fn exit_dns(text: &str) -> Result<Vec<IpAddr>, String> {
    if text == "exit" {
        return Ok(Vec::new());
    }
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let server = |part: &str| part.parse().ok().filter(|address| is_internet(*address));
    let servers: Option<Vec<IpAddr>> = parts.map(server).collect();
    let wrong = || String::from("write `exit`, or up to 3 public addresses such as 9.9.9.9,2620:fe::fe");
    servers.filter(|servers| servers.len() <= taut_netmap::MAX_SERVERS).ok_or_else(wrong)
}

pub(super) fn show_exit_dns(servers: &[IpAddr]) -> String {
    let list: Vec<String> = servers.iter().map(ToString::to_string).collect();
    if list.is_empty() { String::from("exit") } else { list.join(",") }
}

pub(super) fn show_domains(domains: &[String]) -> String {
    if domains.is_empty() { String::from("none") } else { domains.join(",") }
}

pub(super) fn port(text: &str) -> Result<Option<u16>, String> {
    automatic(text, "a number from 1 to 65535", |text| text.parse().ok().filter(|port| *port != 0))
}

pub(super) fn lanes(text: &str) -> Result<Option<u8>, String> {
    let allowed = |lanes: &u8| (1..=MAX_LANES).contains(&usize::from(*lanes));
    automatic(text, &format!("a number from 1 to {MAX_LANES}"), |text| text.parse().ok().filter(allowed))
}

pub(super) fn mtu(text: &str) -> Result<Option<u16>, String> {
    let allowed = |mtu: &u16| (MIN_MTU..=MAX_MTU).contains(mtu);
    automatic(text, &format!("a number from {MIN_MTU} to {MAX_MTU}"), |text| text.parse().ok().filter(allowed))
}

/// Parses a value that may be `auto`.
fn automatic<T>(text: &str, what: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, String> {
    match text {
        "auto" => Ok(None),
        _ => parse(text).map(Some).ok_or_else(|| format!("write `auto`, or {what}")),
    }
}

pub(super) fn or_auto(value: Option<impl Display>) -> String {
    value.map_or_else(|| String::from("auto"), |value| value.to_string())
}

pub(super) fn or_none(value: Option<impl Display>) -> String {
    value.map_or_else(|| String::from("none"), |value| value.to_string())
}

/// Parses port forwards, separated by commas; an empty text or `none` is no forward.
#[cfg(feature = "userspace")]
pub(super) fn forwards(text: &str) -> Result<Vec<Forward>, String> {
    let forwards: Vec<Forward> = list(text)?;
    let is_again = |(place, one): (usize, &Forward)| forwards[..place].iter().any(|other| other.listen == one.listen);
    if forwards.iter().enumerate().any(is_again) {
        Err(String::from("give each local port once"))
    } else {
        Ok(forwards)
    }
}

/// Parses published ports, separated by commas; an empty text or `none` is no port.
#[cfg(feature = "userspace")]
pub(super) fn published(text: &str) -> Result<Vec<Publish>, String> {
    let published: Vec<Publish> = list(text)?;
    let is_again = |(place, one): (usize, &Publish)| published[..place].iter().any(|other| other.port == one.port);
    if published.iter().enumerate().any(is_again) { Err(String::from("give each port once")) } else { Ok(published) }
}

#[cfg(feature = "userspace")]
fn list<T: FromStr<Err = &'static str>>(text: &str) -> Result<Vec<T>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "none");
    let parsed = parts.map(|part| part.parse().map_err(|what| format!("`{part}`: {what}")));
    let all: Vec<T> = parsed.collect::<Result<_, _>>()?;
    if all.len() > MAX_FORWARDS { Err(format!("give up to {MAX_FORWARDS}")) } else { Ok(all) }
}

#[cfg(feature = "userspace")]
pub(super) fn show_list(values: &[impl Display]) -> String {
    let list: Vec<String> = values.iter().map(ToString::to_string).collect();
    if list.is_empty() { String::from("none") } else { list.join(",") }
}

/// Parses the address of a proxy. A bare port means a port of 127.0.0.1.
#[cfg(feature = "userspace")]
pub(super) fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    metrics(text).map_err(|_| String::from("write a port, an address and a port such as 127.0.0.1:1080, or `none`"))
}

/// Parses the address of the metrics port. A bare port means a port of 127.0.0.1.
pub(super) fn metrics(text: &str) -> Result<Option<SocketAddr>, String> {
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    if text == "none" {
        return Ok(None);
    }
    let address = text.parse().ok().or_else(|| text.parse().ok().map(here)).filter(|address| address.port() != 0);
    let wrong = || String::from("write a port, an address and a port such as 127.0.0.1:9288, or `none`");
    address.map(Some).ok_or_else(wrong)
}

pub(super) fn key_age(text: &str) -> Result<Option<Duration>, String> {
    if text == "never" {
        return Ok(None);
    }
    let Some(age) = duration(text) else { return Err(String::from("write a time such as 30d, or `never`")) };
    let wrong = "the time is at least 1d; `taut rotate-key` rotates the key at once";
    if age >= YOUNGEST_KEY { Ok(Some(age)) } else { Err(String::from(wrong)) }
}

pub(super) fn show_age(age: Option<Duration>) -> String {
    match age.map(|age| age.as_secs()) {
        None => String::from("never"),
        Some(seconds) if seconds % 86_400 == 0 => format!("{}d", seconds / 86_400),
        Some(seconds) => format!("{seconds}s"),
    }
}

pub(super) fn search_sockets(text: &str) -> Result<u16, String> {
    let sockets = text.parse().ok().filter(|sockets| *sockets <= MOST_SEARCH_SOCKETS);
    sockets.ok_or_else(|| format!("write a number from 0 to {MOST_SEARCH_SOCKETS}"))
}

/// Parses the choice of events to record.
pub(super) fn levels(text: &str) -> Result<Levels, String> {
    text.parse().map_err(|error| {
        let mut words = text.split([',', '=']).map(str::trim);
        let unknown = words.find(|word| Area::of(word).is_none() && !LEVELS.contains(word)).unwrap_or_default();
        format!("{error}{}", meant_events(unknown))
    })
}

/// Returns `; did you mean …?` for a word that is close to the name of an area or a level of events.
pub fn meant_events(word: &str) -> String {
    let areas = Area::names();
    let close = closest(word, areas.split(", ").chain(LEVELS));
    close.map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

/// Parses names of suites as in `taut status`, in any case, separated by commas. WireGuard's own suite needs no name, because every session begins with it.
pub(super) fn suites(list: &str) -> Result<Suites, String> {
    let mut suites = Suites::STOCK;
    for name in list.split(',').map(str::trim) {
        let known = Suite::ALL.into_iter().find(|suite| suite.name().eq_ignore_ascii_case(name));
        let suite = known.ok_or_else(|| unknown_suite(name))?;
        if cfg!(not(feature = "aes")) && suite != Suite::ChaCha20Poly1305 {
            return Err(not_built(suite.name(), "take it out of the list"));
        }
        suites = suites.with(suite);
    }
    Ok(suites)
}

fn unknown_suite(name: &str) -> String {
    let names = Suite::ALL.map(Suite::name);
    let nearest = closest(name, names).map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    format!("`{name}` is not a suite{nearest}; write some of {}", names.join(", "))
}

pub(super) fn show_suites(suites: Suites) -> String {
    let names: Vec<&str> = Suite::ALL.into_iter().filter(|suite| suites.has(*suite)).map(Suite::name).collect();
    names.join(",")
}
