//! `taut daemon`: the node itself, in the foreground.

use std::time::Duration;

use taut_agent::DaemonConfig;

use crate::fault::Fault;
use crate::flags::{DaemonFlags, Word, Words, daemon_details, unexpected};
use crate::launch;
use crate::version::VERSION;

pub(crate) const ARGUMENTS: &str =
    "[--state DIR] [--socket PATH] [--port N] [--tun NAME] [--mtu N] [--no-tun-offload] …";

pub(crate) const DETAILS: &str = concat!(
    "Runs until SIGTERM, SIGINT or, with --ephemeral, `taut down`. It connects at once when it was up when it last ended.\n\n",
    daemon_details!(),
    "\n--ephemeral        leave the terminal, and end with `taut down`: how `taut up` starts a daemon"
);

/// Tests only: seconds after which sessions make new keys. Shorter than WireGuard's 120 s, so that a test sees several rekeys.
const TEST_REKEY: &str = "TAUT_TEST_REKEY_AFTER_S";

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut flags, mut ephemeral) = (DaemonFlags::from_environment(), false);
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flag == "--ephemeral" => ephemeral = true,
            Word::Flag(flag) if flags.take(flag, &mut words)? => {}
            other => return Err(unexpected(other)),
        }
    }
    launch::check_host()?;
    if ephemeral {
        // Fails only for a process that leads its group already, such as one started by hand from a shell; it is as it wants to be.
        let _ = taut_event::new_session();
    }
    taut_agent::run(config(flags, ephemeral)).map_err(|error| Fault::failed(error.to_string(), ""))
}

fn config(flags: DaemonFlags, ephemeral: bool) -> DaemonConfig {
    DaemonConfig {
        state_dir: flags.state,
        socket: flags.socket,
        port: flags.port,
        lanes: flags.lanes,
        tun_name: flags.tun,
        mtu: flags.mtu,
        tun_offload: flags.tun_offload,
        tun_steering: flags.tun_steering,
        udp_gso: flags.udp_gso,
        udp_gro: flags.udp_gro,
        low_latency: flags.low_latency,
        aes: flags.aes,
        portmap: flags.portmap,
        search_sockets: flags.search_sockets,
        metrics: flags.metrics,
        exit_when_down: ephemeral,
        rekey_after: std::env::var(TEST_REKEY).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs),
        version: String::from(VERSION),
    }
}
