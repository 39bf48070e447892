//! `policy`: checks, explains, compares and applies policies. `--nodes FILE` gives the nodes and people that a policy is applied to, in place of a coordinator.

mod check;
mod compile;
mod diff;
mod explain;
mod input;
mod online;
#[cfg(test)]
mod tests;

use super::CommandError;
use super::arguments::Arguments;
use super::no_verb;

/// The verbs of the command.
const VERBS: [&str; 8] = ["check", "compile", "explain", "diff", "show", "history", "apply", "rollback"];

/// `policy VERB …`.
pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    match arguments.need("a verb of `policy`")?.as_str() {
        "check" => check::run(arguments),
        "compile" => compile::run(arguments),
        "explain" => explain::run(arguments),
        "diff" => diff::run(arguments),
        "show" => online::show(arguments),
        "history" => online::history(arguments),
        "apply" => online::apply(arguments),
        "rollback" => online::rollback(arguments),
        other => Err(no_verb("policy", other, &VERBS)),
    }
}
