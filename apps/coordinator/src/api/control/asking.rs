//! The channel of a machine that asks to join without an enrolment key (`taut up` without a token).
//!
//! The machine has proven its key, and is unauthenticated all the same: the channel keeps its place among the unauthenticated connections, where it may be evicted,
//! and its request stays. A machine that comes back finds its request by its key (fault E6).

use std::sync::Arc;
use std::time::Duration;

use taut_base::PublicKey;
use taut_netmap::{Hello, SCHEMA, ToCoordinator, ToNode};
use taut_relay_server::Source;
use taut_relay_server::log::UNAUTHENTICATED;
use tokio::time::{Instant, sleep_until};

use super::{refusal, waiting};
use crate::api::channel::ControlChannel;
use crate::api::pending_connection::PendingConnection;
use crate::api::{Context, stopped};
use crate::log;
use crate::state::{Asked, REQUEST_LIFE, StateError};
use crate::store::{NetworkId, Part};

/// Time between two looks for an answer, 5 s: another coordinator on the same database may have given it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Longest silence of the machine, 45 s: three of its pings.
const SILENCE: Duration = Duration::from_secs(45);

/// Messages of the machine in one minute, 16: it pings every 15 s. One that sends more is disconnected.
const MESSAGES: u32 = 16;

/// Serves the channel of a machine that asks to join.
pub(super) async fn serve(
    context: &Context,
    guest: &Arc<PendingConnection>,
    source: &Source,
    mut channel: ControlChannel,
    (machine, hello): (PublicKey, Hello),
) {
    let state = &context.state;
    let refusal = match asked(context, guest, source, &mut channel, (machine, &hello)).await {
        Ok(Some(network)) => {
            let welcome = ToNode::Welcome { network: network.to_string(), urls: state.urls().to_vec() };
            tracing::info!(target: log::CONTROL, limited = UNAUTHENTICATED, event = "welcomed", address = %source, %machine);
            return channel.refuse(&welcome).await;
        }
        Ok(None) => return channel.close().await,
        Err(error) => refusal::problem(&error),
    };
    state.figures().refused.note(refusal.code);
    tracing::info!(target: log::CONTROL, limited = UNAUTHENTICATED, event = "refused", address = %source, %machine, reason = refusal.message);
    channel.refuse(&ToNode::Refused(refusal)).await;
}

/// Waits for the answer to the machine's request. Returns the network of which the machine is a member; `None` if the channel has to be closed.
async fn asked(
    context: &Context,
    guest: &Arc<PendingConnection>,
    source: &Source,
    channel: &mut ControlChannel,
    (machine, hello): (PublicKey, &Hello),
) -> Result<Option<NetworkId>, StateError> {
    let state = &context.state;
    if hello.schema > SCHEMA || hello.request.is_none() {
        return Err(StateError::NotAMember);
    }
    let mut answered = state.answered();
    let mut told = None;
    let mut heard = Instant::now();
    let (mut messages, mut since) = (0_u32, heard);
    let until = heard + Duration::from_secs(REQUEST_LIFE.unsigned_abs());
    loop {
        let busy = Arc::clone(guest).busy();
        let asked = state.ask_to_join(machine, hello, source.address).await;
        drop(busy);
        match asked {
            Ok(Asked::Member(network)) => return Ok(Some(network)),
            Ok(Asked::Waits(row)) if told.as_ref() != Some(&row.code) => {
                let waiting = waiting::of(state, Part::Unapproved, Some(&row));
                if channel.send(&ToNode::Waiting(waiting)).await.is_err() {
                    return Ok(None);
                }
                told = Some(row.code);
            }
            // Nothing new to tell: the machine has its code. While the database cannot be reached, it keeps that code.
            Ok(Asked::Waits(_)) | Err(StateError::Store(_)) if told.is_some() => {}
            Ok(Asked::Waits(_)) => {}
            Err(error) => return Err(error),
        }
        let look = Instant::now() + LOOK_EVERY;
        loop {
            let now = Instant::now();
            if now >= until || now >= heard + SILENCE {
                return Ok(None);
            }
            if now >= since + Duration::from_secs(60) {
                (messages, since) = (0, now);
            }
            tokio::select! {
                message = channel.receive() => match message {
                    Ok(ToCoordinator::Ping) if messages < MESSAGES => {
                        (heard, messages) = (now, messages + 1);
                        if channel.send(&ToNode::Pong).await.is_err() {
                            return Ok(None);
                        }
                    }
                    Ok(ToCoordinator::Endpoints { .. } | ToCoordinator::Relays { .. } | ToCoordinator::Unknown)
                        if messages < MESSAGES => messages += 1,
                    _ => return Ok(None),
                },
                _ = answered.changed() => break,
                () = sleep_until(look) => break,
                () = guest.evicted() => {
                    refusal::note(source, &"too many unauthenticated connections");
                    return Ok(None);
                }
                () = stopped(context.stop.clone()) => return Ok(None),
            }
        }
    }
}
