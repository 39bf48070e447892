//! The claims about a person in a provider's tokens, and the checks that decide whether the person may sign in.

use std::collections::BTreeMap;

use openidconnect::AdditionalClaims;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ANY_DOMAIN, OidcOptions};

/// Most groups of a person, 1,000, and the longest name of one, 256 bytes.
const GROUPS: (usize, usize) = (1_000, 256);

/// Longest subject, 255 bytes (OpenID Connect Core 1.0 section 2).
const LONGEST_SUBJECT: usize = 255;

/// Claims that OpenID Connect does not define.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct OtherClaims {
    #[serde(flatten)]
    all: BTreeMap<String, Value>,
}

impl AdditionalClaims for OtherClaims {}

/// Claims of one source: an ID token or the user info endpoint.
pub(super) struct Said<'a> {
    pub(super) name: Option<String>,
    pub(super) email: Option<String>,
    pub(super) is_email_confirmed: bool,
    pub(super) other: &'a OtherClaims,
}

/// A person as the provider describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Identifies the person at this provider, for ever.
    pub(crate) subject: String,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    /// True if the provider has checked that the address is the person's.
    pub(crate) is_email_confirmed: bool,
    /// Sorted, each once.
    pub(crate) groups: Vec<String>,
}

impl Identity {
    /// Returns the identity for a subject; an error if no valid provider has such a subject.
    pub(super) fn new(subject: &str) -> Result<Self, String> {
        if subject.is_empty() || subject.len() > LONGEST_SUBJECT || subject.contains(char::is_control) {
            return Err(String::from("the subject is empty, too long, or has control characters"));
        }
        Ok(Self { subject: String::from(subject), ..Self::default() })
    }

    /// Adds claims. Those that are absent leave what is known.
    pub(super) fn add(&mut self, said: Said<'_>, groups_claim: &str) -> Result<(), String> {
        if said.name.is_some() {
            self.name = said.name;
        }
        if said.email.is_some() {
            // Both from the same source: a confirmation of another address is worth nothing.
            (self.email, self.is_email_confirmed) = (said.email, said.is_email_confirmed);
        }
        if let Some(value) = said.other.all.get(groups_claim) {
            self.groups = groups(value)?;
        }
        Ok(())
    }

    /// Returns an error with the reason if the settings do not let this person in.
    pub(super) fn check(&self, options: &OidcOptions) -> Result<(), &'static str> {
        if !options.groups.is_empty() && !options.groups.iter().any(|group| self.groups.contains(group)) {
            return Err("the person is in none of the groups of --oidc-allow-group");
        }
        if options.domains.is_empty() || options.domains.iter().any(|domain| domain == ANY_DOMAIN) {
            return Ok(());
        }
        let domain = self.email.as_deref().and_then(|email| email.rsplit_once('@')).map(|(_, domain)| domain);
        let is_listed = |domain: &str| options.domains.iter().any(|listed| listed.eq_ignore_ascii_case(domain));
        match domain {
            Some(domain) if is_listed(domain) && self.is_email_confirmed => Ok(()),
            Some(domain) if is_listed(domain) => Err("the provider has not confirmed the email address"),
            _ => Err("the email address is in none of the domains of --oidc-allow-domain"),
        }
    }
}

/// Returns the groups of a claim: an array of texts, or one text.
fn groups(value: &Value) -> Result<Vec<String>, String> {
    let mut groups: Vec<String> = match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).map(String::from).collect(),
        Value::String(one) => vec![one.clone()],
        _ => return Err(String::from("the claim with the groups is neither an array nor a text")),
    };
    groups.sort();
    groups.dedup();
    // An error, because a person without some of its groups would lose access without a reason that it can see.
    if groups.len() > GROUPS.0 || groups.iter().any(|group| group.len() > GROUPS.1) {
        return Err(format!(
            "the person has more than {} groups, or one with a name longer than {} bytes",
            GROUPS.0, GROUPS.1
        ));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn options(domains: &[&str], groups: &[&str]) -> OidcOptions {
        OidcOptions {
            issuer: String::new(),
            client_id: String::new(),
            client_secret: String::new().into(),
            scopes: Vec::new(),
            parameters: Vec::new(),
            groups_claim: String::from("groups"),
            domains: domains.iter().map(|domain| String::from(*domain)).collect(),
            groups: groups.iter().map(|group| String::from(*group)).collect(),
            refresh_every: std::time::Duration::ZERO,
            allow_private: false,
        }
    }

    fn identity(email: &str, is_email_confirmed: bool, groups: &[&str]) -> Identity {
        let groups = groups.iter().map(|group| String::from(*group)).collect();
        Identity { email: Some(String::from(email)), is_email_confirmed, groups, ..Identity::new("1").unwrap() }
    }

    #[test]
    fn fault_e14_only_confirmed_addresses_of_the_domain_itself_are_let_in() {
        let options = options(&["example.com"], &[]);
        assert!(identity("ann@example.com", true, &[]).check(&options).is_ok());
        assert!(identity("ann@EXAMPLE.com", true, &[]).check(&options).is_ok());
        for email in [
            "ann@evil.com",
            "ann@sub.example.com",
            "ann@example.com.evil.com",
            "ann@example.com@evil.com",
            "example.com",
            "",
        ] {
            assert!(identity(email, true, &[]).check(&options).is_err(), "{email}");
        }
        assert!(identity("ann@example.com", false, &[]).check(&options).is_err(), "anyone can write an address");
        assert!(Identity::new("1").unwrap().check(&options).is_err(), "without an address");
    }

    #[test]
    fn a_person_needs_a_domain_and_a_group_if_both_are_set() {
        let both = options(&["example.com"], &["staff", "admins"]);
        assert!(identity("ann@example.com", true, &["admins"]).check(&both).is_ok());
        assert!(identity("ann@example.com", true, &["guests"]).check(&both).is_err());
        assert!(identity("ann@other.com", true, &["staff"]).check(&both).is_err());
        assert!(identity("", false, &["staff"]).check(&options(&[], &["staff"])).is_ok());
        assert!(identity("", false, &[]).check(&options(&["*"], &[])).is_ok());
    }

    #[test]
    fn groups_are_bounded_and_of_one_form() {
        assert_eq!(groups(&json!(["b", "a", "b", 7])).unwrap(), ["a", "b"]);
        assert_eq!(groups(&json!("staff")).unwrap(), ["staff"]);
        for wrong in [
            json!({}),
            json!(7),
            json!(["x".repeat(257)]),
            json!((0..1_001).map(|n| n.to_string()).collect::<Vec<_>>()),
        ] {
            assert!(groups(&wrong).is_err());
        }
        for wrong in ["", "a\n", &"a".repeat(256)] {
            assert!(Identity::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
