//! The features that a build can lack. The tiny build for small routers lacks all of them (docs/footprint.md).

use crate::fault::Fault;

/// A feature of the program.
struct Feature {
    name: &'static str,
    /// True if this build has it.
    is_built: bool,
    /// If the feature is a verb of the same name: what to do in a build without it.
    instead: Option<&'static str>,
}

const FEATURES: &[Feature] = &[
    Feature { name: "tls", is_built: cfg!(feature = "tls"), instead: None },
    Feature { name: "portmap", is_built: cfg!(feature = "portmap"), instead: None },
    Feature {
        name: "update",
        is_built: cfg!(feature = "update"),
        instead: Some("install the package of the newer release with the router's package manager"),
    },
    Feature {
        name: "wg",
        is_built: cfg!(feature = "wg"),
        instead: Some(
            "use the WireGuard of the router's kernel (OpenWrt: the packages kmod-wireguard and wireguard-tools)",
        ),
    },
    Feature {
        name: "service",
        is_built: cfg!(feature = "service"),
        instead: Some("use the service that the package installed: `/etc/init.d/taut enable`, `start` and `status`"),
    },
    Feature { name: "aes", is_built: cfg!(feature = "aes"), instead: None },
    Feature { name: "desktop-dns", is_built: cfg!(feature = "desktop-dns"), instead: None },
    Feature { name: "userspace", is_built: cfg!(feature = "userspace"), instead: None },
    Feature {
        name: "config",
        is_built: cfg!(feature = "config"),
        instead: Some("write settings into /etc/config/taut; `taut set` lists those of the daemon"),
    },
];

/// Returns the names of the features that this build lacks.
pub(crate) fn names() -> Vec<&'static str> {
    FEATURES.iter().filter(|feature| !feature.is_built).map(|feature| feature.name).collect()
}

/// Returns the error for a verb that this build lacks; `None` for all other words.
pub(crate) fn verb(name: &str) -> Option<Fault> {
    let lacking = FEATURES.iter().find(|feature| feature.name == name && !feature.is_built)?;
    let hint = format!("{}, or install the full package", lacking.instead?);
    Some(Fault::failed(format!("this taut was built without `taut {name}`, as for small routers"), hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb;

    #[test]
    fn a_build_has_a_verb_or_says_what_to_do_without_it() {
        for feature in FEATURES.iter().filter(|feature| feature.instead.is_some()) {
            assert_eq!(names().contains(&feature.name), !feature.is_built);
            assert_eq!(verb::overview().contains(&format!("\n  {} ", feature.name)), feature.is_built);
            match verb::find(feature.name) {
                Ok(_) => assert!(feature.is_built),
                Err(fault) => assert!(!feature.is_built && fault.message().contains("was built without"), "{fault:?}"),
            }
        }
        assert!(verb("tls").is_none() && verb("fly").is_none(), "neither was ever a verb");
    }
}
