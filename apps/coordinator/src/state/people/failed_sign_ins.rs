//! Failed attempts to sign in, for the audit log: one entry per source and minute, and few sources, so that unauthenticated clients cannot fill the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use taut_base::network;

use super::super::State;
use super::{Actor, Caller, Change, record};
use crate::log;
use crate::store::{Party, StoreError};

/// Sources of one minute that have an entry of their own, 16; all others share one. With entries that are kept for 30 days that is 100 MB at most.
const SOURCES: usize = 16;

/// Accounts that an entry names, 8.
const ACCOUNTS: usize = 8;

/// The failed attempts of a source since the last entry.
#[derive(Default)]
struct Failures {
    count: u64,
    /// Numbers of people that exist. Typed names are not stored: some are passwords in the wrong field.
    people: BTreeSet<i64>,
}

/// Failed attempts with the address to show, by source. The key of all sources beyond [`SOURCES`] is `None`.
type BySource = BTreeMap<Option<[u8; 8]>, (String, Failures)>;

/// Failed attempts since the last entries were written.
#[derive(Default)]
pub(super) struct FailedSignIns(Mutex<BySource>);

impl FailedSignIns {
    /// Notes a failed attempt.
    pub(super) fn note(&self, source: IpAddr, person: Option<i64>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Some(network(source));
        let key = if all.contains_key(&key) || all.len() < SOURCES { key } else { None };
        let shown = if key.is_some() { source.to_canonical().to_string() } else { String::from("other addresses") };
        let (_, failures) = all.entry(key).or_insert_with(|| (shown, Failures::default()));
        failures.count += 1;
        if failures.people.len() < ACCOUNTS {
            failures.people.extend(person);
        }
    }

    fn take(&self) -> Vec<(String, Failures)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_values().collect()
    }
}

impl State {
    /// Writes the failed attempts of the last minute to the audit log. Call it once a minute.
    pub(crate) async fn write_failed_sign_ins(&self) {
        for (source, failures) in self.people.failures.take() {
            tracing::warn!(target: log::API, event = "sign-ins-failed", address = source, count = failures.count);
            let caller = Caller { source, ..Caller::local(Actor::Nobody) };
            let after = json!({ "count": failures.count, "users": failures.people });
            let written = caller.scope(async {
                let mut tx = self.store.write(Party::Coordinator).await?;
                let change = Change {
                    network: None,
                    action: "sign-ins-failed",
                    object: String::new(),
                    before: None,
                    after: Some(after),
                };
                record(&mut tx, change).await?;
                tx.commit().await
            });
            if let Err(error) = Box::pin(written).await as Result<(), StoreError> {
                tracing::error!(target: log::DATABASE, event = "sign-ins-not-recorded", reason = %error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e13_many_sources_make_few_entries() {
        let failed = FailedSignIns::default();
        for number in 0..10_000_u32 {
            failed.note(IpAddr::V4(number.into()), Some(i64::from(number)));
        }
        failed.note(IpAddr::V4(1.into()), None);
        let entries = failed.take();
        assert_eq!(entries.len(), SOURCES + 1);
        assert_eq!(entries.iter().map(|(_, failures)| failures.count).sum::<u64>(), 10_001);
        assert!(entries.iter().all(|(_, failures)| failures.people.len() <= ACCOUNTS));
        assert!(failed.take().is_empty());
    }
}
