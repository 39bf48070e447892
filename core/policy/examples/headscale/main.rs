//! Compares the compiler with others, on random packets: with headscale's compiler under random policies, and with what Tailscale's service answered to the
//! policies that headscale's authors sent it. The packet filter of Tailscale's client says what their rules let through. Also compared is which nodes know
//! each other, and which policies are refused. `make policy-headscale` builds the other side and runs this.
//!
//!     cargo run --release -p taut-policy --example headscale -- PROGRAM 10000000          random (policy, packet) pairs, on two threads
//!     cargo run --release -p taut-policy --example headscale -- PROGRAM DIRECTORY...      the captured answers in these directories

mod captured;
mod case;
mod counts;
mod left_out;
mod packets;
mod smaller;
mod verdicts;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use case::Case;
use counts::Counts;
use verdicts::Verdicts;

/// Packets of each random policy.
const PACKETS: usize = 100;

/// Threads, each with a program of its own: the reference machine has two cores.
const THREADS: usize = 2;

/// Limit on the differences that are made smaller and printed, for each thread.
const PRINTED: usize = 5;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(program), Some(first)) = (words.next(), words.next()) else {
        eprintln!("headscale: two words are needed\nusage: headscale PROGRAM PAIRS | headscale PROGRAM DIRECTORY...");
        return ExitCode::from(2);
    };
    let counts = match first.to_str().and_then(|word| word.parse().ok()) {
        Some(pairs) => random(&program, pairs),
        None => std::iter::once(first).chain(words).map(|directory| captured::compare(&program, &directory)).sum(),
    };
    match counts {
        Ok(counts) => {
            println!("{counts}; seed {}", taut_testkit::first());
            if counts.different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("headscale: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compares this many random pairs, from the first seed of the process on.
fn random(program: &Path, pairs: u64) -> Result<Counts, String> {
    let share = pairs.div_ceil(THREADS as u64);
    let thread = |number: usize| {
        let program = program.to_path_buf();
        let seeds = (taut_testkit::first()..).skip(number).step_by(THREADS);
        thread::spawn(move || compare(&program, seeds, share))
    };
    let threads: Vec<_> = (0..THREADS).map(thread).collect();
    threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(String::from("a thread panicked")))).sum()
}

/// Compares cases until this many packets were compared.
fn compare(program: &Path, seeds: impl Iterator<Item = u64>, packets: u64) -> Result<Counts, String> {
    let mut program = Verdicts::start(program)?;
    let (mut counts, mut printed) = (Counts::default(), 0);
    for seed in seeds {
        if counts.packets >= packets {
            break;
        }
        let case = Case::random(seed, PACKETS);
        let (ours, theirs) = (case.answer(), program.of(&case)?);
        counts = counts + Counts::of(&ours, &theirs);
        if ours.ok() != theirs.ok() && printed < PRINTED {
            printed += 1;
            let differs = |case: &Case| program.of(case).is_ok_and(|theirs| case.answer().ok() != theirs.ok());
            let smallest = smaller::smallest(case, differs);
            println!("seed {seed}: Taut {:?}, headscale {:?}\n{smallest}", smallest.answer(), program.of(&smallest)?);
        }
    }
    Ok(counts)
}
