//! Reading the audit log, and forgetting its old entries. Entries are made by [`super::record`].

use super::super::{State, StateError, networks};
use super::answers::ANSWER_LIFE;
use super::api_tokens::LISTED;
use super::{Caller, IDLE_LIFE, LARGEST_PAGE};
use crate::store::{AuditFilter, AuditRow, Party};

/// Time for which entries of failed sign-ins are kept, 30 days in seconds: unauthenticated senders cause them.
const FAILED_LIFE: i64 = 30 * 24 * 3600;

/// Entries that are deleted in one transaction, 1,024: that takes some milliseconds.
const PIECE: u32 = 1_024;

/// An entry of the audit log, with the name of its network if that exists.
pub(crate) struct AuditView {
    pub(crate) row: AuditRow,
    pub(crate) network: Option<String>,
}

/// A page of the audit log.
pub(crate) struct AuditPage {
    pub(crate) entries: Vec<AuditView>,
    /// Number after which the next page begins; `None` at the end.
    pub(crate) next: Option<i64>,
}

impl State {
    /// Returns a page of the audit log: entries with numbers above `after`, from `since` until before `until`. A caller with roles in single networks gets the
    /// entries of these networks only.
    pub(crate) async fn audit(
        &self,
        after: i64,
        since: Option<i64>,
        until: Option<i64>,
        most: u32,
    ) -> Result<AuditPage, StateError> {
        let caller = Caller::current();
        let mut tx = self.store.read(Party::Operators).await?;
        let names = networks::listed(&mut tx, None).await?;
        let most = most.clamp(1, LARGEST_PAGE);
        let filter = AuditFilter { after, since: since.unwrap_or(i64::MIN), until: until.unwrap_or(i64::MAX), most };
        let rows = tx.audit(&filter).await?;
        let is_full = rows.len() >= most as usize;
        let next = rows.last().map(|row| row.id).filter(|_| is_full);
        let view = |row: AuditRow| {
            let network = names.iter().find(|network| Some(network.id) == row.network);
            AuditView { network: network.map(|network| network.name.clone()), row }
        };
        Ok(AuditPage {
            entries: rows.into_iter().filter(|row| caller.is_allowed(row.network)).map(view).collect(),
            next,
        })
    }

    /// Deletes expired sessions, links and kept answers, tokens that ended long ago, and old entries of the audit log. `now` must come from a clock that was not set recently.
    pub(crate) async fn forget_people_marks(&self, now: i64) -> Result<(), StateError> {
        let mut tx = self.store.write(Party::Coordinator).await?;
        tx.forget_sessions(now, now - IDLE_LIFE).await?;
        tx.forget_answers(now - ANSWER_LIFE).await?;
        tx.forget_api_tokens(now - LISTED).await?;
        tx.forget_finished_sign_ins(now).await?;
        tx.commit().await?;
        self.forget_audit(now).await
    }

    /// Deletes entries that are older than the retention time. `now` must come from a clock that was not set recently.
    async fn forget_audit(&self, now: i64) -> Result<(), StateError> {
        loop {
            let mut tx = self.store.write(Party::Coordinator).await?;
            let forgotten = tx.forget_audit(now.saturating_sub(self.people.audit_life), PIECE).await?;
            let failed = tx.forget_failed_sign_ins(now - FAILED_LIFE, PIECE).await?;
            tx.commit().await?;
            if forgotten.max(failed) < u64::from(PIECE) {
                return Ok(());
            }
        }
    }
}
