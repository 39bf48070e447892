//! Compares the compiler with the slow evaluator for as many random (policy, packet) pairs as asked, on two threads.
//!
//!     cargo run --release -p taut-policy --example differential -- 10000000
#![expect(clippy::unwrap_used, reason = "the random policies are well-formed")]

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

#[path = "../tests/common/random.rs"]
mod random;

/// Packets of each policy.
const PACKETS: u64 = 50;

/// Threads: the reference machine has two cores.
const THREADS: u64 = 2;

fn main() -> ExitCode {
    let pairs: u64 = match std::env::args().nth(1).map_or(Ok(1_000_000), |word| word.parse()) {
        Ok(pairs) => pairs,
        Err(_) => {
            eprintln!("differential: the number of pairs is not a number\nusage: differential [PAIRS]");
            return ExitCode::from(2);
        }
    };
    let first = taut_testkit::first();
    let policies = pairs.div_ceil(PACKETS);
    let start = Instant::now();
    let of_thread = move |thread: u64| {
        (0..policies).filter(move |policy| policy % THREADS == thread).map(move |policy| first + policy)
    };
    let workers: Vec<_> = (0..THREADS).map(|thread| thread::spawn(move || run(of_thread(thread)))).collect();
    let mut allowed = 0;
    for worker in workers {
        match worker.join() {
            Ok(Ok(count)) => allowed += count,
            Ok(Err(error)) => {
                eprintln!("differential: {error}");
                return ExitCode::FAILURE;
            }
            Err(_) => return ExitCode::FAILURE,
        }
    }
    let all = policies * PACKETS;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{all} pairs of {policies} policies are equal, {allowed} of them allowed; {seconds:.1} s; seeds from {first}"
    );
    ExitCode::SUCCESS
}

fn run(seeds: impl Iterator<Item = u64>) -> Result<u64, String> {
    let mut allowed = 0;
    for seed in seeds {
        allowed += random::compare(seed, usize::try_from(PACKETS).unwrap_or(usize::MAX))? as u64;
    }
    Ok(allowed)
}
