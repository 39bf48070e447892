//! `taut-relay`: a relay alone. `serve` runs one; `key` prints the key that the coordinator has to know; `status` asks one that runs.
//!
//! Answers go to standard output, everything else to standard error. Exit status: 0 success, 1 failure, 2 usage error.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
