//! The parser of the command line, and the flags that several verbs share.

mod routes;
mod suites;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::{Arg, Parser};
use taut_agent::RouteOptions;
use taut_agent::log::{Area, Levels};
use taut_base::{MAX_LANES, MAX_MTU, MIN_MTU};
use taut_wire::control::Suites;

use crate::fault::{Fault, suggestion};

/// Default state directory.
const STATE_DIR: &str = "/var/lib/taut";
/// Default path of the daemon's local socket.
const SOCKET: &str = "/run/taut/taut.sock";
/// Default name of the TUN device.
const TUN: &str = "taut0";
/// Longest name of a network interface, 15 bytes: `IFNAMSIZ` without the terminating zero (include/uapi/linux/if.h).
const MAX_INTERFACE_NAME: usize = 15;
/// Limit on the sockets of a port search, 1,024: most NATs cannot hold more mappings, and a search round with more would exceed its time.
const MOST_SEARCH_SOCKETS: u16 = 1_024;

/// Names of the levels of events.
pub(crate) const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// The words after the verb.
pub(crate) struct Words(Parser);

/// A word of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// A flag, with its hyphens.
    Flag(String),
    /// A word that is not a flag.
    Value(String),
}

impl Words {
    pub(crate) fn new(words: impl Iterator<Item = OsString>) -> Self {
        Self(Parser::from_args(words))
    }

    /// Returns the next word; fails with [`Fault::Help`] if it is `-h` or `--help`.
    pub(crate) fn next(&mut self) -> Result<Option<Word>, Fault> {
        let word = match self.0.next()? {
            None => return Ok(None),
            Some(Arg::Short('h') | Arg::Long("help")) => return Err(Fault::Help),
            Some(Arg::Short(letter)) => Word::Flag(format!("-{letter}")),
            Some(Arg::Long(name)) => Word::Flag(format!("--{name}")),
            Some(Arg::Value(value)) => Word::Value(text(value)?),
        };
        Ok(Some(word))
    }

    /// Returns the value of the flag that was just read.
    pub(crate) fn value(&mut self) -> Result<String, Fault> {
        text(self.0.value()?)
    }

    /// Returns the value of `flag` as a time.
    pub(crate) fn time(&mut self, flag: &str) -> Result<Duration, Fault> {
        let value = self.value()?;
        duration(&value).ok_or_else(|| Fault::usage(format!("{flag} {value}: write a time such as 500ms, 5s or 2m")))
    }
}

fn text(value: OsString) -> Result<String, Fault> {
    value.into_string().map_err(|value| Fault::usage(format!("`{}` is not UTF-8", value.to_string_lossy())))
}

/// Returns the usage error for a word that the verb does not accept.
pub(crate) fn unexpected(word: &Word) -> Fault {
    match word {
        Word::Flag(flag) => Fault::UnknownFlag(flag.clone()),
        Word::Value(value) => Fault::usage(format!("`{value}` is not expected here")),
    }
}

/// Parses a time such as `500ms`, `5s` or `2m`, or a bare number of seconds.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let (whole, unit) = text.split_at(digits.len());
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let plain = whole.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = whole.parse().ok().filter(|_| plain)?;
    Duration::try_from_secs_f64(number * seconds_per_unit).ok()
}

/// Returns the path of the local socket that applies without a flag.
pub(crate) fn default_socket() -> PathBuf {
    path_from_environment("TAUT_SOCKET", SOCKET)
}

/// Returns the state directory that applies without a flag.
pub(crate) fn default_state() -> PathBuf {
    path_from_environment("TAUT_STATE_DIR", STATE_DIR)
}

fn path_from_environment(name: &str, otherwise: &str) -> PathBuf {
    std::env::var_os(name).filter(|value| !value.is_empty()).map_or_else(|| PathBuf::from(otherwise), PathBuf::from)
}

/// The flags of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonFlags {
    pub(crate) state: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) port: Option<u16>,
    /// Number of lanes; `None` if they are opened by load.
    pub(crate) lanes: Option<u8>,
    pub(crate) tun: String,
    /// MTU of the TUN device; `None` if it follows the packet limits of the paths.
    pub(crate) mtu: Option<u16>,
    pub(crate) tun_offload: bool,
    pub(crate) tun_steering: bool,
    pub(crate) udp_gso: bool,
    pub(crate) udp_gro: bool,
    pub(crate) low_latency: bool,
    pub(crate) ecn: bool,
    pub(crate) suites: Suites,
    /// Subnet routes.
    pub(crate) routes: RouteOptions,
    pub(crate) portmap: bool,
    /// Limit on the sockets of a port search.
    pub(crate) search_sockets: u16,
    /// Age of the WireGuard key at which it is rotated.
    pub(crate) rotate_key_every: Option<Duration>,
    /// Address that serves Prometheus metrics.
    pub(crate) metrics: Option<SocketAddr>,
    /// The events to record.
    pub(crate) log_levels: Levels,
}

/// The help text of [`DaemonFlags`]: a macro, because `concat!` takes only literals.
macro_rules! daemon_details {
    () => {
        "\
--state DIR        directory of the keys, the membership and the last map (default /var/lib/taut)
--socket PATH      local socket of the daemon (default /run/taut/taut.sock)
--port N           UDP port (default: that of the last run, else 8288, else any free one)
--lanes N          threads that move packets, 1 to 16; each uses a UDP port (default auto: one, and more while several flows need them)
--tun NAME         name of the TUN device (default taut0)
--mtu N            MTU of the TUN device, 1280 to 65440 (default auto: the longest packet that a path carries, which is measured)
--advertise-routes LIST  offer the networks behind this host to other nodes, once approved: prefixes with commas, such as 192.168.10.0/24;
                   `10.1.0.0/24 as 10.201.0.0/24` offers it under other addresses
--accept-routes    use the approved networks behind other nodes
--snat on|off      give packets to the networks behind this host its own address (default on; off: the networks route back by this host)
--low-latency      busy-poll for 50 ms after each packet: lower latency, up to one core of CPU time per lane
--rotate-key-every TIME  replace the WireGuard key when it is this old, at least 1d (default never); `taut rotate-key` does it at once
--metrics ADDRESS  serve Prometheus metrics on this address (PORT on 127.0.0.1, or IP:PORT); anyone who can connect can read them
--log-level LEVELS events to record: error, warn, info, debug or trace, with exceptions per area such as info,path=debug (default info)
--no-tun-offload   disable checksum and segmentation offload of the TUN device
--no-tun-steering  distribute packets to lanes in user space instead of with eBPF
--no-udp-gso       disable segmentation offload of the UDP socket
--no-udp-gro       disable receive offload of the UDP socket
--no-ecn           do not ask TCP in the overlay for congestion notification, and mark no packets: more delay beside a fast stream
--no-portmap       do not request port mappings from the router (PCP, NAT-PMP, UPnP)
--search-sockets N sockets of a port search, which finds a peer behind a symmetric NAT, 0 to 1024 (default 256; 0: stay on the relay)
--suites LIST      ciphers for data between Taut nodes: AEGIS256X4, AES256GCM, ChaCha20Poly1305 (default: all that this processor has fast; the
                   first of them that both ends have is used, and the last one is always available)
--no-aes           short for --suites ChaCha20Poly1305"
    };
}
pub(crate) use daemon_details;

impl DaemonFlags {
    /// Returns the flags that the environment sets, with defaults for the others.
    pub(crate) fn from_environment() -> Self {
        Self { state: default_state(), socket: default_socket(), ..Self::new() }
    }

    fn new() -> Self {
        Self {
            state: PathBuf::from(STATE_DIR),
            socket: PathBuf::from(SOCKET),
            port: None,
            lanes: None,
            tun: String::from(TUN),
            mtu: None,
            tun_offload: true,
            tun_steering: true,
            udp_gso: true,
            udp_gro: true,
            low_latency: false,
            ecn: true,
            suites: Suites::ALL,
            routes: RouteOptions::default(),
            portmap: true,
            search_sockets: taut_agent::SEARCH_SOCKETS,
            rotate_key_every: None,
            metrics: None,
            log_levels: Levels::default(),
        }
    }

    /// Parses `flag` and its value. Returns false if it is not a flag of the daemon.
    pub(crate) fn take(&mut self, flag: &str, words: &mut Words) -> Result<bool, Fault> {
        match flag {
            "--state" => self.state = PathBuf::from(words.value()?),
            "--socket" => self.socket = PathBuf::from(words.value()?),
            "--port" => self.port = Some(port(&words.value()?)?),
            "--lanes" => self.lanes = lanes(&words.value()?)?,
            "--tun" => self.tun = interface_name("--tun", words.value()?)?,
            "--mtu" => self.mtu = mtu(&words.value()?)?,
            "--advertise-routes" => self.routes.advertise = routes::parse(&words.value()?)?,
            "--accept-routes" => self.routes.accept = true,
            "--snat" => self.routes.snat = routes::snat(&words.value()?)?,
            "--low-latency" => self.low_latency = true,
            "--no-tun-offload" => self.tun_offload = false,
            "--no-tun-steering" => self.tun_steering = false,
            "--no-udp-gso" => self.udp_gso = false,
            "--no-udp-gro" => self.udp_gro = false,
            "--no-ecn" => self.ecn = false,
            "--suites" => self.suites = suites::parse(&words.value()?)?,
            "--no-aes" => self.suites = Suites::STOCK,
            "--no-portmap" => self.portmap = false,
            "--search-sockets" => self.search_sockets = search_sockets(&words.value()?)?,
            "--rotate-key-every" => self.rotate_key_every = Some(key_age(words.time(flag)?)?),
            "--metrics" => self.metrics = Some(metrics(&words.value()?)?),
            "--log-level" => self.log_levels = levels("--log-level", &words.value()?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the arguments for a daemon with these flags. Paths are made absolute, because the daemon runs in another directory.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let mut words: Vec<OsString> = vec!["--state".into(), absolute(&self.state).into()];
        words.extend(["--socket".into(), absolute(&self.socket).into()]);
        words.extend(["--tun".into(), self.tun.clone().into()]);
        if let Some(mtu) = self.mtu {
            words.extend(["--mtu".into(), mtu.to_string().into()]);
        }
        if let Some(lanes) = self.lanes {
            words.extend(["--lanes".into(), lanes.to_string().into()]);
        }
        if let Some(port) = self.port {
            words.extend(["--port".into(), port.to_string().into()]);
        }
        let switches = [
            ("--no-tun-offload", self.tun_offload),
            ("--no-tun-steering", self.tun_steering),
            ("--no-udp-gso", self.udp_gso),
            ("--no-udp-gro", self.udp_gro),
            ("--no-ecn", self.ecn),
            ("--no-portmap", self.portmap),
        ];
        for (switch, on) in switches {
            words.extend((!on).then(|| switch.into()));
        }
        if let Some(suites) = suites::to_argument(self.suites) {
            words.extend(["--suites".into(), suites.into()]);
        }
        words.extend(["--search-sockets".into(), self.search_sockets.to_string().into()]);
        words.extend(routes::to_arguments(&self.routes));
        words.extend(self.low_latency.then(|| "--low-latency".into()));
        if let Some(age) = self.rotate_key_every {
            words.extend(["--rotate-key-every".into(), format!("{}s", age.as_secs()).into()]);
        }
        if let Some(metrics) = self.metrics {
            words.extend(["--metrics".into(), metrics.to_string().into()]);
        }
        if self.log_levels != Levels::default() {
            words.extend(["--log-level".into(), self.log_levels.to_string().into()]);
        }
        words
    }
}

fn port(text: &str) -> Result<u16, Fault> {
    text.parse()
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| Fault::usage(format!("--port {text}: write a number from 1 to 65535")))
}

/// Parses the value of `--metrics`. A bare port means a port of 127.0.0.1.
fn metrics(text: &str) -> Result<SocketAddr, Fault> {
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    text.parse().ok().or_else(|| text.parse().ok().map(here)).filter(|address| address.port() != 0).ok_or_else(|| {
        Fault::usage(format!("--metrics {text}: write a port, or an address and a port such as 127.0.0.1:9288"))
    })
}

/// Parses the choice of events to record.
pub(crate) fn levels(flag: &str, text: &str) -> Result<Levels, Fault> {
    text.parse().map_err(|error| {
        let mut words = text.split([',', '=']).map(str::trim);
        let unknown = words.find(|word| Area::of(word).is_none() && !LEVELS.contains(word)).unwrap_or_default();
        Fault::usage(format!("{flag}: {error}{}", area_suggestion(unknown)))
    })
}

/// Returns `; did you mean …?` for a word that is close to the name of an area or a level.
pub(crate) fn area_suggestion(word: &str) -> String {
    suggestion(word, Area::names().split(", ").chain(LEVELS))
}

fn lanes(text: &str) -> Result<Option<u8>, Fault> {
    if text == "auto" {
        return Ok(None);
    }
    text.parse()
        .ok()
        .filter(|lanes| (1..=MAX_LANES).contains(&usize::from(*lanes)))
        .map(Some)
        .ok_or_else(|| Fault::usage(format!("--lanes {text}: write `auto` or a number from 1 to {MAX_LANES}")))
}

/// Shortest age at which a key is rotated, one day: the coordinator allows four rotations a day.
const YOUNGEST_KEY: Duration = Duration::from_secs(86_400);

fn key_age(age: Duration) -> Result<Duration, Fault> {
    match age >= YOUNGEST_KEY {
        true => Ok(age),
        false => {
            Err(Fault::usage("--rotate-key-every: the time is at least 1d; `taut rotate-key` rotates the key at once"))
        }
    }
}

fn search_sockets(text: &str) -> Result<u16, Fault> {
    text.parse()
        .ok()
        .filter(|sockets| *sockets <= MOST_SEARCH_SOCKETS)
        .ok_or_else(|| Fault::usage(format!("--search-sockets {text}: write a number from 0 to {MOST_SEARCH_SOCKETS}")))
}

fn mtu(text: &str) -> Result<Option<u16>, Fault> {
    if text == "auto" {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|mtu| (MIN_MTU..=MAX_MTU).contains(mtu));
    let wrong = || Fault::usage(format!("--mtu {text}: write `auto`, or a number from {MIN_MTU} to {MAX_MTU}"));
    number.map(Some).ok_or_else(wrong)
}

/// Checks the name of an interface: the kernel's rules (net/core/dev.c, `dev_valid_name`), without characters that a shell would need quoted.
pub(crate) fn interface_name(flag: &str, text: String) -> Result<String, Fault> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let valid = !text.is_empty()
        && text.len() <= MAX_INTERFACE_NAME
        && text.bytes().all(allowed)
        && text != "."
        && text != "..";
    match valid {
        true => Ok(text),
        false => Err(Fault::usage(format!(
            "{flag} {text}: write 1 to {MAX_INTERFACE_NAME} letters, digits, `-`, `_` or `.`"
        ))),
    }
}

#[cfg(test)]
mod tests;
