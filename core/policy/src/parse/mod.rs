//! Parses the text of a policy into a [`Policy`].

mod checks;
mod fields;
mod ports;
mod rules;
mod sections;
#[cfg(test)]
mod tests;
mod words;

use fields::{Fields, Known};

use crate::error::PolicyError;
use crate::hujson;
use crate::policy::Policy;

/// The parts of a policy.
const PARTS: [Known; 8] = [
    ("groups", &[]),
    ("tagOwners", &[]),
    ("hosts", &[]),
    ("ipsets", &[]),
    ("acls", &[]),
    ("grants", &[]),
    ("autoApprovers", &[]),
    ("tests", &[]),
];

impl Policy {
    /// Parses a policy.
    ///
    /// # Errors
    /// At the first place that is wrong: no JSON, an unknown part, a name that is not defined, a value that does not belong there, or too much of
    /// anything. A policy without rules needs an empty `acls` or `grants`, because elsewhere a policy without both allows everything.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let item = hujson::parse(text)?;
        let mut fields = Fields::read(&item, "the policy", &PARTS)?;
        let mut policy = Self::default();
        // Sections that define names are read first, wherever they are in the text, so that every other section can refer to the names.
        if let Some(item) = fields.take("groups") {
            policy.groups = sections::groups(item)?;
        }
        let tag_owners = fields.take("tagOwners");
        if let Some(item) = tag_owners {
            policy.tag_owners = sections::tags(item)?;
            policy.tag_owners = sections::owners(item, &policy)?;
        }
        if let Some(item) = fields.take("hosts") {
            policy.hosts = sections::hosts(item)?;
        }
        if let Some(item) = fields.take("ipsets") {
            sections::ipsets(item, &mut policy)?;
        }
        if let Some(item) = fields.take("autoApprovers") {
            sections::approvers(item, &mut policy)?;
        }
        let (acls, grants) = (fields.take("acls"), fields.take("grants"));
        if acls.is_none() && grants.is_none() {
            return Err(PolicyError::at(item.at, "the policy has neither `acls` nor `grants`")
                .hint("write \"grants\": [] to allow nothing, or a rule from \"*\" to \"*\" to allow everything"));
        }
        if let Some(item) = acls {
            rules::acls(item, &mut policy)?;
        }
        if let Some(item) = grants {
            rules::grants(item, &mut policy)?;
        }
        if let Some(item) = fields.take("tests") {
            policy.tests = checks::tests(item, &policy)?;
        }
        Ok(policy)
    }
}
