//! The fields of an object, by name.

use std::collections::HashMap;

use taut_base::closest;

use crate::error::PolicyError;
use crate::hujson::{Item, twice};

/// Parts of the language that Taut does not have, and why not.
const ABSENT: [(&str, &str); 15] = [
    ("via", "routes are chosen by approval, not by rules"),
    ("app", "capabilities of applications are not enforced by a packet filter"),
    ("srcposture", "there are no device postures"),
    ("srcpostureattrs", "there are no device postures"),
    ("postures", "there are no device postures"),
    ("defaultsrcposture", "there are no device postures"),
    ("ssh", "log in with OpenSSH, and open its port by a rule"),
    ("sshtests", "log in with OpenSSH, and open its port by a rule"),
    ("nodeattrs", "settings of nodes are not part of the policy"),
    ("attrconfig", "settings of nodes are not part of the policy"),
    ("derpmap", "relays are added by `taut-coordinator relays add`"),
    ("disableipv4", "each network has both families"),
    ("onecgnatroute", "settings of nodes are not part of the policy"),
    ("randomizeclientport", "settings of nodes are not part of the policy"),
    ("services", "there are no services with addresses of their own"),
];

/// Fields of an object that were not taken yet. Names are compared without regard to case, as the language does.
pub(super) struct Fields<'a> {
    fields: HashMap<&'static str, &'a Item>,
    item: &'a Item,
    of: &'a str,
}

/// A known field: its name, and older names that mean the same.
pub(super) type Known = (&'static str, &'static [&'static str]);

impl<'a> Fields<'a> {
    /// Reads the fields of an object. `of` names it in errors, as in "a rule of `acls`".
    ///
    /// # Errors
    /// If the value is no object, or has a field that is unknown or stands twice.
    pub(super) fn read(item: &'a Item, of: &'a str, known: &[Known]) -> Result<Self, PolicyError> {
        let (mut fields, mut lines) = (HashMap::new(), HashMap::new());
        for entry in item.map(of)? {
            let is = |name: &str| name.eq_ignore_ascii_case(&entry.key);
            let found = known.iter().find(|(name, older)| is(name) || older.iter().any(|older| is(older)));
            let Some((name, _)) = found else {
                return Err(unknown(&entry.key, of, known, PolicyError::at(entry.at, "")));
            };
            if let Some(first) = lines.insert(*name, entry.at.line) {
                return Err(twice(&entry.key, entry.at, first));
            }
            fields.insert(*name, &entry.item);
        }
        Ok(Self { fields, item, of })
    }

    /// Takes a field, or `None` if it is absent.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a Item> {
        self.fields.remove(name)
    }

    /// Takes a field that must be there.
    pub(super) fn need(&mut self, name: &str) -> Result<&'a Item, PolicyError> {
        self.take(name).ok_or_else(|| PolicyError::at(self.item.at, format!("{} has no `{name}`", self.of)))
    }
}

fn unknown(key: &str, of: &str, known: &[Known], error: PolicyError) -> PolicyError {
    if let Some((_, why)) = ABSENT.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) {
        let message = format!("Taut does not support `{key}`: {why}");
        return PolicyError { message, ..error }.hint("remove it; docs/policy.md has the parts that Taut enforces");
    }
    let names = known.iter().map(|(name, _)| *name);
    let hint = match closest(key, names.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("it can have {}", names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
    };
    PolicyError { message: format!("{of} has no part `{key}`"), ..error }.hint(hint)
}
