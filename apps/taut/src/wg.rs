//! `taut wg`, or the program under the name `taut-wg`: a plain userspace WireGuard that the stock `wg` configures.

use std::time::Duration;

use taut_keeper::wg;

use crate::fault::Fault;
use crate::flags::{Word, Words, interface_name, unexpected};
use crate::{launch, output};

/// The program's other name: what `wg-quick` and people may call.
pub(crate) const PROGRAM: &str = "taut-wg";

pub(crate) const ARGUMENTS: &str = "-f|--foreground [--no-tun-offload] [--no-udp-gso] [--no-udp-gro] INTERFACE";

pub(crate) const DETAILS: &str = "\
Makes INTERFACE, without addresses, and answers `wg` on /var/run/wireguard/INTERFACE.sock until SIGTERM or SIGINT comes, the interface \n\
is deleted (`ip link delete`) or the socket is removed. No coordinator and no network of Taut has a part in it.\n\n\
-f, --foreground   stay in the foreground; the only way so far\n\
--no-tun-offload   do without checksum and segmentation offload of the TUN device\n\
--no-udp-gso       do without segmentation offload of the UDP socket\n\
--no-udp-gro       do without receive offload of the UDP socket\n\n\
Also as `taut-wg -f INTERFACE`. Environment: LOG_LEVEL is silent, error (the default) or verbose.";

/// Tests only, as for `taut daemon`.
const TEST_REKEY: &str = "TAUT_TEST_REKEY_AFTER_S";

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut foreground, mut interface) = (false, None);
    let mut config = wg::Config {
        interface: String::new(),
        tun_offload: true,
        udp_gso: true,
        udp_gro: true,
        rekey_after: std::env::var(TEST_REKEY).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs),
    };
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "-f" || flag == "--foreground" => foreground = true,
            Word::Flag(flag) if flag == "--no-tun-offload" => config.tun_offload = false,
            Word::Flag(flag) if flag == "--no-udp-gso" => config.udp_gso = false,
            Word::Flag(flag) if flag == "--no-udp-gro" => config.udp_gro = false,
            Word::Value(name) if interface.is_none() => interface = Some(interface_name("INTERFACE", name)?),
            other => return Err(unexpected(&other)),
        }
    }
    config.interface = interface.ok_or_else(|| Fault::usage("say which interface to make, such as wg0"))?;
    if !foreground {
        // Whoever starts it without the flag waits for it to go to the background, and would wait for ever.
        return Err(Fault::usage(format!(
            "it cannot leave the foreground yet; use `taut wg -f {}`, followed by `&` or under a service manager",
            config.interface
        )));
    }
    launch::check_host()?;
    if std::env::var("LOG_LEVEL").is_ok_and(|level| matches!(level.as_str(), "verbose" | "debug")) {
        output::complain(&format!("taut wg: {} answers `wg`", config.interface));
    }
    wg::run(&config).map_err(|error| Fault::Failed(error.to_string()))
}
