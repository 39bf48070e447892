//! `taut wg`, also under the name `taut-wg`: a userspace WireGuard interface, configured with `wg`.

mod background;

use std::os::fd::OwnedFd;
use std::time::Duration;

use taut_agent::wg;
use taut_base::MAX_LANES;

use crate::fault::Fault;
use crate::flags::{Word, Words, interface_name, unexpected};
use crate::version::VERSION;
use crate::{WG_PROGRAM, launch, output};

pub(crate) const ARGUMENTS: &str =
    "[-f|--foreground] [--lanes N] [--low-latency] [--no-tun-offload] [--no-udp-gso] [--no-udp-gro] INTERFACE";

pub(crate) const DETAILS: &str = "\
Creates INTERFACE without addresses, and serves `wg` on /var/run/wireguard/INTERFACE.sock until SIGTERM or SIGINT, until the interface\n\
is deleted (`ip link delete`) or until the socket is removed. It needs no coordinator. It goes to the background once the interface and\n\
the socket exist. Its UDP socket stays in the network namespace in which the program was started.\n\n\
-f, --foreground   stay in the foreground\n\
--lanes N          threads that move packets, 1 (the default) to 16; each peer belongs to one of them, and all use one UDP port\n\
--low-latency      busy-poll for 50 ms after each packet: lower latency, up to one core of CPU time\n\
--no-tun-offload   disable checksum and segmentation offload of the TUN device\n\
--no-udp-gso       disable segmentation offload of the UDP socket\n\
--no-udp-gro       disable receive offload of the UDP socket\n\n\
`taut-wg INTERFACE` does the same, for WG_QUICK_USERSPACE_IMPLEMENTATION=taut-wg.\n\n\
Environment: LOG_LEVEL is silent, error (the default) or verbose (also debug); if it is set and not silent, standard error stays open in\n\
the background. WG_PROCESS_FOREGROUND=1 means -f. WG_TUN_FD and WG_UAPI_FD are numbers of inherited descriptors: a queue of the TUN\n\
device, and the listening socket for `wg`.";

/// Variable that means `-f`, with the name that wireguard-go uses.
const FOREGROUND: &str = "WG_PROCESS_FOREGROUND";

/// Variables with the numbers of inherited descriptors, with the names that wireguard-go uses: a queue of the TUN device, and the listening socket
/// for `wg`. The background process inherits both descriptors, too.
const TUN_FD: &str = "WG_TUN_FD";
const UAPI_FD: &str = "WG_UAPI_FD";

/// Environment variable for tests: age in seconds at which a session is rekeyed, as for `taut daemon`.
const TEST_REKEY: &str = "TAUT_TEST_REKEY_AFTER_S";

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let mut foreground = std::env::var(FOREGROUND).is_ok_and(|value| value == "1");
    let mut interface = None;
    let mut config = wg::WgConfig {
        interface: String::new(),
        tun_offload: true,
        udp_gso: true,
        udp_gro: true,
        lanes: 1,
        low_latency: false,
        rekey_after: std::env::var(TEST_REKEY).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs),
    };
    while let Some(word) = words.next()? {
        match word {
            // Installers request the version with wireguard-go's flag.
            Word::Flag(flag) if flag == "--version" => {
                return output::print(&format!("{WG_PROGRAM} v{VERSION}"));
            }
            Word::Flag(flag) if flag == "-f" || flag == "--foreground" => foreground = true,
            Word::Flag(flag) if flag == "--lanes" => config.lanes = lanes(&words.value()?)?,
            Word::Flag(flag) if flag == "--low-latency" => config.low_latency = true,
            Word::Flag(flag) if flag == "--no-tun-offload" => config.tun_offload = false,
            Word::Flag(flag) if flag == "--no-udp-gso" => config.udp_gso = false,
            Word::Flag(flag) if flag == "--no-udp-gro" => config.udp_gro = false,
            Word::Value(name) if interface.is_none() => interface = Some(interface_name("INTERFACE", &name)?),
            other => return Err(unexpected(&other)),
        }
    }
    config.interface = interface.ok_or_else(|| Fault::usage("name the interface to create, such as wg0"))?;
    let log = Log::from_environment();
    let result = match background::Child::of_parent() {
        Some(child) => child.run(|ready| serve(&config, log, ready)),
        None if foreground => serve(&config, log, || {}),
        None => background::start(&config, log),
    };
    result.map_err(|fault| if log == Log::Silent { Fault::Reported } else { fault })
}

fn lanes(text: &str) -> Result<u8, Fault> {
    let lanes = text.parse().ok().filter(|lanes| (1..=MAX_LANES).contains(&usize::from(*lanes)));
    lanes.ok_or_else(|| Fault::usage(format!("--lanes {text}: write a number from 1 to {MAX_LANES}")))
}

fn serve(config: &wg::WgConfig, log: Log, ready: impl FnOnce()) -> Result<(), Fault> {
    launch::check_device()?;
    let ready = || {
        if log == Log::Verbose {
            output::complain(&format!("taut wg: {} answers `wg`", config.interface));
        }
        ready();
    };
    let inherited = wg::Inherited { tun: inherited(TUN_FD)?, uapi: inherited(UAPI_FD)? };
    let complain = |error: &wg::WgError| {
        if log != Log::Silent {
            output::complain(&format!("taut wg: {} is up, but cannot be used yet: {error}", config.interface));
        }
    };
    wg::run(config, inherited, ready, complain).map_err(|error| Fault::failed(error.to_string(), ""))
}

/// Returns the descriptor that a variable names, if it is set.
fn inherited(variable: &str) -> Result<Option<OwnedFd>, Fault> {
    let Some(text) = std::env::var(variable).ok().filter(|text| !text.is_empty()) else { return Ok(None) };
    let refused = |why: &dyn std::fmt::Display| {
        Fault::failed(format!("{variable}={text} is not a descriptor that this program was started with: {why}"), "")
    };
    let number = text.parse().map_err(|error: std::num::ParseIntError| refused(&error))?;
    taut_event::inherit(number).map(Some).map_err(|error| refused(&error))
}

/// The verbosity of standard error, from `LOG_LEVEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log {
    Silent,
    /// `LOG_LEVEL` is not set: errors are printed until the program is in the background.
    Default,
    Error,
    Verbose,
}

impl Log {
    fn from_environment() -> Self {
        match std::env::var("LOG_LEVEL").as_deref() {
            Ok("silent") => Self::Silent,
            Ok("verbose" | "debug") => Self::Verbose,
            Err(_) | Ok("") => Self::Default,
            Ok(_) => Self::Error,
        }
    }
}
