//! `policy check`.

use serde_json::json;
use taut_policy::{Inventory, TestOutcome, run_tests};

use super::input;
use crate::cli::arguments::Arguments;
use crate::cli::{CommandError, show};

/// `policy check FILE [--nodes FILE]`: parses a policy and runs its tests.
pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let file = arguments.need("the file of the policy")?;
    let json = arguments.switch("json");
    let inventory = input::nodes(&mut arguments)?.unwrap_or_default();
    arguments.finish()?;
    let (rules, tests) = outcome(&file, &inventory)?;
    if json {
        return show(&format!("{:#}\n", json!({ "schema": 1, "ok": true, "rules": rules, "tests": tests })));
    }
    let tests = match tests {
        0 => String::from("it has no tests"),
        1 => String::from("its test passed"),
        tests => format!("its {tests} tests passed"),
    };
    let rules = if rules == 1 { String::from("1 rule") } else { format!("{rules} rules") };
    show(&format!("{file} is a policy with {rules}; {tests}\n"))
}

/// Returns the numbers of rules and of tests, or the first error of the policy.
pub(super) fn outcome(file: &str, inventory: &Inventory) -> Result<(usize, usize), CommandError> {
    let policy = input::policy(file)?;
    let outcomes = run_tests(&policy, inventory);
    let failed: Vec<String> = outcomes.iter().filter_map(|outcome| failure(file, outcome)).collect();
    if failed.is_empty() {
        return Ok((policy.rules.len(), outcomes.len()));
    }
    Err(CommandError::Refused {
        message: format!("{} of {} tests failed\n  {}", failed.len(), outcomes.len(), failed.join("\n  ")),
        hint: Some(format!(
            "`taut-coordinator policy explain {file} SRC DST:PORT --nodes FILE` names the rule that decides"
        )),
    })
}

fn failure(file: &str, outcome: &TestOutcome) -> Option<String> {
    let wanted = if outcome.accept { "accept" } else { "deny" };
    let why = outcome.failure.as_ref()?;
    Some(format!("{file}:{}: {wanted} {}: {why}", outcome.line, outcome.connection))
}
