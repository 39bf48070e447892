//! A host whose clock is years off asks a server, whose certificate is not valid by that clock.

use taut_dial::Broken;

use crate::server::{ALWAYS, ANSWER, Server, Trust, Years};

fn ask(years: Years) -> Result<Vec<u8>, Broken> {
    Server { years, ..Server::default() }.ask(Trust::Its)
}

#[test]
fn a_certificate_that_is_valid_now_is_accepted() {
    assert_eq!(ask(ALWAYS).unwrap(), ANSWER);
}

#[test]
fn fault_m5_a_clock_that_is_years_off_is_told_with_both_times() {
    // A clock five years ahead sees a certificate that has ended, one behind a certificate that has not begun.
    let ended = ask((2000, 2001)).unwrap_err().0;
    assert!(
        ended.starts_with("its certificate ended at 2001-01-01T00:00:00Z, and this host's clock says 20"),
        "{ended}"
    );
    let early = ask((2190, 2191)).unwrap_err().0;
    assert!(
        early.starts_with("its certificate begins at 2190-01-01T00:00:00Z, and this host's clock says 20"),
        "{early}"
    );
}
