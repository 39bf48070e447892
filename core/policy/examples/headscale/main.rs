//! Compares the compiler with headscale's, whose rules the packet filter of Tailscale's client applies, for as many random (policy, packet) pairs as asked, on
//! two threads; also which nodes know each other, and which policies are refused. `make policy-headscale` builds the other side and runs this.
//!
//!     cargo run --release -p taut-policy --example headscale -- target/peers/headscale-COMMIT/verdicts 10000000

mod case;
mod left_out;
mod smaller;
mod verdicts;
mod words;

use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use case::{Answer, Case};
use verdicts::Verdicts;

/// Packets of each policy.
const PACKETS: usize = 100;

/// Threads, each with a program of its own: the reference machine has two cores.
const THREADS: u64 = 2;

/// Limit on the differences that are made smaller and printed, for each thread.
const PRINTED: u64 = 5;

/// The number of policies, packets and pairs of nodes that were compared.
#[derive(Clone, Copy, Default)]
struct Counts {
    policies: u64,
    packets: u64,
    allowed: u64,
    acquainted: u64,
    refused: u64,
    different: u64,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().map(PathBuf::from);
    let pairs = words.next().map_or(Some(1_000_000), |word| word.to_str()?.parse::<u64>().ok());
    let (Some(program), Some(pairs)) = (program, pairs) else {
        eprintln!(
            "headscale: name the program of lab/compare/headscale, and the number of pairs\nusage: headscale PROGRAM [PAIRS]"
        );
        return ExitCode::from(2);
    };
    let first = taut_testkit::first();
    let start = Instant::now();
    let workers = (0..THREADS).map(|thread| {
        let program = program.clone();
        let seeds = (first + thread..).step_by(usize::try_from(THREADS).unwrap_or(1));
        thread::spawn(move || run(&program, seeds, pairs.div_ceil(THREADS)))
    });
    let workers: Vec<_> = workers.collect();
    let mut all = Counts::default();
    for worker in workers {
        match worker.join() {
            Ok(Ok(counts)) => all += counts,
            Ok(Err(error)) => {
                eprintln!("headscale: {error}");
                return ExitCode::FAILURE;
            }
            Err(_) => return ExitCode::FAILURE,
        }
    }
    println!(
        "{} pairs of {} policies and their packets compared, {} of them allowed; {} times one node knows another; {} more policies refused by both; {} different; {:.1} s; seeds from {first}",
        all.packets,
        all.policies,
        all.allowed,
        all.acquainted,
        all.refused,
        all.different,
        start.elapsed().as_secs_f64()
    );
    if all.different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares cases until this many packets were compared.
fn run(program: &Path, mut seeds: impl Iterator<Item = u64>, packets: u64) -> Result<Counts, String> {
    let mut program = Verdicts::start(program)?;
    let (mut counts, mut printed) = (Counts::default(), 0);
    while counts.packets < packets {
        let Some(seed) = seeds.next() else { break };
        let case = Case::random(seed, PACKETS);
        let (ours, theirs) = (case.answer(), program.of(&case)?);
        counts += Counts::of(&ours, &theirs);
        if ours.as_ref().ok() != theirs.as_ref().ok() && printed < PRINTED {
            printed += 1;
            let differs = |case: &Case| program.of(case).is_ok_and(|theirs| case.answer().ok() != theirs.ok());
            let smallest = smaller::smallest(case, differs);
            println!("seed {seed}: Taut {:?}, headscale {:?}\n{smallest}", smallest.answer(), program.of(&smallest)?);
        }
    }
    Ok(counts)
}

impl Counts {
    fn of(ours: &Answer, theirs: &Answer) -> Self {
        let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
            let both = ours.is_err() && theirs.is_err();
            return Self { refused: both.into(), different: (!both).into(), ..Self::default() };
        };
        let verdicts = ours.verdicts.iter().zip(&theirs.verdicts).filter(|(ours, theirs)| ours != theirs);
        let peers = ours.peers.iter().zip(&theirs.peers).filter(|(ours, theirs)| ours != theirs);
        Self {
            policies: 1,
            packets: ours.verdicts.len() as u64,
            allowed: ours.verdicts.iter().filter(|allowed| **allowed).count() as u64,
            acquainted: ours.peers.iter().map(|peers| peers.len() as u64).sum(),
            refused: 0,
            different: (verdicts.count() + peers.count()) as u64,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.policies += more.policies;
        self.packets += more.packets;
        self.allowed += more.allowed;
        self.acquainted += more.acquainted;
        self.refused += more.refused;
        self.different += more.different;
    }
}
