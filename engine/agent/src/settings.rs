//! Settings of the daemon: their names, what their values mean, and where a value comes from.
//!
//! One name serves everywhere: `lanes` is the flag `--lanes 4`, the variable `TAUT_LANES=4`, the line `lanes = 4` of the configuration file, and `taut set --lanes 4`.
//! Where several of them give a value, the first of this list holds ([`Origin`]):
//!
//! ```text
//! flag of the daemon ▶ environment ▶ `taut set`, kept in the state directory ▶ configuration file ▶ default
//! ```
//! - `file`: values of the configuration file;
//! - `lines`: what `taut set` keeps, as text; `plain_lines` without the feature `config`;
//! - `values`: the parsers of single values.

#[cfg(feature = "config")]
mod file;
#[cfg(feature = "config")]
mod lines;
#[cfg(not(feature = "config"))]
#[path = "settings/plain_lines.rs"]
mod lines;
mod values;

use taut_base::{closest, quote_toml};
use taut_wire::control::Suites;

use crate::config::{AnswerFilter, DaemonConfig};

pub use crate::given::{Given, Origin};
pub use lines::read_lines;
pub use values::{LEVELS, duration, interface_name, meant_events};

/// When a change by `taut set` takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// At once, and no packet is lost.
    Now,
    /// When the network starts again, by `taut down` and `taut up`: it belongs to the TUN device, the sockets or the threads, which are made once.
    NextStart,
    /// When the daemon starts again. `taut set` cannot change it: code that took the daemon over could then free the next one.
    Restart,
}

/// The kind of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`; the flag needs no value.
    Switch,
    /// `on` or `off`, which the flag needs; the file may also have `true` or `false`.
    OnOff,
    /// A number, or a word such as `auto`.
    Number,
    /// A text.
    Text,
    /// Several texts: an array in the file, and one text with commas elsewhere.
    List,
}

/// A setting.
pub struct Setting {
    /// Its name, such as `lanes`.
    pub name: &'static str,
    /// What the configuration file may have as its value.
    pub kind: Kind,
    /// When a change takes effect.
    pub effect: Effect,
    apply: fn(&mut DaemonConfig, &str) -> Result<(), String>,
    show: fn(&DaemonConfig) -> String,
}

/// Declares a setting with a value: its name, its kind, its effect, the field, the parser, and how the field is shown.
macro_rules! value {
    ($name:literal, $kind:ident, $effect:ident, $field:ident, $parse:expr, $show:expr) => {
        Setting {
            name: $name,
            kind: Kind::$kind,
            effect: Effect::$effect,
            apply: |config, text| $parse(text).map(|value| config.$field = value),
            show: |config| $show(&config.$field),
        }
    };
}

/// Declares a setting with a value that this build lacks: it is refused, and not ignored.
#[cfg(not(feature = "userspace"))]
macro_rules! lacking {
    ($name:literal, $kind:ident, $effect:ident, $what:literal) => {
        Setting {
            name: $name,
            kind: Kind::$kind,
            effect: Effect::$effect,
            apply: |_, text| values::lacking(text, $what),
            show: |_| String::from("none"),
        }
    };
}

/// Declares a switch.
macro_rules! switch {
    ($name:literal, $effect:ident, $field:ident) => {
        Setting {
            name: $name,
            kind: Kind::Switch,
            effect: Effect::$effect,
            apply: |config, text| values::switch(text).map(|on| config.$field = on),
            show: |config| config.$field.to_string(),
        }
    };
}

/// All settings, in the order in which they are shown.
pub static SETTINGS: &[Setting] = &[
    value!("port", Number, NextStart, port, values::port, |port: &Option<u16>| values::or_auto(*port)),
    value!("lanes", Number, NextStart, lanes, values::lanes, |lanes: &Option<u8>| values::or_auto(*lanes)),
    value!("tun", Text, NextStart, tun_name, values::tun, |name: &String| name.clone()),
    #[cfg(feature = "userspace")]
    value!("socks5", Number, NextStart, socks5, values::listen, |address: &Option<_>| values::or_none(*address)),
    #[cfg(feature = "userspace")]
    value!("http-proxy", Number, NextStart, http_proxy, values::listen, |address: &Option<_>| values::or_none(
        *address
    )),
    #[cfg(feature = "userspace")]
    value!("forward", List, NextStart, forwards, values::forwards, |forwards: &Vec<_>| values::show_list(forwards)),
    #[cfg(feature = "userspace")]
    value!("publish", List, NextStart, publish, values::published, |publish: &Vec<_>| values::show_list(publish)),
    #[cfg(not(feature = "userspace"))]
    lacking!("socks5", Number, NextStart, "userspace networks"),
    #[cfg(not(feature = "userspace"))]
    lacking!("http-proxy", Number, NextStart, "userspace networks"),
    #[cfg(not(feature = "userspace"))]
    lacking!("forward", List, NextStart, "userspace networks"),
    #[cfg(not(feature = "userspace"))]
    lacking!("publish", List, NextStart, "userspace networks"),
    value!("mtu", Number, NextStart, mtu, values::mtu, |mtu: &Option<u16>| values::or_auto(*mtu)),
    Setting {
        name: "advertise-routes",
        kind: Kind::List,
        effect: Effect::Now,
        apply: |config, text| values::advertised(text).map(|routes| config.routes.advertise = routes),
        show: |config| values::show_advertised(&config.routes.advertise),
    },
    Setting {
        name: "accept-routes",
        kind: Kind::Switch,
        effect: Effect::Now,
        apply: |config, text| values::switch(text).map(|on| config.routes.accept = on),
        show: |config| config.routes.accept.to_string(),
    },
    Setting {
        name: "snat",
        kind: Kind::OnOff,
        effect: Effect::Now,
        apply: |config, text| values::switch(text).map(|on| config.routes.snat = on),
        show: |config| String::from(if config.routes.snat { "on" } else { "off" }),
    },
    Setting {
        name: "advertise-exit-node",
        kind: Kind::Switch,
        effect: Effect::Now,
        apply: |config, text| values::switch(text).map(|on| config.routes.advertise_exit_node = on),
        show: |config| config.routes.advertise_exit_node.to_string(),
    },
    Setting {
        name: "exit-node",
        kind: Kind::Text,
        effect: Effect::Now,
        apply: |config, text| values::exit_node(text).map(|choice| config.routes.exit_node = choice),
        show: |config| config.routes.exit_node.to_string(),
    },
    Setting {
        name: "exit-node-allow-lan-access",
        kind: Kind::Switch,
        effect: Effect::Now,
        apply: |config, text| values::switch(text).map(|on| config.routes.local_networks = on),
        show: |config| config.routes.local_networks.to_string(),
    },
    Setting {
        name: "kill-switch",
        kind: Kind::Switch,
        effect: Effect::Now,
        apply: |config, text| values::switch(text).map(|on| config.routes.kill_switch = on),
        show: |config| config.routes.kill_switch.to_string(),
    },
    switch!("low-latency", NextStart, low_latency),
    value!("rotate-key-every", Text, Now, rotate_key_every, values::key_age, |age: &Option<_>| values::show_age(*age)),
    value!("metrics", Number, Now, metrics, values::metrics, |address: &Option<_>| values::or_none(*address)),
    Setting {
        name: "log-level",
        kind: Kind::Text,
        effect: Effect::Now,
        apply: |config, text| values::levels(text).map(|levels| config.log.levels = levels),
        show: |config| config.log.levels.to_string(),
    },
    switch!("tun-offload", NextStart, tun_offload),
    switch!("tun-steering", NextStart, tun_steering),
    switch!("udp-gso", NextStart, udp_gso),
    switch!("udp-gro", NextStart, udp_gro),
    switch!("ecn", NextStart, ecn),
    switch!("dns", Now, dns),
    switch!("dns-search", Now, dns_search),
    value!("exit-dns", List, Now, exit_dns, values::exit_dns, |servers: &Vec<_>| values::show_exit_dns(servers)),
    value!("dns-filter", Text, Now, dns_filter, values::dns_filter, |filter: &AnswerFilter| String::from(
        filter.name()
    )),
    value!("accept-domains", List, Now, accept_domains, values::domains, |domains: &Vec<String>| values::show_domains(
        domains
    )),
    value!("portmap", Switch, Now, portmap, values::portmap, bool::to_string),
    value!("search-sockets", Number, NextStart, search_sockets, values::search_sockets, |count: &u16| count
        .to_string()),
    switch!("sandbox", Restart, sandbox),
    value!("suites", List, NextStart, suites, values::suites, |suites: &Suites| values::show_suites(*suites)),
];

/// Returns the setting of this name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Returns `; did you mean …?` for a word that is close to the name of a setting.
pub fn meant(word: &str) -> String {
    closest(word, SETTINGS.iter().map(|setting| setting.name))
        .map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

impl Setting {
    /// Returns true if it is `true` or `false`, so that its flag needs no value.
    pub fn is_switch(&self) -> bool {
        self.kind == Kind::Switch
    }

    /// Checks a value, and returns it as it is shown.
    ///
    /// # Errors
    /// What to write instead.
    pub fn check(&self, text: &str) -> Result<String, String> {
        let mut config = DaemonConfig::default();
        (self.apply)(&mut config, text)?;
        Ok((self.show)(&config))
    }

    /// Adds a value to those that are given.
    ///
    /// # Errors
    /// What to write instead.
    pub fn give(&self, given: &mut Given, origin: Origin, text: &str) -> Result<(), String> {
        given.insert(self.name, origin, self.check(text)?);
        Ok(())
    }

    /// Returns the variable of the environment that sets it, such as `TAUT_LOG_LEVEL`.
    pub fn variable(&self) -> String {
        format!("TAUT_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// Returns its present value for users.
    pub(crate) fn shown(&self, config: &DaemonConfig) -> String {
        // The number of a node says nothing to them.
        if self.name == "exit-node" { String::from(config.routes.exit_node.written()) } else { self.value(config) }
    }

    /// Returns its present value as text.
    pub fn value(&self, config: &DaemonConfig) -> String {
        (self.show)(config)
    }
}

/// Sets every setting of a configuration to the value that holds, or to its default.
pub fn resolve(config: &mut DaemonConfig) {
    let defaults = DaemonConfig::default();
    for setting in SETTINGS {
        let text = config.given.value(setting.name).map_or_else(|| setting.value(&defaults), String::from);
        // Values were checked when they were given.
        let _ = (setting.apply)(config, &text);
    }
}

/// Returns what `taut set` keeps as text: a line `name = "value"` for each setting, which [`read_lines`] reads.
pub fn write_lines<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    settings.map(|(name, value)| format!("{name} = {}\n", quote_toml(value))).collect()
}

#[cfg(test)]
mod tests;
