//! Every file of every corpus, and fresh mutations of each: a twentieth of the target's number by day, ten times that number by night. The first seed of
//! the run chooses the mutations, so `TAUT_SEED` repeats them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests may stop at the first surprise")]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::{env, fs};

use taut_fuzz::{TARGETS, Target, corpus, fnv, inputs, mutations, seeds};

/// Runs one input. An input that breaks the parser is written to a file that can be moved into the corpus.
fn run(target: &Target, input: &[u8], origin: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok() {
        return;
    }
    let path = env::temp_dir().join(format!("taut-fuzz-{}-{:016x}", target.name, fnv(input)));
    fs::write(&path, input).unwrap();
    panic!("{}: {origin} broke the target; fix the parser and move {} into the corpus", target.name, path.display());
}

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let (files, contents): (Vec<_>, Vec<_>) = inputs(name).unwrap().into_iter().unzip();
    for (file, input) in files.iter().zip(&contents) {
        run(target, input, file);
    }
    let run_of = taut_testkit::first();
    let many = taut_testkit::count(target.mutations.div_ceil(20), 10 * target.mutations);
    for (file, input) in files.iter().zip(&contents) {
        for (number, input) in mutations(input, &contents, run_of, many).enumerate() {
            run(target, &input, &format!("mutation {number} of {file} (TAUT_SEED={run_of})"));
        }
    }
}

macro_rules! replays {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            replay($name);
        })*

        const REPLAYED: &[&str] = &[$($name),*];
    };
}

replays! {
    wireguard: "wireguard",
    control: "control",
    packet: "packet",
    checksum: "checksum",
    split: "split",
    pieces: "pieces",
    merge: "merge",
    lane: "lane",
    session: "session",
    records: "records",
    text: "text",
    toml: "toml",
    token: "token",
    url: "url",
    uapi: "uapi",
    to_node: "to-node",
    to_coordinator: "to-coordinator",
    map: "map",
    state_file: "state-file",
    identity: "identity",
    event_log: "event-log",
    local_api: "local-api",
    netlink: "netlink",
    gateway_datagram: "gateway-datagram",
    gateway_http: "gateway-http",
    gateway_xml: "gateway-xml",
    policy: "policy",
    portmap: "portmap",
    dns: "dns",
    dns_stub: "dns-stub",
    forwarded: "forwarded",
    proxy_header: "proxy-header",
    stun: "stun",
    relay: "relay",
    relay_frame: "relay-frame",
    relay_ticket: "relay-ticket",
    relay_channel: "relay-channel",
    relay_member: "relay-member",
    release: "release",
    json: "json",
    signature: "signature",
    proxy_client: "proxy-client",
    websocket: "websocket",
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let targets: BTreeSet<_> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(targets, REPLAYED.iter().copied().collect());
    let folders = fs::read_dir(corpus("").as_path()).unwrap().map(|entry| entry.unwrap().path());
    let folders: BTreeSet<_> =
        folders.map(|path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    // The coordinator's own tests replay `http`.
    assert_eq!(folders.iter().map(String::as_str).filter(|name| *name != "http").collect::<BTreeSet<_>>(), targets);
}

#[test]
fn corpora_contain_the_current_seeds_and_are_small() {
    let (mut count, mut bytes) = (0, 0);
    for target in &TARGETS {
        let files = inputs(target.name).unwrap();
        count += files.len();
        bytes += files.iter().map(|(_, input)| input.len()).sum::<usize>();
        for seed in seeds(target.name) {
            assert!(files.iter().any(|(_, input)| *input == seed), "{}: run the example `seeds`", target.name);
        }
    }
    assert!(
        count <= 10 * TARGETS.len() && bytes <= 10_000 * TARGETS.len(),
        "the corpus has {count} files and {bytes} bytes: keep the small files that reach the most code"
    );
}
