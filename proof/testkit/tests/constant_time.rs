//! The text of a private key is made and read with the same number of instructions, whatever the key: counted by valgrind, not timed.
//!
//! The test runs itself under callgrind once per key, and callgrind counts in one function only. Without valgrind the test is skipped.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::env;
use std::hint::black_box;
use std::process::Command;

use taut_base::PrivateKey;

/// Environment variable that is set in the process under valgrind: the kind of key that is written and read.
const KEY: &str = "TAUT_TEST_KEY";

/// The counted function.
#[inline(never)]
fn write_and_read_key(key: &PrivateKey) -> bool {
    let text = key.expose_base64();
    PrivateKey::from_base64(black_box(&text)).is_ok()
}

#[test]
fn the_text_of_every_key_takes_the_same_instructions() {
    if let Some(kind) = env::var_os(KEY) {
        assert!(write_and_read_key(black_box(&key(kind.to_str().unwrap()))));
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: needs valgrind");
        return;
    }
    // Keys whose texts have capital letters, small letters, digits and signs, or all of them.
    let counts = ["capitals", "small", "signs", "mixed"].map(instructions);
    assert!(counts[0] > 1_000, "callgrind did not count the function: {counts:?}");
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

fn key(kind: &str) -> PrivateKey {
    PrivateKey::from_bytes(match kind {
        "capitals" => [0; 32],
        "small" => [0x9a; 32],
        "signs" => [0xff; 32],
        _ => std::array::from_fn(|at| u8::try_from(at * 37 % 256).unwrap()),
    })
}

fn instructions(kind: &str) -> u64 {
    // A file of its own: valgrind replaces the one that it is given, which for root may be a device.
    let profile = format!("--callgrind-out-file={}/callgrind.{kind}", env!("CARGO_TARGET_TMPDIR"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", &profile, "--toggle-collect=*write_and_read_key*"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "the_text_of_every_key_takes_the_same_instructions"])
        .env(KEY, kind)
        .output()
        .unwrap();
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{report}");
    let (_, count) = report.split_once("Collected : ").unwrap();
    count.split_whitespace().next().unwrap().parse().unwrap()
}
