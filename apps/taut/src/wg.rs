//! `taut wg`, or the program under the name `taut-wg`: a plain userspace WireGuard that the stock `wg` configures.

mod background;

use std::os::fd::OwnedFd;
use std::time::Duration;

use taut_agent::wg;

use crate::fault::Fault;
use crate::flags::{Word, Words, interface_name, unexpected};
use crate::version::VERSION;
use crate::{launch, output};

/// The program's other name: what `wg-quick` and people may call.
pub(crate) const PROGRAM: &str = "taut-wg";

pub(crate) const ARGUMENTS: &str =
    "[-f|--foreground] [--low-latency] [--no-tun-offload] [--no-udp-gso] [--no-udp-gro] INTERFACE";

pub(crate) const DETAILS: &str = "\
Makes INTERFACE, without addresses, and answers `wg` on /var/run/wireguard/INTERFACE.sock until SIGTERM or SIGINT comes, the interface \n\
is deleted (`ip link delete`) or the socket is removed. No coordinator and no network of Taut has a part in it. It goes to the \n\
background when interface and socket are there. Its UDP socket stays in the network namespace it was started in.\n\n\
-f, --foreground   stay in the foreground\n\
--low-latency      wait for packets without sleeping for 50 ms after each: sooner there, for up to a core of processor time\n\
--no-tun-offload   do without checksum and segmentation offload of the TUN device\n\
--no-udp-gso       do without segmentation offload of the UDP socket\n\
--no-udp-gro       do without receive offload of the UDP socket\n\n\
Also as `taut-wg INTERFACE`, for WG_QUICK_USERSPACE_IMPLEMENTATION=taut-wg. Environment: LOG_LEVEL is silent, error (the default) or \n\
verbose (also debug); where it is set and not silent, standard error stays open in the background. WG_PROCESS_FOREGROUND=1 is -f. \n\
WG_TUN_FD and WG_UAPI_FD are numbers of inherited descriptors: a queue of the TUN device, and the listening socket for `wg`.";

/// As `-f`, by wireguard-go's name.
const FOREGROUND: &str = "WG_PROCESS_FOREGROUND";

/// Numbers of descriptors that another program opened for us, by wireguard-go's names: a queue of the TUN device, and the socket
/// that `wg` asks. They need no passing on to the background: what is inherited once is inherited again.
const TUN_FD: &str = "WG_TUN_FD";
const UAPI_FD: &str = "WG_UAPI_FD";

/// Tests only, as for `taut daemon`.
const TEST_REKEY: &str = "TAUT_TEST_REKEY_AFTER_S";

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let mut foreground = std::env::var(FOREGROUND).is_ok_and(|value| value == "1");
    let mut interface = None;
    let mut config = wg::WgConfig {
        interface: String::new(),
        tun_offload: true,
        udp_gso: true,
        udp_gro: true,
        low_latency: false,
        rekey_after: std::env::var(TEST_REKEY).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs),
    };
    while let Some(word) = words.next()? {
        match word {
            // As wireguard-go: installers ask for it.
            Word::Flag(flag) if flag == "--version" => {
                return output::print(&format!("{PROGRAM} v{VERSION}"));
            }
            Word::Flag(flag) if flag == "-f" || flag == "--foreground" => foreground = true,
            Word::Flag(flag) if flag == "--low-latency" => config.low_latency = true,
            Word::Flag(flag) if flag == "--no-tun-offload" => config.tun_offload = false,
            Word::Flag(flag) if flag == "--no-udp-gso" => config.udp_gso = false,
            Word::Flag(flag) if flag == "--no-udp-gro" => config.udp_gro = false,
            Word::Value(name) if interface.is_none() => interface = Some(interface_name("INTERFACE", name)?),
            other => return Err(unexpected(&other)),
        }
    }
    config.interface = interface.ok_or_else(|| Fault::usage("say which interface to make, such as wg0"))?;
    let log = Log::from_environment();
    let result = match background::Child::of_parent() {
        Some(child) => child.run(|ready| serve(&config, log, ready)),
        None if foreground => serve(&config, log, || {}),
        None => background::start(&config, log),
    };
    result.map_err(|fault| if log == Log::Silent { Fault::Said } else { fault })
}

fn serve(config: &wg::WgConfig, log: Log, ready: impl FnOnce()) -> Result<(), Fault> {
    launch::check_host()?;
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

/// The descriptor that a variable names, if it is set.
fn inherited(variable: &str) -> Result<Option<OwnedFd>, Fault> {
    let Some(text) = std::env::var(variable).ok().filter(|text| !text.is_empty()) else { return Ok(None) };
    let refused = |why: &dyn std::fmt::Display| {
        Fault::failed(format!("{variable}={text} is not a descriptor that this program was started with: {why}"), "")
    };
    let number = text.parse().map_err(|error: std::num::ParseIntError| refused(&error))?;
    taut_event::inherit(number).map(Some).map_err(|error| refused(&error))
}

/// How much is said on standard error: `LOG_LEVEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log {
    Silent,
    /// Nobody said anything: errors, until the program is in the background.
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
