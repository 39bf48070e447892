//! The options of `serve`, parsed from its settings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use taut_base::Prefix;
use taut_relay_server::log::{LogFormat, LogLevels};

use super::listen::listen_address;
use super::settings::{Faults, Settings, Source};
use super::tls_options::TlsOptions;
use super::{CommandError, oidc};
use crate::api;
use crate::log;
use crate::oidc::OidcOptions;
use crate::relay::{self, RelayOptions};
use crate::state::{check_name, check_prefix};
use crate::store::Location;

/// Longest `--drain`, 1 h: a service manager kills a program that takes longer to stop.
const LONGEST_DRAIN: u64 = 3_600;

/// Time for which entries of the audit log are kept by default, in days, and the longest: 100 years.
const DEFAULT_AUDIT_DAYS: u32 = 365;
const LONGEST_AUDIT_DAYS: u32 = 36_500;

/// What `serve` was asked to do.
pub(super) struct ServeOptions {
    pub(super) directory: PathBuf,
    pub(super) database: Location,
    pub(super) listen: Option<SocketAddr>,
    pub(super) urls: Vec<String>,
    /// Where the certificate of https comes from; `None` for plain HTTP.
    pub(super) tls: Option<TlsOptions>,
    pub(super) metrics: Option<SocketAddr>,
    /// Time between the signal to stop and the end of service.
    pub(super) drain: Duration,
    /// Time for which entries of the audit log are kept, in days.
    pub(super) audit_days: u32,
    /// The OpenID provider at which people can sign in.
    pub(super) oidc: Option<OidcOptions>,
    /// True if webhooks may be at http URLs and at private addresses.
    pub(super) webhooks_allow_private: bool,
    /// `None` if the coordinator is no relay.
    pub(super) relay: Option<RelayOptions>,
    pub(super) relay_metrics: Option<SocketAddr>,
    pub(super) proxies: Vec<Prefix>,
    pub(super) log_format: LogFormat,
    pub(super) log_levels: LogLevels,
    /// Name and IPv4 prefix of the first network.
    pub(super) network: String,
    pub(super) ipv4: Prefix,
    /// True if the command line names the first network. In a file or a variable that is permanent, so that it does not deserve a warning at each start.
    pub(super) is_network_given: bool,
}

impl ServeOptions {
    /// Returns the options, or an error that names every setting with a bad value and where it was written.
    pub(super) fn new(settings: &Settings) -> Result<Self, CommandError> {
        let mut faults = Faults::default();
        let options = Self::read(settings, &mut faults);
        faults.finish()?;
        // Without an error every option was read.
        options.ok_or_else(|| CommandError::Run(String::from("the settings cannot be read")))
    }

    /// Reads all options before it returns, so that `faults` has the errors of all.
    fn read(settings: &Settings, faults: &mut Faults) -> Option<Self> {
        let database = faults.keep(settings.database());
        let is_alone = matches!(database, None | Some(Location::Directory(_)));
        // Also checked if there is no relay.
        let relay = faults.keep(relay_options(settings));
        let relay_metrics = faults.keep(settings.one("relay-metrics", metrics_address));
        faults.keep(check_relay(settings, is_alone));
        let listen = faults.keep(settings.one("listen", listen_address));
        let urls = faults.keep(settings.all("url", url));
        let tls = faults.keep(TlsOptions::new(settings));
        let metrics = faults.keep(settings.one("metrics", metrics_address));
        let drain = faults.keep(settings.one("drain", drain));
        let audit_days = faults.keep(settings.one("audit-days", audit_days));
        let oidc = faults.keep(oidc::options(settings));
        let proxies = faults.keep(settings.all("trusted-proxy", proxy));
        let log_format = faults.keep(settings.one("log-format", log_format));
        let log_levels = faults.keep(settings.one("log-level", log_levels));
        let network = faults.keep(settings.one("network", network_name));
        let default_prefix = || network_prefix(api::DEFAULT_IPV4).map_err(CommandError::Run);
        let ipv4 = settings.one("ipv4-prefix", network_prefix);
        let ipv4 = faults.keep(ipv4.and_then(|ipv4| ipv4.map_or_else(default_prefix, Ok)));
        let is_flag = |name| settings.get(name).is_some_and(|setting| setting.source == Source::Flag);
        Some(Self {
            directory: settings.state(),
            database: database?,
            listen: listen?,
            urls: urls?,
            tls: tls?,
            metrics: metrics?,
            drain: drain?.unwrap_or_default(),
            audit_days: audit_days?.unwrap_or(DEFAULT_AUDIT_DAYS),
            oidc: oidc?,
            webhooks_allow_private: settings.is_on("webhooks-allow-private"),
            relay: relay.filter(|_| is_alone && !settings.is_on("no-relay")),
            relay_metrics: relay_metrics?,
            proxies: proxies?,
            log_format: log_format?.unwrap_or_default(),
            log_levels: log_levels?.unwrap_or_else(|| LogLevels::new(log::AREAS)),
            network: network?.unwrap_or_else(|| String::from("default")),
            ipv4: ipv4?,
            is_network_given: is_flag("network") || is_flag("ipv4-prefix"),
        })
    }
}

/// Refuses settings of the relay where there is none.
fn check_relay(settings: &Settings, is_alone: bool) -> Result<(), CommandError> {
    let chosen = ["relay-port", "relay-address", "relay-rate", "relay-metrics"];
    match !is_alone && chosen.iter().any(|name| settings.get(name).is_some()) {
        false => Ok(()),
        true => Err(CommandError::Usage(String::from(
            "with --database the coordinator is no relay; leave out the options --relay-…, run `taut-relay serve`, and add it with `taut-coordinator relays add`",
        ))),
    }
}

fn relay_options(settings: &Settings) -> Result<RelayOptions, CommandError> {
    let default = RelayOptions::default();
    let port = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a port; write 3478"));
    let rate = |text: &str| text.parse().map_err(|error| format!("`{text}`: {error}"));
    let address = |text: &str| {
        let wrong = || format!("`{text}` is not an address; write 203.0.113.7 or 203.0.113.7:3478");
        relay::parse_address(text).ok_or_else(wrong)
    };
    let mut faults = Faults::default();
    let port = faults.keep(settings.one("relay-port", port)).flatten().unwrap_or(default.port);
    let addresses = faults.keep(settings.all("relay-address", address)).unwrap_or_default();
    let rate = faults.keep(settings.one("relay-rate", rate)).flatten().unwrap_or(default.rate);
    faults.finish()?;
    Ok(RelayOptions { port, addresses, rate, ..default })
}

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address and port; write 127.0.0.1:9478"))
}

fn proxy(text: &str) -> Result<Prefix, String> {
    prefix(text, "10.0.0.0/8, or 192.0.2.7/32 for one address")
}

/// Parses a prefix. One with bits beyond its length is refused, because it is not clear whether the address or the whole prefix is meant.
fn prefix(text: &str, example: &str) -> Result<Prefix, String> {
    let prefix: Prefix = text.parse().map_err(|_| format!("`{text}` is not a prefix; write {example}"))?;
    let address = text.split_once('/').and_then(|(address, _)| address.parse().ok()).unwrap_or(prefix.address());
    if address != prefix.address() {
        return Err(format!("`{text}` is an address within a prefix; write {prefix}, or {}", Prefix::host(address)));
    }
    Ok(prefix)
}

/// Returns the IPv4 prefix of the first network, by the rules for all networks.
fn network_prefix(text: &str) -> Result<Prefix, String> {
    let prefix = prefix(text, "100.64.0.0/10")?;
    check_prefix(prefix).map_err(|error| format!("`{text}` is refused: {error}; {}", error.hint()))?;
    Ok(prefix)
}

/// Returns the name of the first network, by the rules for all networks.
fn network_name(text: &str) -> Result<String, String> {
    check_name(text).map_err(|error| format!("`{text}` is refused: {error}; {}", error.hint()))?;
    Ok(String::from(text))
}

fn audit_days(text: &str) -> Result<u32, String> {
    let days = text.parse().ok().filter(|days| (1..=LONGEST_AUDIT_DAYS).contains(days));
    days.ok_or_else(|| format!("`{text}` is not a number of days from 1 to {LONGEST_AUDIT_DAYS}; write 365"))
}

fn drain(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= LONGEST_DRAIN);
    let wrong = || format!("`{text}` is not a number of seconds from 0 to {LONGEST_DRAIN}; write 10");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    text.parse().map_err(|error| format!("`{text}`: {error}"))
}

fn log_levels(text: &str) -> Result<LogLevels, String> {
    LogLevels::parse(text, log::AREAS).map_err(|error| format!("`{text}`: {error}"))
}

/// Returns the URL if it fits a join token (255 bytes) and is http or https.
fn url(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    if host.is_none_or(str::is_empty) || text.len() > 255 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("`{text}` is not a URL; write http://HOST:PORT or https://HOST"));
    }
    Ok(String::from(text))
}
