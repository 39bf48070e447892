//! `taut-relay`: a relay alone. `serve` runs one; `key` prints the key that the coordinator has to know; `status` asks one that runs.
//!
//! Answers go to stdout, everything else to stderr; exit code 0 when done, 1 when not, 2 when asked wrongly.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
