//! Links the node's release build without tables for unwinding, which are a tenth of the binary. Nothing reads them: `panic = "abort"` unwinds no stack, and
//! the binary has no symbols that a backtrace could name. Messages of panics stay, with file and line.

use std::env;

/// The linker script that leaves the tables out.
const SCRIPT: &str = "no-unwind-tables.ld";

fn main() {
    println!("cargo::rerun-if-changed={SCRIPT}");
    let is = |name: &str, wanted: &str| env::var(name).is_ok_and(|value| value == wanted);
    // Profiles that inherit `release` abort on a panic. Other C libraries and systems may need the tables, or another linker.
    let aborts = is("PROFILE", "release");
    if aborts && is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        let Ok(folder) = env::var("CARGO_MANIFEST_DIR") else { return };
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{folder}/{SCRIPT}");
    }
}
