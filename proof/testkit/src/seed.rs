//! Seeds that differ in every run and that a failing test names.

use std::env;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread;

/// Environment variable with the seed of a run that is to be repeated: a decimal number.
pub const SEED_VARIABLE: &str = "TAUT_SEED";

/// Returns the seed of this test: the value of `TAUT_SEED`, else a fresh random number below 2³².
///
/// Prints the seed. The test harness shows what a test prints only if the test fails. Call it in the thread of the test, because the output of other threads
/// may not be captured.
///
/// # Panics
/// If `TAUT_SEED` is set but not a number.
#[must_use]
pub fn seed() -> u64 {
    let seed = given(env::var(SEED_VARIABLE).ok().as_deref()).unwrap_or_else(fresh);
    print_seed(seed);
    seed
}

/// Runs `test` with `count` consecutive seeds, of which the first is fresh in every run; with only the seed of `TAUT_SEED` if that is set. If `test` panics,
/// prints the seed of that call.
///
/// # Panics
/// If `test` does, or if `TAUT_SEED` is set but not a number.
pub fn for_each_seed(count: u64, mut test: impl FnMut(u64)) {
    let given = given(env::var(SEED_VARIABLE).ok().as_deref());
    let first = given.unwrap_or_else(fresh);
    let count = if given.is_some() { 1 } else { count };
    for seed in first..first.saturating_add(count) {
        let _printer = PrintOnPanic(seed);
        test(seed);
    }
}

/// Prints the seed when it is dropped by a panic.
struct PrintOnPanic(u64);

impl Drop for PrintOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            print_seed(self.0);
        }
    }
}

fn print_seed(seed: u64) {
    println!("seed {seed}; repeat this run with {SEED_VARIABLE}={seed}");
}

fn given(value: Option<&str>) -> Option<u64> {
    value.map(|text| match text.trim().parse() {
        Ok(seed) => seed,
        Err(error) => panic!("{SEED_VARIABLE}={text} is not a seed: {error}"),
    })
}

/// Returns a random number below 2³²: short enough to retype, and far enough from the end of `u64` that a test can add to it. The keys of a new hasher come
/// from the operating system's randomness and differ in every process and thread.
fn fresh() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::Command;

    use super::*;

    #[test]
    fn a_given_seed_replaces_the_fresh_one() {
        assert_eq!(given(None), None);
        assert_eq!(given(Some(" 7\n")), Some(7));
        assert!(catch_unwind(|| given(Some("seven"))).is_err());
    }

    #[test]
    fn fresh_seeds_differ_and_leave_room_to_count() {
        let drawn: Vec<u64> = (0..20).map(|_| fresh()).collect();
        assert!(drawn.iter().any(|seed| *seed != drawn[0]));
        assert!(drawn.iter().all(|seed| *seed < 1 << 32));
    }

    #[test]
    fn seeds_are_consecutive_and_end_with_the_one_that_fails() {
        if env::var_os(SEED_VARIABLE).is_some() {
            return;
        }
        let mut seen = Vec::new();
        for_each_seed(3, |seed| seen.push(seed));
        assert_eq!(seen, [seen[0], seen[0] + 1, seen[0] + 2]);
        let mut calls = 0;
        let second_fails = AssertUnwindSafe(|| {
            for_each_seed(3, |_| {
                calls += 1;
                assert!(calls < 2, "as a failing test would");
            });
        });
        assert!(catch_unwind(second_fails).is_err());
        assert_eq!(calls, 2);
    }

    /// Set in the process that `a_failing_test_prints_its_seed` starts.
    const FAIL: &str = "TAUT_TESTKIT_FAIL";

    /// Fails in the process that the next test starts, and nowhere else.
    #[test]
    fn fails_if_asked_to() {
        if env::var_os(FAIL).is_some() {
            for_each_seed(5, |seed| assert_eq!(seed % 5, 4));
        }
    }

    #[test]
    fn a_failing_test_prints_its_seed_and_repeats_with_it() {
        let output = |seed: Option<&str>| {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", "seed::tests::fails_if_asked_to"]).env(FAIL, "1").env_remove(SEED_VARIABLE);
            let output = command.envs(seed.map(|seed| (SEED_VARIABLE, seed))).output().unwrap();
            assert!(!output.status.success());
            String::from_utf8(output.stdout).unwrap()
        };
        let first = output(None);
        let (_, rest) = first.split_once("TAUT_SEED=").expect("the failing test prints its seed");
        let seed = rest.lines().next().unwrap();
        assert!(output(Some(seed)).contains(&format!("seed {seed};")), "the same seed fails again");
    }
}
