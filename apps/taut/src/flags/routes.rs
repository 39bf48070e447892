//! The flags about subnet routes.

use std::ffi::OsString;

use taut_agent::{AdvertisedRoute, RouteOptions};
use taut_netmap::MAX_ROUTES;

use crate::fault::Fault;

/// Parses the value of `--advertise-routes`; an empty one advertises nothing.
pub(super) fn parse(text: &str) -> Result<Vec<AdvertisedRoute>, Fault> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let route = |part: &str| {
        part.parse().map_err(|error| Fault::usage(format!("--advertise-routes: `{part}` is no route; {error}")))
    };
    let routes: Vec<AdvertisedRoute> = parts.map(route).collect::<Result<_, _>>()?;
    let is_overlapping = |(place, one): (usize, &AdvertisedRoute)| {
        routes[..place]
            .iter()
            .any(|other| other.published.overlaps(one.published) && other.published.length() == one.published.length())
    };
    if routes.len() > MAX_ROUTES || routes.iter().enumerate().any(is_overlapping) {
        return Err(Fault::usage(format!("--advertise-routes: give up to {MAX_ROUTES} routes, and each of them once")));
    }
    Ok(routes)
}

/// Parses the value of `--snat`.
pub(super) fn snat(text: &str) -> Result<bool, Fault> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(Fault::usage(format!("--snat {text}: write `on` or `off`"))),
    }
}

/// Returns the arguments for these options.
pub(super) fn to_arguments(routes: &RouteOptions) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if !routes.advertise.is_empty() {
        let list: Vec<String> = routes.advertise.iter().map(ToString::to_string).collect();
        words.extend(["--advertise-routes".into(), list.join(",").into()]);
    }
    words.extend(routes.accept.then(|| "--accept-routes".into()));
    if !routes.snat {
        words.extend(["--snat".into(), "off".into()]);
    }
    words
}
