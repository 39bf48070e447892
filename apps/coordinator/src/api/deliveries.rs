//! Sends what is due to webhooks. `state/webhooks` says what that is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::operator::{audit_entry, post_to_webhook};
use crate::contract::{SchemaVersion, WebhookBody};
use crate::log;
use crate::state::{Delivery, State};

/// Deliveries at once, 3. Each takes up to 5 s.
const AT_ONCE: usize = 3;

/// Tests at once, 1: however many are asked for, deliveries keep their places.
pub(super) const TESTS_AT_ONCE: usize = 1;

/// Time between two looks for deliveries that are due, 2 s.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Time before the next look if there was more than one look can take, 20 ms.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Time before the next look after a failure of the database, 10 s.
const RETRY: Duration = Duration::from_secs(10);

/// Delivers until `stop` is true, and then waits for what is on its way.
pub(super) async fn run(state: Arc<State>, mut stop: watch::Receiver<bool>) {
    let mut running = JoinSet::new();
    while !*stop.borrow() {
        let free = AT_ONCE - running.len();
        let claimed = if free == 0 { Ok((Vec::new(), false)) } else { state.claim_deliveries(free).await };
        let pause = match claimed {
            Ok((deliveries, has_more)) => {
                for delivery in deliveries {
                    running.spawn(deliver(Arc::clone(&state), delivery));
                }
                if has_more && running.len() < AT_ONCE { LOOK_AGAIN } else { LOOK_EVERY }
            }
            Err(error) => {
                tracing::error!(target: log::DATABASE, event = "webhooks-not-read", reason = %error);
                RETRY
            }
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = running.join_next() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    running.join_all().await;
}

async fn deliver(state: Arc<State>, mut delivery: Delivery) {
    let events = std::mem::take(&mut delivery.entries).into_iter().map(audit_entry).collect();
    let body = WebhookBody { schema: SchemaVersion, webhook: delivery.webhook.id, events };
    let result = post_to_webhook(&state, &delivery.webhook, &body).await.map(drop);
    // Without the result the claim ends, and the same is delivered again.
    if let Err(error) = state.end_delivery(&delivery, &result).await {
        tracing::error!(target: log::DATABASE, event = "webhooks-not-read", reason = %error);
    }
}
