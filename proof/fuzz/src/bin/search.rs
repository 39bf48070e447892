//! One target under libFuzzer, as `make fuzz` runs it. `TAUT_FUZZ_TARGET` chooses; the arguments are libFuzzer's.
#![no_main]

use std::env;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use taut_fuzz::TARGETS;

/// Returns the function of the chosen target.
fn chosen() -> fn(&[u8]) {
    let name = env::var("TAUT_FUZZ_TARGET").unwrap_or_default();
    let names = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(" ");
    match TARGETS.iter().find(|target| target.name == name) {
        Some(target) => target.run,
        None => {
            eprintln!("there is no target {name:?}; set TAUT_FUZZ_TARGET to one of: {}", names());
            std::process::exit(2);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    static RUN: OnceLock<fn(&[u8])> = OnceLock::new();
    RUN.get_or_init(chosen)(data);
});
