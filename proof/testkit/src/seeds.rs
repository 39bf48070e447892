//! Few seeds by day and many by night: few new seeds in each run find more over time than the same thousand in every run.

use std::env;
use std::thread;

use crate::seed::{SEED_VARIABLE, seed};

/// Environment variable that asks for the counts of the night when it is set and not `0`.
const THOROUGH: &str = "TAUT_THOROUGH";

/// Returns `by_day`, or `by_night` if `TAUT_THOROUGH` is set, as `make test-night` does.
#[must_use]
pub fn count(by_day: u64, by_night: u64) -> u64 {
    if env::var_os(THOROUGH).is_some_and(|value| value != "0") { by_night } else { by_day }
}

/// Returns an iterator over `by_day` consecutive seeds, or `by_night` in a thorough run. The first is [`seed`], so `TAUT_SEED` repeats them.
#[must_use]
pub fn seeds(by_day: u64, by_night: u64) -> Seeds {
    let first = seed();
    Seeds { next: first, end: first.saturating_add(count(by_day, by_night)) }
}

/// Consecutive seeds. If a test panics with one of them, prints the variable that makes this seed the first.
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
            println!("the last seed was {0}; {SEED_VARIABLE}={0} starts with it", self.next.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set in the processes that the tests start.
    const INSIDE: &str = "TAUT_TESTKIT_SEEDS";

    /// Runs the third-seed test in a process of its own with these variables and returns its output.
    fn run(variables: &[(&str, &str)]) -> String {
        let mut program = Command::new(env::current_exe().unwrap());
        program.args(["seeds::tests::fails_at_the_third_seed_of_a_day", "--exact", "--nocapture"]);
        program.env_remove(SEED_VARIABLE).env_remove(THOROUGH).env(INSIDE, "1");
        let output = program.envs(variables.iter().copied()).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Fails only in a process that another test started.
    #[test]
    fn fails_at_the_third_seed_of_a_day() {
        if env::var_os(INSIDE).is_none() {
            return;
        }
        for (number, seed) in seeds(5, 50).enumerate() {
            println!("number {seed}.");
            assert!(number < 2 || count(0, 1) == 1, "the third");
        }
    }

    #[test]
    fn a_failure_prints_the_seed_that_repeats_it() {
        let output = run(&[(SEED_VARIABLE, "7")]);
        assert!(output.contains("the last seed was 9; TAUT_SEED=9 starts with it"), "{output}");
    }

    #[test]
    fn a_thorough_run_has_more_seeds() {
        let output = run(&[(SEED_VARIABLE, "7"), (THOROUGH, "1")]);
        assert!(output.contains("number 56.") && !output.contains("number 57."), "{output}");
    }
}
