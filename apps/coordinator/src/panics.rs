//! Panics, which are defects of this program: each ends only what it happened in, and is logged with what that was (fault N7).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;

use crate::log;

/// Pause before a task that panicked starts again, 1 s.
const RESTART: Duration = Duration::from_secs(1);

/// Awaits a future. Returns the words of the panic if it panics. What it shared with others must be valid after any of its steps, as what is behind the coordinator's
/// locks is.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| words(panic.as_ref()))
}

/// Calls a function. Returns the words of the panic if it panics.
pub(crate) fn caught_call<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| words(panic.as_ref()))
}

/// Runs a task that has no end, and starts it again after a panic.
pub(crate) async fn restarted<F: Future<Output = ()>>(task: &'static str, start: impl Fn() -> F) {
    while let Err(reason) = caught(start()).await {
        let hint = "this is a defect of the coordinator; please report it";
        tracing::error!(target: log::DAEMON, event = "task-panicked", task, reason, hint);
        tokio::time::sleep(RESTART).await;
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let word = panic.downcast_ref::<&str>().map(|text| String::from(*text));
    word.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| String::from("a panic without words"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn fault_n7_a_task_that_panics_starts_again_until_it_ends() {
        let starts = AtomicU32::new(0);
        restarted("test", || async {
            assert!(starts.fetch_add(1, Ordering::Relaxed) >= 2, "on purpose");
        })
        .await;
        assert_eq!(starts.load(Ordering::Relaxed), 3);
        assert_eq!(caught(async { panic!("{}", "words") }).await, Err::<(), _>(String::from("words")));
        assert_eq!(caught_call(|| 5), Ok(5));
    }
}
