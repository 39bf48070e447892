use proptest::prelude::{any, proptest};

use super::*;

const SUM: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn list(lines: &[&str]) -> Vec<u8> {
    let mut text = format!("{FIRST}\n");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text.into_bytes()
}

fn whole() -> Vec<u8> {
    let node = format!("program taut x86-64 2471936 {SUM} taut_0.3.0_x86-64");
    list(&["version 0.3.0", "made 1798502400", &node, "later what a later release says"])
}

#[test]
fn a_list_is_read() {
    let release = Release::parse(&whole()).unwrap();
    assert_eq!((release.version.to_string().as_str(), release.made), ("0.3.0", 1_798_502_400));
    let program = release.program("taut", "x86-64").unwrap();
    assert_eq!((program.bytes, program.sha256[0], program.sha256[31]), (2_471_936, 0xba, 0xad));
    assert_eq!(program.file, "taut_0.3.0_x86-64");
    assert_eq!(release.program("taut", "mips"), None);
}

#[test]
fn fault_l6_what_is_not_a_list_is_refused() {
    let node = |file: &str| format!("program taut x86-64 10 {SUM} {file}");
    let (good, start) = (node("taut"), ["version 0.3.0", "made 1"]);
    let bad = |line: &str| Release::parse(&list(&[start[0], start[1], line])) == Err(BadRelease::Form);
    assert!(!bad(&good) && !bad(""), "an empty line is of a later version");
    for file in
        ["../taut", "/bin/taut", ".taut", "-taut", "a/b", "", "a b", "ta\u{e4}ut", &"a".repeat(LONGEST_WORD + 1)]
    {
        assert!(bad(&node(file)), "{file}");
    }
    for line in [
        "version 0.3.0",
        "made 1",
        "program",
        "program taut",
        &good.replace(" 10 ", " 0 "),
        &good.replace(" 10 ", " -1 "),
    ] {
        assert!(bad(line), "{line}");
    }
    assert!(bad(&good.replace(" 10 ", &format!(" {} ", LARGEST + 1))));
    assert!(bad(&good.replace(SUM, &SUM[1..])) && bad(&good.replace("ba78", "BA78")) && bad(&format!("{good} more")));
    for lines in [
        &start[..1],
        &start[1..],
        &["version 0.3", "made 1"],
        &["version 0.3.0", "made x"],
        &["version 0.3.0 x", "made 1"],
    ] {
        assert_eq!(Release::parse(&list(lines)), Err(BadRelease::Form), "{lines:?}");
    }
    let many = vec![good.as_str(); MAX_PROGRAMS + 1];
    assert!(Release::parse(&list(&[&start[..], &many].concat())).is_err());
    let long = "x".repeat(MAX_LIST);
    assert!(Release::parse(&list(&[start[0], start[1], &long])).is_err());
}

#[test]
fn fault_l6_a_list_that_ends_too_soon_is_refused() {
    let bytes = whole();
    let cut_at_a_line = |length: usize| bytes[length - 1] == b'\n' && length > 40;
    for length in 0..bytes.len() {
        let read = Release::parse(&bytes[..length]);
        assert!(read.is_err() || cut_at_a_line(length), "{length}");
    }
}

#[test]
fn fault_l6_a_signature_is_checked_before_the_list() {
    let key: ReleaseKey = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=".parse().unwrap();
    for signature in [&[0; SIGNATURE][..], &[], &[1; 63]] {
        assert_eq!(Release::open(&whole(), signature, &key), Err(BadRelease::Signature));
        assert_eq!(Release::open(b"garbage", signature, &key), Err(BadRelease::Signature));
    }
}

proptest! {
    #[test]
    fn nothing_panics(bytes in any::<Vec<u8>>()) {
        let _ = Release::parse(&bytes);
        let _ = Release::parse(&[format!("{FIRST}\n").as_bytes(), &bytes, b"\n"].concat());
    }
}
