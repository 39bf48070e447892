//! The storm test in virtual time: everything fails and recovers at random, for pairs of hosts, some hours each (`make flap`). JSON on standard output.
//!
//! `cargo run --release -p taut-sim --example flap -- [HOURS [PAIRS [SEED]]]` (default: 1 hour each of 48 pairs, from seed 1 on)
//!
//! Exit status 1 if a pair did not recover in time after a storm, or lost or reordered packets after the recovery.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use taut_sim::nat::{Flap, FlapOutcome};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let hours = words.first().and_then(|word| word.parse().ok()).unwrap_or(1.0_f64).clamp(0.0, 1e6);
    let whole = |place: usize, usual: u64| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (pairs, first) = (whole(1, 48), whole(2, 1));
    let all = live_through(Duration::from_secs_f64(3600.0 * hours), first, pairs);
    let rows: Vec<String> = all.iter().map(|(seed, outcome)| json(*seed, outcome)).collect();
    println!("{{\"schema\": 1, \"hours\": {hours}, \"pairs\": [\n{}\n]}}", rows.join(",\n"));
    let sum = |of: fn(&FlapOutcome) -> usize| all.iter().map(|(_, outcome)| of(outcome)).sum::<usize>();
    let worst = all.iter().flat_map(|(_, outcome)| &outcome.settled).max().copied().unwrap_or_default();
    eprintln!(
        "flap: {pairs} pairs, {hours} virtual hours each: {} storms, {} faults, {} of {} packets arrived, {} overtaken; settled after at most {worst:.1?}",
        sum(|outcome| outcome.storms),
        sum(|outcome| outcome.faults),
        sum(|outcome| outcome.packets[1]),
        sum(|outcome| outcome.packets[0]),
        sum(|outcome| outcome.overtaken)
    );
    for (seed, outcome) in &all {
        outcome.problems.iter().for_each(|problem| eprintln!("flap: seed {seed}: {problem}"));
    }
    if all.iter().all(|(_, outcome)| outcome.problems.is_empty()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn json(seed: u64, outcome: &FlapOutcome) -> String {
    let worst = outcome.settled.iter().max().map_or("null".into(), |worst| format!("{:.2}", worst.as_secs_f64()));
    let FlapOutcome { kinds, storms, faults, packets, overtaken, problems, .. } = outcome;
    format!(
        "  {{\"seed\": {seed}, \"a\": {:?}, \"b\": {:?}, \"storms\": {storms}, \"faults\": {faults}, \"sent\": {}, \"arrived\": {}, \
         \"overtaken\": {overtaken}, \"settled_s\": {worst}, \"problems\": {problems:?}}}",
        kinds[0], kinds[1], packets[0], packets[1]
    )
}

/// Every pair, on all cores.
fn live_through(duration: Duration, first: u64, pairs: u64) -> Vec<(u64, FlapOutcome)> {
    let next = AtomicU64::new(first);
    let work = || {
        let seeds =
            std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < first + pairs));
        seeds.map(|seed| (seed, Flap::new(seed).run(duration))).collect::<Vec<_>>()
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a scene's own checks hold")).collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all
}
