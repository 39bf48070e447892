//! Every file of every corpus, and mutations of it that are the same every time.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::{env, fs};

use taut_fuzz::{MAX_INPUT, TARGETS, Target, corpus, mutated, seeds};
use taut_sim::Seeded;

/// The files of a corpus by name, so that the order is the same everywhere.
fn files(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(corpus(target)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Runs one input; what broke something is written where it can be moved into the corpus from.
fn run(target: &Target, input: &[u8], of: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok() {
        return;
    }
    let path = env::temp_dir().join(format!("taut-fuzz-{}-{:016x}", target.name, fnv(input)));
    fs::write(&path, input).unwrap();
    panic!("{}: {of} broke it; fix the parser and move {} into the corpus", target.name, path.display());
}

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let files = files(name);
    for (file, input) in &files {
        run(target, input, file);
    }
    for (file, input) in &files {
        let mut chance = Seeded::new(fnv(input));
        for number in 0..target.mutations {
            let other = &files[chance.next_u64() as usize % files.len()].1;
            let mut input = mutated(input, other, &mut chance);
            input.truncate(MAX_INPUT);
            run(target, &input, &format!("mutation {number} of {file}"));
        }
    }
}

/// FNV-1a, 64 bits: a name for some bytes.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
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
    packet: "packet",
    checksum: "checksum",
    split: "split",
    merge: "merge",
    lane: "lane",
    session: "session",
    records: "records",
    text: "text",
    token: "token",
    url: "url",
    to_node: "to-node",
    to_coordinator: "to-coordinator",
    map: "map",
    state_file: "state-file",
    identity: "identity",
    local_api: "local-api",
    netlink: "netlink",
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
fn seeds_are_those_of_today_and_corpora_small() {
    let (mut count, mut bytes) = (0, 0);
    for target in &TARGETS {
        let files = files(target.name);
        count += files.len();
        bytes += files.iter().map(|(_, input)| input.len()).sum::<usize>();
        for seed in seeds(target.name) {
            assert!(files.iter().any(|(_, input)| *input == seed), "{}: run the example `seeds`", target.name);
        }
    }
    assert!(count <= 400 && bytes <= 300_000, "{count} files, {bytes} bytes: minimise with `make fuzz`");
}
