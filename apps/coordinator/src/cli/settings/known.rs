//! The settings of `serve`: one table from which flags, environment variables and keys of the configuration file are made.

/// The form of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Kind {
    /// One text.
    Text,
    /// One whole number of zero or more.
    Number,
    /// Several texts: a flag that is repeated, a variable with commas, an array.
    List,
    /// On or off: a flag without a value, `true` or `false` elsewhere.
    Switch,
}

/// A setting. Its name is that of the flag and of the key in the file.
#[derive(Debug)]
pub(in crate::cli) struct Known {
    pub(in crate::cli) name: &'static str,
    pub(in crate::cli) kind: Kind,
    /// The value that applies if no source has one, for people; empty if there is none.
    pub(in crate::cli) default: &'static str,
}

impl Known {
    const fn new(name: &'static str, kind: Kind, default: &'static str) -> Self {
        Self { name, kind, default }
    }

    /// Returns the name of the environment variable.
    pub(in crate::cli) fn variable(&self) -> String {
        format!("TAUT_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

/// State directory without `--state`.
pub(in crate::cli) const DEFAULT_STATE: &str = "/var/lib/taut-coordinator";

/// All settings, in the order of the help.
pub(in crate::cli) const KNOWN: [Known; 34] = [
    Known::new("state", Kind::Text, DEFAULT_STATE),
    Known::new("database", Kind::Text, ""),
    Known::new("listen", Kind::Text, "[::]:8288"),
    Known::new("url", Kind::List, ""),
    Known::new("tls-cert", Kind::Text, ""),
    Known::new("tls-key", Kind::Text, ""),
    Known::new("acme", Kind::List, ""),
    Known::new("acme-directory", Kind::Text, "https://acme-v02.api.letsencrypt.org/directory"),
    Known::new("acme-contact", Kind::Text, ""),
    Known::new("acme-http", Kind::Text, ""),
    Known::new("metrics", Kind::Text, ""),
    Known::new("drain", Kind::Number, "0"),
    Known::new("audit-days", Kind::Number, "365"),
    Known::new("oidc-issuer", Kind::Text, ""),
    Known::new("oidc-client-id", Kind::Text, ""),
    Known::new("oidc-client-secret-file", Kind::Text, ""),
    Known::new("oidc-allow-domain", Kind::List, ""),
    Known::new("oidc-allow-group", Kind::List, ""),
    Known::new("oidc-groups-claim", Kind::Text, "groups"),
    Known::new("oidc-scope", Kind::List, "profile email offline_access"),
    Known::new("oidc-parameter", Kind::List, ""),
    Known::new("oidc-refresh-minutes", Kind::Number, "60"),
    Known::new("oidc-allow-private", Kind::Switch, "false"),
    Known::new("webhooks-allow-private", Kind::Switch, "false"),
    Known::new("relay-port", Kind::Number, "3478"),
    Known::new("relay-address", Kind::List, ""),
    Known::new("relay-rate", Kind::Text, "1G"),
    Known::new("relay-metrics", Kind::Text, ""),
    Known::new("no-relay", Kind::Switch, "false"),
    Known::new("trusted-proxy", Kind::List, ""),
    Known::new("log-format", Kind::Text, "text"),
    Known::new("log-level", Kind::Text, "info"),
    Known::new("network", Kind::Text, "default"),
    Known::new("ipv4-prefix", Kind::Text, "100.64.0.0/10"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::DEFAULT_IPV4;
    use crate::cli::help;

    #[test]
    fn the_help_of_serve_has_every_setting_and_no_other_option() {
        let listed: Vec<&str> = help::text(Some("serve"))
            .lines()
            .filter_map(|line| line.strip_prefix("  --")?.split(' ').next())
            .filter(|name| *name != "config")
            .collect();
        assert_eq!(listed, KNOWN.iter().map(|known| known.name).collect::<Vec<_>>());
    }

    #[test]
    fn defaults_are_those_in_force() {
        let of = |name: &str| KNOWN.iter().find(|known| known.name == name).unwrap().default;
        assert_eq!(of("ipv4-prefix"), DEFAULT_IPV4);
        assert_eq!(of("listen"), format!("[::]:{}", taut_base::DEFAULT_PORT));
        let relay = crate::relay::RelayOptions::default();
        assert_eq!((of("relay-port"), of("relay-rate").parse()), (&*relay.port.to_string(), Ok(relay.rate)));
    }
}
