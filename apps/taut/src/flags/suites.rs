//! The flags that choose suites.

use taut_wire::control::{Suite, Suites};

use crate::fault::{Fault, suggestion};

/// Parses the value of `--suites`: names as in `taut status`, in any case, separated by commas. WireGuard's own suite needs no name, because every session
/// begins with it.
pub(super) fn parse(list: &str) -> Result<Suites, Fault> {
    let mut suites = Suites::STOCK;
    for name in list.split(',').map(str::trim) {
        let known = Suite::ALL.into_iter().find(|suite| suite.name().eq_ignore_ascii_case(name));
        suites = suites.with(known.ok_or_else(|| unknown(name))?);
    }
    Ok(suites)
}

fn unknown(name: &str) -> Fault {
    let names = Suite::ALL.map(Suite::name);
    let nearest = suggestion(name, names.into_iter());
    Fault::usage(format!("--suites: `{name}` is not a suite{nearest}; write some of {}", names.join(", ")))
}

/// Returns the value of `--suites` for these suites; `None` if they are the default.
pub(super) fn to_argument(suites: Suites) -> Option<String> {
    let names: Vec<&str> = Suite::ALL.into_iter().filter(|suite| suites.has(*suite)).map(Suite::name).collect();
    (suites != Suites::ALL).then(|| names.join(","))
}
