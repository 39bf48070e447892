//! Work in progress: requests of operators and admissions of nodes. What was applied must be answered, so the end of the program waits for it (fault O2).

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// Counts the work in progress.
#[derive(Default)]
pub(super) struct Work(watch::Sender<usize>);

impl Work {
    pub(super) fn begin(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub(super) fn end(&self) {
        self.0.send_modify(|count| *count -= 1);
    }

    /// Waits for `end`, but not longer than `rest` after the moment when no work was in progress any more.
    pub(super) async fn until_done(&self, rest: Duration, end: impl Future<Output = ()>) {
        let mut count = self.0.subscribe();
        let idle = async {
            let _ = count.wait_for(|count| *count == 0).await;
            sleep(rest).await;
        };
        tokio::select! {
            () = end => {}
            () = idle => {}
        }
    }
}
