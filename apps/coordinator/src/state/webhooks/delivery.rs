//! Which entries are due at which webhook, and what follows from the result of an attempt. The audit log is the queue: a webhook has a cursor in it, so a crash
//! loses no entry, and an entry whose delivery was not stored is delivered again.

use serde_json::json;

use super::super::party::{Actor, Caller, Change, record};
use super::super::people::AuditView;
use super::super::{State, StateError, networks, random};
use super::{ANY, change};
use crate::clock::unix_now;
use crate::log;
use crate::store::{Attempted, AuditRow, Party, WebhookRow};

/// Webhooks of one look, 16: each costs two reads.
const PIECE: u32 = 16;

/// Entries that are read for a webhook at once, 200.
const WINDOW: u32 = 200;

/// Most entries of one request, 100.
const MOST_ENTRIES: usize = 100;

/// Size from which a request gets no further entry, 512 KiB: some entries have long values.
const LARGE: usize = 512 * 1024;

/// Time for which a coordinator claims an attempt, 30 s: the attempt takes 5 s, and storing its result waits for the database at most 10 s.
const CLAIM: i64 = 30;

/// Pause after the first failure, 10 s. It doubles with each further one.
const FIRST_PAUSE: i64 = 10;

/// Longest pause, 1 h.
const LONGEST_PAUSE: i64 = 3_600;

/// Time of failures after which a webhook is disabled, 3 days.
const GIVE_UP_AFTER: i64 = 3 * 24 * 3_600;

/// Failures before which it is not disabled, 50: three days have about 80, and a clock that was set ahead must disable nothing.
const GIVE_UP_FAILURES: i64 = 50;

/// Entries for a webhook, and this coordinator's claim to deliver them.
pub(crate) struct Delivery {
    pub(crate) webhook: WebhookRow,
    pub(crate) entries: Vec<AuditView>,
    /// End of the claim, by which it is known.
    claim: i64,
    /// The cursor after the delivery.
    until: i64,
}

/// What a look has found for one webhook.
enum Found {
    /// Only entries that it does not want, up to this number.
    Nothing(i64),
    /// These entries, and the cursor after them.
    Entries(Vec<AuditRow>, i64),
}

impl State {
    /// Claims up to `most` deliveries that are due. Returns them, and true if there may be more.
    pub(crate) async fn claim_deliveries(&self, most: usize) -> Result<(Vec<Delivery>, bool), StateError> {
        let now = unix_now();
        let mut tx = self.store.read(Party::Coordinator).await?;
        let due = tx.due_webhooks(now, now + 2 * LONGEST_PAUSE, PIECE).await?;
        if due.is_empty() {
            return Ok((Vec::new(), false));
        }
        let mut has_more = due.len() >= PIECE as usize;
        let names = networks::listed(&mut tx, None).await?;
        let mut found = Vec::new();
        for webhook in due {
            let Some(bound) = tx.audit_bound(webhook.cursor, WINDOW).await? else { continue };
            let rows = tx.audit_between(webhook.network, webhook.cursor, bound).await?;
            found.push((find(&webhook, rows, bound), webhook));
        }
        drop(tx);
        let mut tx = self.store.write(Party::Coordinator).await?;
        let mut deliveries = Vec::new();
        for (found, webhook) in found {
            match found {
                Found::Nothing(until) => tx.pass_over(&webhook, until).await?,
                Found::Entries(..) if deliveries.len() >= most => has_more = true,
                Found::Entries(rows, until) => {
                    let claim = now + CLAIM;
                    if !tx.claim_webhook(&webhook, claim).await? {
                        continue;
                    }
                    let view = |row: AuditRow| {
                        let network = names.iter().find(|network| Some(network.id) == row.network);
                        AuditView { network: network.map(|network| network.name.clone()), row }
                    };
                    let entries = rows.into_iter().map(view).collect();
                    deliveries.push(Delivery { webhook, entries, claim, until });
                }
            }
        }
        tx.commit().await?;
        Ok((deliveries, has_more))
    }

    /// Stores the result of a delivery.
    pub(crate) async fn end_delivery(
        &self,
        delivery: &Delivery,
        result: &Result<(), String>,
    ) -> Result<(), StateError> {
        let (webhook, now) = (&delivery.webhook, unix_now());
        let mut tx = self.store.write(Party::Coordinator).await?;
        let Err(reason) = result else {
            let done = Attempted {
                cursor: delivery.until,
                failures: 0,
                failing_since: None,
                next_try_at: now,
                last_error: None,
                disabled_at: None,
            };
            tx.set_attempted(webhook.id, delivery.claim, &done).await?;
            tx.commit().await?;
            return Ok(());
        };
        let (failures, since) = (webhook.failures + 1, webhook.failing_since.unwrap_or(now));
        let gives_up = failures >= GIVE_UP_FAILURES && now - since >= GIVE_UP_AFTER;
        let failed = Attempted {
            cursor: webhook.cursor,
            failures,
            failing_since: Some(since),
            next_try_at: now + pause(failures, u16::from_le_bytes(random())),
            last_error: Some(reason),
            disabled_at: gives_up.then_some(now),
        };
        if !tx.set_attempted(webhook.id, delivery.claim, &failed).await? {
            return Ok(());
        }
        if gives_up {
            let after = Some(json!({ "reason": reason, "failures": failures }));
            let change = Change { after, ..change(webhook.network, "webhook-disabled", webhook.id) };
            Box::pin(Caller::local(Actor::Coordinator).scope(record(&mut tx, change))).await?;
        }
        tx.commit().await?;
        if gives_up {
            tracing::error!(target: log::API, event = "webhook-disabled", webhook = webhook.id, failures, reason);
        } else {
            tracing::warn!(target: log::API, event = "webhook-failed", webhook = webhook.id, failures, reason);
        }
        Ok(())
    }

    /// Has a disabled webhook go on after a test that succeeded.
    pub(crate) async fn enable_webhook(&self, id: i64) -> Result<(), StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let Some(row) = tx.webhook(id).await?.filter(|row| row.disabled_at.is_some()) else { return Ok(()) };
        let enabled = Attempted {
            cursor: row.cursor,
            failures: 0,
            failing_since: None,
            next_try_at: unix_now(),
            last_error: None,
            disabled_at: None,
        };
        if tx.set_attempted(id, row.next_try_at, &enabled).await? {
            record(&mut tx, change(row.network, "webhook-enabled", id)).await?;
            tx.commit().await?;
        }
        Ok(())
    }
}

/// Returns the entries that a webhook wants of those up to `bound`, as far as they fit into one request.
fn find(webhook: &WebhookRow, rows: Vec<AuditRow>, bound: i64) -> Found {
    let is_wanted = |row: &AuditRow| webhook.events.iter().any(|event| event == ANY || *event == row.action);
    let length = |row: &AuditRow| {
        [&row.before, &row.after].map(|value| value.as_ref().map_or(0, String::len)).iter().sum::<usize>()
    };
    let (mut taken, mut size): (Vec<AuditRow>, usize) = (Vec::new(), 0);
    for row in rows.into_iter().filter(is_wanted) {
        size += length(&row);
        if let Some(last) = taken.last()
            && (taken.len() >= MOST_ENTRIES || size > LARGE)
        {
            let until = last.id;
            return Found::Entries(taken, until);
        }
        taken.push(row);
    }
    if taken.is_empty() { Found::Nothing(bound) } else { Found::Entries(taken, bound) }
}

/// Returns the pause after this number of failures, in seconds, up to a fifth longer or shorter: webhooks of a server that was away do not all come back at once.
fn pause(failures: i64, random: u16) -> i64 {
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(16);
    let pause = (FIRST_PAUSE << doublings).min(LONGEST_PAUSE);
    pause * (800 + i64::from(random) % 401) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64, action: &str, length: usize) -> AuditRow {
        let text = String::new;
        let (actor, actor_name, source, request, object) = (text(), text(), text(), text(), text());
        let (action, after) = (String::from(action), Some("x".repeat(length)));
        AuditRow {
            id,
            at: 0,
            actor,
            actor_id: None,
            actor_name,
            source,
            request,
            network: None,
            action,
            object,
            before: None,
            after,
        }
    }

    #[test]
    fn the_pause_doubles_up_to_an_hour_and_varies_by_a_fifth() {
        for (failures, middle) in [(1, 10), (2, 20), (5, 160), (9, 2_560), (10, 3_600), (1_000_000, 3_600)] {
            let all: Vec<i64> = (0..=u16::MAX).step_by(7).map(|random| pause(failures, random)).collect();
            let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            assert_eq!((*least, *most), (middle * 8 / 10, middle * 12 / 10), "{failures}");
        }
    }

    #[test]
    fn a_request_has_the_wanted_entries_up_to_its_limits() {
        let mut webhook = WebhookRow {
            id: 1,
            network: None,
            url: String::new(),
            secret: String::new(),
            events: vec![String::from("a")],
            created_at: 0,
            disabled_at: None,
            cursor: 0,
            failures: 0,
            failing_since: None,
            next_try_at: 0,
            last_error: None,
        };
        let ids = |webhook: &WebhookRow, rows: Vec<AuditRow>, bound| match find(webhook, rows, bound) {
            Found::Nothing(until) => (Vec::new(), until),
            Found::Entries(rows, until) => (rows.iter().map(|row| row.id).collect::<Vec<_>>(), until),
        };
        assert_eq!(ids(&webhook, vec![row(1, "b", 0), row(2, "b", 0)], 7), (vec![], 7));
        assert_eq!(ids(&webhook, vec![row(1, "b", 0), row(2, "a", 0), row(3, "b", 0)], 7), (vec![2], 7));
        webhook.events = vec![String::from("*")];
        assert_eq!(ids(&webhook, vec![row(1, "a", LARGE), row(2, "b", 1)], 7), (vec![1], 1), "the second does not fit");
        assert_eq!(ids(&webhook, vec![row(1, "a", 9 * LARGE)], 7), (vec![1], 7), "one always fits");
        let many = ids(&webhook, (1..=150).map(|id| row(id, "a", 0)).collect(), 200);
        assert_eq!((many.0.len(), many.1), (100, 100));
    }
}
