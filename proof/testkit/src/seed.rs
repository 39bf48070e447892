//! Seeds for tests: freshly drawn for each run and printed. Few new seeds in each run find more over time than the same thousand in every run.
//!
//! Two environment variables steer a run:
//!
//! - `TAUT_SEED=7` makes 7 the first seed. A test that fails prints the variable that repeats the failure.
//! - `TAUT_THOROUGH=1` takes the larger of both counts, as `make test-night` does.
//!
//! The seeds of one test are consecutive, have at most 33 bits (a test may double them), and are the same in every test of a process.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;
use std::thread;

/// Environment variable with the first seed.
const SEED: &str = "TAUT_SEED";

/// Environment variable that selects the larger counts of the night if it is set and not `0`.
const THOROUGH: &str = "TAUT_THOROUGH";

/// Returns the first seed of this process: that of `TAUT_SEED`, otherwise 32 bits of randomness.
///
/// # Panics
/// When `TAUT_SEED` is not a number.
pub fn first() -> u64 {
    static FIRST: OnceLock<u64> = OnceLock::new();
    *FIRST.get_or_init(|| match env::var(SEED) {
        Ok(text) => text.parse::<u32>().expect("TAUT_SEED is a number of 32 bits").into(),
        // The standard library seeds its hash maps from the kernel's randomness.
        Err(_) => RandomState::new().build_hasher().finish() >> 32,
    })
}

/// Returns true if this run takes the counts of the night.
pub fn thorough() -> bool {
    env::var_os(THOROUGH).is_some_and(|value| value != "0")
}

/// Returns `by_day`, or `by_night` in a thorough run.
pub fn count(by_day: u64, by_night: u64) -> u64 {
    if thorough() { by_night } else { by_day }
}

/// Returns the number of cases for a property whose cases are dear: `by_day`, or `PROPTEST_CASES` if that is set, as in `make test-night`. proptest reads the
/// variable only for properties without a number of their own.
///
/// # Panics
/// When `PROPTEST_CASES` is not a number.
pub fn cases(by_day: u32) -> u32 {
    env::var("PROPTEST_CASES").map_or(by_day, |text| text.parse().expect("PROPTEST_CASES is a number"))
}

/// Returns an iterator over `by_day` consecutive seeds, or `by_night` in a thorough run.
pub fn seeds(by_day: u64, by_night: u64) -> Seeds {
    let first = first();
    eprintln!("seeds from {first} on; {SEED}={first} repeats this test");
    Seeds { next: first, end: first + count(by_day, by_night) }
}

/// Consecutive seeds. When a test panics with one of them, the variable that starts with this seed is printed.
#[derive(Debug)]
pub struct Seeds {
    next: u64,
    end: u64,
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let seed = self.next;
        (seed < self.end).then(|| {
            self.next += 1;
            seed
        })
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the last seed was {0}; {SEED}={0} starts with it", self.next.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Environment variable that is set in the processes that the tests start.
    const INSIDE: &str = "TAUT_TEST_INSIDE";

    /// Runs the third-seed test in a process of its own with these variables and returns its output.
    fn run(variables: &[(&str, &str)]) -> String {
        let mut program = Command::new(env::current_exe().expect("a test program"));
        program.args(["seed::tests::fails_at_the_third_seed_of_a_day", "--exact", "--nocapture"]);
        program.env_remove(SEED).env_remove(THOROUGH).env(INSIDE, "1");
        let output = program.envs(variables.iter().copied()).output().expect("the program starts");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// A test that fails on purpose, and only in a process that another test started.
    #[test]
    fn fails_at_the_third_seed_of_a_day() {
        if env::var_os(INSIDE).is_none() {
            return;
        }
        for (number, seed) in seeds(5, 50).enumerate() {
            println!("seed={seed}");
            assert!(number < 2 || thorough(), "this test fails on purpose at its third seed");
        }
    }

    #[test]
    fn a_failure_prints_the_seed_that_repeats_it() {
        let output = run(&[(SEED, "7")]);
        assert!(output.contains("the last seed was 9; TAUT_SEED=9 starts with it"), "{output}");
    }

    #[test]
    fn a_thorough_run_has_more_seeds() {
        let output = run(&[(SEED, "7"), (THOROUGH, "1")]);
        assert!(output.contains("seed=56") && !output.contains("seed=57"), "{output}");
    }

    #[test]
    fn two_runs_draw_different_seeds() {
        let firsts = [(); 2].map(|()| {
            let output = run(&[]);
            output.lines().find(|line| line.starts_with("seeds from ")).map(str::to_owned)
        });
        assert!(firsts[0].is_some() && firsts[0] != firsts[1], "{firsts:?}");
    }
}
