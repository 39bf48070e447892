//! A test in a namespace sees only its own interfaces, and its panic reaches the caller.

use std::net::Ipv4Addr;
use std::panic::catch_unwind;

use taut_namespace::{configure, exists, gone, in_namespace, open_tap};

#[test]
fn an_interface_is_seen_in_its_own_namespace_only() {
    in_namespace(|| {
        let tap = open_tap("kit0", 0);
        configure("kit0", Ipv4Addr::new(10, 9, 0, 1));
        assert!(exists("kit0"));
        in_namespace(|| assert!(!exists("kit0"), "an interface of another namespace is visible"));
        drop(tap);
        assert!(gone("kit0"));
    });
    assert!(!exists("kit0"), "an interface of the test is visible in the host's namespace");
}

#[test]
fn a_failure_inside_reaches_the_caller() {
    let ran = catch_unwind(|| in_namespace(|| assert!(exists("no-such-one"))));
    // Without root the test is skipped.
    let skipped = catch_unwind(|| in_namespace(|| panic!("root"))).is_ok();
    assert!(ran.is_err() || skipped);
}
