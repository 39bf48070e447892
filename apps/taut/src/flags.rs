//! Flags: read word by word, and the ones that several verbs share.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::{Arg, Parser};
use taut_agent::log::Levels;
use taut_base::{DEFAULT_MTU, MAX_LANES, MAX_MTU, MIN_MTU};

use crate::fault::Fault;

/// Where the state is kept unless told otherwise.
const STATE_DIR: &str = "/var/lib/taut";
/// Where the daemon answers unless told otherwise.
const SOCKET: &str = "/run/taut/taut.sock";
/// Name of the TUN device unless told otherwise.
const TUN: &str = "taut0";
/// Longest name of a network interface: `IFNAMSIZ` less the closing zero (include/uapi/linux/if.h).
const MAX_INTERFACE_NAME: usize = 15;
/// More are more than most NATs have room for, and make a round longer than it lasts.
const MOST_SEARCH_SOCKETS: u16 = 1_024;

/// What stands behind the verb, word by word.
pub(crate) struct Words(Parser);

/// One word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// A flag, with its hyphens.
    Flag(String),
    /// Anything else.
    Value(String),
}

impl Words {
    pub(crate) fn new(words: impl Iterator<Item = OsString>) -> Self {
        Self(Parser::from_args(words))
    }

    /// The next word; [`Fault::Help`] when it asks for help.
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

    /// What follows a flag.
    pub(crate) fn value(&mut self) -> Result<String, Fault> {
        text(self.0.value()?)
    }

    /// What follows a flag, read as a time.
    pub(crate) fn time(&mut self, flag: &str) -> Result<Duration, Fault> {
        let value = self.value()?;
        duration(&value).ok_or_else(|| Fault::usage(format!("{flag} {value}: write a time such as 500ms, 5s or 2m")))
    }
}

fn text(value: OsString) -> Result<String, Fault> {
    value.into_string().map_err(|value| Fault::usage(format!("`{}` is not UTF-8", value.to_string_lossy())))
}

/// A word that no flag of the verb matches.
pub(crate) fn unexpected(word: &Word) -> Fault {
    match word {
        Word::Flag(flag) => Fault::UnknownFlag(flag.clone()),
        Word::Value(value) => Fault::usage(format!("`{value}` is one word too many")),
    }
}

/// Reads `500ms`, `5s`, `2m`, or a bare number of seconds.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let (whole, unit) = text.split_at(digits.len());
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let plain = whole.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = whole.parse().ok().filter(|_| plain)?;
    Duration::try_from_secs_f64(number * seconds_per_unit).ok()
}

/// Where the daemon answers, before flags say otherwise.
pub(crate) fn default_socket() -> PathBuf {
    path_from_environment("TAUT_SOCKET", SOCKET)
}

/// Where the state is kept, before flags say otherwise.
pub(crate) fn default_state() -> PathBuf {
    path_from_environment("TAUT_STATE_DIR", STATE_DIR)
}

fn path_from_environment(name: &str, otherwise: &str) -> PathBuf {
    std::env::var_os(name).filter(|value| !value.is_empty()).map_or_else(|| PathBuf::from(otherwise), PathBuf::from)
}

/// What a daemon is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonFlags {
    pub(crate) state: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) port: Option<u16>,
    pub(crate) lanes: u8,
    pub(crate) tun: String,
    pub(crate) mtu: u16,
    pub(crate) tun_offload: bool,
    pub(crate) tun_steering: bool,
    pub(crate) udp_gso: bool,
    pub(crate) udp_gro: bool,
    pub(crate) low_latency: bool,
    pub(crate) aes: bool,
    pub(crate) portmap: bool,
    /// Sockets that a search for a peer behind a hard NAT may open.
    pub(crate) search_sockets: u16,
    /// Where a Prometheus may read the figures.
    pub(crate) metrics: Option<SocketAddr>,
    /// Which events are recorded.
    pub(crate) log_levels: Levels,
}

/// Help for the flags of [`DaemonFlags`]: a macro, because `concat!` takes no constants.
macro_rules! daemon_details {
    () => {
        "\
--state DIR        where keys, membership and the last map are kept (default /var/lib/taut)
--socket PATH      where the daemon answers (default /run/taut/taut.sock)
--port N           UDP port; without it that of the last run, else 8288, else any that is free
--lanes N          threads that move packets, 1 to 16 (default 1), each on a UDP port of its own: those that follow the first
--tun NAME         name of the TUN device (default taut0)
--mtu N            MTU of the TUN device, 1280 to 65440 (default 1420)
--low-latency      wait for packets without sleeping for 50 ms after each: sooner there, for up to a core of processor time per lane
--metrics ADDRESS  hand the figures of `taut metrics` to a Prometheus there: a port of 127.0.0.1, or IP:PORT; all who can connect may read them
--log-level LEVELS events to record (default info): error, warn, info, debug or trace, and others for some areas, such as info,path=debug
--no-tun-offload   do without checksum and segmentation offload of the TUN device
--no-tun-steering  deal packets out to lanes by ourselves, not by a program in the kernel
--no-udp-gso       do without segmentation offload of the UDP socket
--no-udp-gro       do without receive offload of the UDP socket
--no-portmap       ask no router for a port (PCP, NAT-PMP, UPnP)
--search-sockets N sockets opened for some seconds to meet a peer through a symmetric NAT, 0 to 1024 (default 256; 0: stay on the relay)
--no-aes           seal with ChaCha20-Poly1305 even where both ends have AES in hardware"
    };
}
pub(crate) use daemon_details;

impl DaemonFlags {
    /// What the environment says, before flags say otherwise.
    pub(crate) fn from_environment() -> Self {
        Self { state: default_state(), socket: default_socket(), ..Self::new() }
    }

    fn new() -> Self {
        Self {
            state: PathBuf::from(STATE_DIR),
            socket: PathBuf::from(SOCKET),
            port: None,
            lanes: 1,
            tun: String::from(TUN),
            mtu: DEFAULT_MTU,
            tun_offload: true,
            tun_steering: true,
            udp_gso: true,
            udp_gro: true,
            low_latency: false,
            aes: true,
            portmap: true,
            search_sockets: taut_agent::SEARCH_SOCKETS,
            metrics: None,
            log_levels: Levels::default(),
        }
    }

    /// Takes `flag` with its value, if it is one of these; false when it is not.
    pub(crate) fn take(&mut self, flag: &str, words: &mut Words) -> Result<bool, Fault> {
        match flag {
            "--state" => self.state = PathBuf::from(words.value()?),
            "--socket" => self.socket = PathBuf::from(words.value()?),
            "--port" => self.port = Some(port(&words.value()?)?),
            "--lanes" => self.lanes = lanes(&words.value()?)?,
            "--tun" => self.tun = interface_name("--tun", words.value()?)?,
            "--mtu" => self.mtu = mtu(&words.value()?)?,
            "--low-latency" => self.low_latency = true,
            "--no-tun-offload" => self.tun_offload = false,
            "--no-tun-steering" => self.tun_steering = false,
            "--no-udp-gso" => self.udp_gso = false,
            "--no-udp-gro" => self.udp_gro = false,
            "--no-aes" => self.aes = false,
            "--no-portmap" => self.portmap = false,
            "--search-sockets" => self.search_sockets = search_sockets(&words.value()?)?,
            "--metrics" => self.metrics = Some(metrics(&words.value()?)?),
            "--log-level" => self.log_levels = levels("--log-level", &words.value()?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The command line of a daemon with these flags. Paths are made absolute, because it runs elsewhere.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let mut words: Vec<OsString> = vec!["--state".into(), absolute(&self.state).into()];
        words.extend(["--socket".into(), absolute(&self.socket).into()]);
        words.extend(["--tun".into(), self.tun.clone().into()]);
        words.extend(["--mtu".into(), self.mtu.to_string().into()]);
        words.extend(["--lanes".into(), self.lanes.to_string().into()]);
        if let Some(port) = self.port {
            words.extend(["--port".into(), port.to_string().into()]);
        }
        let switches = [
            ("--no-tun-offload", self.tun_offload),
            ("--no-tun-steering", self.tun_steering),
            ("--no-udp-gso", self.udp_gso),
            ("--no-udp-gro", self.udp_gro),
            ("--no-aes", self.aes),
            ("--no-portmap", self.portmap),
        ];
        for (switch, on) in switches {
            words.extend((!on).then(|| switch.into()));
        }
        words.extend(["--search-sockets".into(), self.search_sockets.to_string().into()]);
        words.extend(self.low_latency.then(|| "--low-latency".into()));
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

/// A bare port means this host only.
fn metrics(text: &str) -> Result<SocketAddr, Fault> {
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    text.parse().ok().or_else(|| text.parse().ok().map(here)).filter(|address| address.port() != 0).ok_or_else(|| {
        Fault::usage(format!("--metrics {text}: write a port, or an address and a port such as 127.0.0.1:9288"))
    })
}

/// Reads which events are recorded.
pub(crate) fn levels(flag: &str, text: &str) -> Result<Levels, Fault> {
    text.parse().map_err(|error| Fault::usage(format!("{flag}: {error}")))
}

fn lanes(text: &str) -> Result<u8, Fault> {
    text.parse()
        .ok()
        .filter(|lanes| (1..=MAX_LANES).contains(&usize::from(*lanes)))
        .ok_or_else(|| Fault::usage(format!("--lanes {text}: write a number from 1 to {MAX_LANES}")))
}

fn search_sockets(text: &str) -> Result<u16, Fault> {
    text.parse()
        .ok()
        .filter(|sockets| *sockets <= MOST_SEARCH_SOCKETS)
        .ok_or_else(|| Fault::usage(format!("--search-sockets {text}: write a number from 0 to {MOST_SEARCH_SOCKETS}")))
}

fn mtu(text: &str) -> Result<u16, Fault> {
    text.parse()
        .ok()
        .filter(|mtu| (MIN_MTU..=MAX_MTU).contains(mtu))
        .ok_or_else(|| Fault::usage(format!("--mtu {text}: write a number from {MIN_MTU} to {MAX_MTU}")))
}

/// What the kernel takes as a name (net/core/dev.c, `dev_valid_name`), less what would need quoting.
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
