//! Fuzz targets: one function per parser, with assertions about its result beyond the absence of panics.
//!
//! A target takes any bytes. Where random bytes would never pass a key or a checksum, they are a script: pieces to seal, to alter, to replay, and the
//! target seals them. A panic is an error of the parser, or of the target.
//!
//! - `make test` **replays**: each file of `corpus/TARGET/`, and fresh mutations of each: some dozens by day, thousands in `make test-night`.
//! - `make fuzz` **searches** by coverage (libFuzzer, on the stable toolchain) and keeps inputs that reach new code. An input that breaks a parser stays
//!   in the corpus after the fix.
//!
//! Corpora begin with real messages ([`seeds`]; `cargo run -p taut-fuzz --example seeds` writes them). The HTTP input of the coordinator
//! is replayed by the coordinator's own tests, because a program cannot be called as a library.
//!
//! Guarantees: the same bytes give the same result, because there is no clock and all randomness comes from the bytes. No program may use this crate.

mod control;
mod dns;
mod forwarded;
mod input;
mod json;
mod lane;
mod mutate;
mod packets;
mod pieces;
mod policy;
mod portmap;
mod proxy;
mod reference;
mod relay;
mod relay_member;
mod release;
mod sealed;
mod seed;
mod session;
mod settings_file;
mod signature;
mod state;
mod superpackets;
mod text;
mod websocket;

use std::path::PathBuf;
use std::{fs, io};

pub use mutate::{fnv, mutations};
pub use seed::seeds;

/// Maximum length of an input that replay and search make, 8 KiB: longer than any datagram at a usual MTU, and long enough for a superpacket of several
/// segments.
pub const MAX_INPUT: usize = 8 * 1024;

/// A parser under test, and the number of mutations that replay makes.
pub struct Target {
    /// The name of the target and of its folder below `corpus/`.
    pub name: &'static str,
    /// The target's function, which panics if the parser breaks a guarantee.
    pub run: fn(&[u8]),
    /// Base number of mutations of each file in a replay: smaller for targets whose runs cost a handshake.
    pub mutations: u64,
}

/// All fuzz targets.
pub const TARGETS: [Target; 43] = [
    Target { name: "wireguard", run: packets::wireguard, mutations: 4_000 },
    Target { name: "control", run: packets::control, mutations: 4_000 },
    Target { name: "stun", run: packets::stun, mutations: 4_000 },
    Target { name: "relay-frame", run: relay::relay_frame, mutations: 4_000 },
    Target { name: "relay-ticket", run: relay::ticket, mutations: 1_000 },
    Target { name: "relay", run: relay::relay, mutations: 60 },
    Target { name: "relay-member", run: relay_member::member, mutations: 20 },
    Target { name: "packet", run: packets::packet, mutations: 4_000 },
    Target { name: "checksum", run: packets::checksum, mutations: 4_000 },
    Target { name: "split", run: superpackets::split, mutations: 4_000 },
    Target { name: "pieces", run: pieces::pieces, mutations: 4_000 },
    Target { name: "merge", run: superpackets::merge, mutations: 4_000 },
    Target { name: "lane", run: lane::lane, mutations: 2_000 },
    Target { name: "session", run: session::session, mutations: 150 },
    Target { name: "records", run: sealed::records, mutations: 500 },
    Target { name: "text", run: text::text, mutations: 2_000 },
    Target { name: "token", run: text::token, mutations: 2_000 },
    Target { name: "url", run: text::url, mutations: 2_000 },
    Target { name: "uapi", run: text::uapi, mutations: 2_000 },
    Target { name: "to-node", run: control::to_node, mutations: 2_000 },
    Target { name: "to-coordinator", run: control::to_coordinator, mutations: 2_000 },
    Target { name: "relay-channel", run: control::relay_channel, mutations: 2_000 },
    Target { name: "map", run: control::map, mutations: 2_000 },
    Target { name: "state-file", run: state::state_file, mutations: 1_000 },
    Target { name: "identity", run: state::identity, mutations: 1_000 },
    Target { name: "event-log", run: state::event_log, mutations: 2_000 },
    Target { name: "local-api", run: state::local_api, mutations: 500 },
    Target { name: "netlink", run: state::netlink, mutations: 4_000 },
    Target { name: "gateway-datagram", run: portmap::datagram, mutations: 4_000 },
    Target { name: "gateway-http", run: portmap::http, mutations: 2_000 },
    Target { name: "gateway-xml", run: portmap::xml, mutations: 2_000 },
    Target { name: "dns", run: dns::message, mutations: 4_000 },
    Target { name: "dns-stub", run: dns::stub, mutations: 1_000 },
    Target { name: "forwarded", run: forwarded::headers, mutations: 4_000 },
    Target { name: "proxy-header", run: forwarded::start, mutations: 4_000 },
    Target { name: "proxy-client", run: proxy::handshake, mutations: 4_000 },
    Target { name: "websocket", run: websocket::server, mutations: 4_000 },
    Target { name: "policy", run: policy::policy, mutations: 1_000 },
    Target { name: "toml", run: settings_file::settings_file, mutations: 4_000 },
    Target { name: "release", run: release::list, mutations: 4_000 },
    Target { name: "json", run: json::json, mutations: 4_000 },
    Target { name: "signature", run: signature::signature, mutations: 200 },
    Target { name: "portmap", run: portmap::machine, mutations: 1_000 },
];

/// Returns the folder of a target's corpus.
pub fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Returns the inputs of a target's corpus with their file names, sorted.
///
/// # Errors
/// When the folder or a file in it cannot be read.
pub fn inputs(target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(corpus(target))? {
        let entry = entry?;
        files.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}
