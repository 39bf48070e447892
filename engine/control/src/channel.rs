//! The control channel's target, and the coordinator's messages.

use std::borrow::Cow;

use serde::Deserialize;
use taut_base::NodeId;
use taut_dial::{Broken, ChannelTarget, Received, SealedChannel};
use taut_netmap::{CONTROL_PATH, KEY_PATH, Problem, ToNode, Waiting};
use taut_noise::MAX_MESSAGE;

use crate::disk::hex;
use crate::identity::Membership;

/// Returns what is needed to open a control channel to the coordinator of this membership.
pub(crate) fn target(membership: &Membership) -> ChannelTarget {
    ChannelTarget {
        path: format!("{CONTROL_PATH}?network={}", hex(&membership.network)),
        prologue: taut_netmap::prologue(&membership.network),
        key: membership.machine_key.clone(),
        coordinator: membership.coordinator,
        max_message: MAX_MESSAGE,
        wrong_server: "the server at this URL does not have the coordinator's key of the join token, or does not know this network",
        key_path: KEY_PATH,
        key_source: "the join token or --coordinator-key",
    }
}

/// Returns the next message. Returns `None` if no message is complete yet, or this turn's limit on bytes is reached.
pub(crate) fn receive(channel: &mut SealedChannel) -> Result<Option<ReceivedMessage>, Broken> {
    match channel.receive()? {
        Received::Message(plain) => read_message(&plain).map(Some),
        Received::Other => Ok(Some(ReceivedMessage::Unknown)),
        Received::Nothing => Ok(None),
    }
}

/// A message of the coordinator.
#[derive(Debug)]
pub(crate) enum ReceivedMessage {
    /// A message that this version knows.
    Known(Box<ToNode>),
    /// A message that only a later version knows. It is ignored without an error (fault L5).
    Unknown,
}

/// Parses a message. The type is read first, and the content is parsed directly into its final form: otherwise a map of thousands of peers would be in memory
/// twice.
pub(crate) fn read_message(bytes: &[u8]) -> Result<ReceivedMessage, Broken> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    #[derive(taut_json::Deserialize)]
    struct Presence {
        whole: bool,
        nodes: Vec<(NodeId, bool)>,
    }
    #[derive(taut_json::Deserialize)]
    struct Ticket {
        ticket: String,
        numbered: Option<String>,
        expires: u64,
    }
    #[derive(taut_json::Deserialize)]
    struct Twin {
        problem: Option<Problem>,
    }
    #[derive(taut_json::Deserialize)]
    struct Welcome {
        network: String,
        #[serde(default)]
        urls: Vec<String>,
    }
    #[derive(taut_json::Deserialize)]
    struct Expiry {
        left: Option<u64>,
    }
    let kind: Kind<'_> = content(bytes)?;
    let message = match kind.kind.as_ref() {
        "map" => ToNode::Map(content(bytes)?),
        "delta" => ToNode::Delta(content(bytes)?),
        "refused" => ToNode::Refused(content(bytes)?),
        "pong" => ToNode::Pong,
        "ticket" => {
            let Ticket { ticket, numbered, expires } = content(bytes)?;
            ToNode::Ticket { ticket, numbered, expires }
        }
        "twin" => ToNode::Twin { problem: content::<Twin>(bytes)?.problem },
        "presence" => {
            let Presence { whole, nodes } = content(bytes)?;
            ToNode::Presence { whole, nodes }
        }
        "waiting" => ToNode::Waiting(content::<Waiting>(bytes)?),
        "welcome" => {
            let Welcome { network, urls } = content(bytes)?;
            ToNode::Welcome { network, urls }
        }
        "expiry" => ToNode::Expiry { left: content::<Expiry>(bytes)?.left },
        "decision" => ToNode::Decision(content(bytes)?),
        _ => return Ok(ReceivedMessage::Unknown),
    };
    Ok(ReceivedMessage::Known(Box::new(message)))
}

fn content<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Broken> {
    taut_json::from_slice(bytes)
        .map_err(|error| Broken(format!("the coordinator sent a message that makes no sense: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_l5_messages_and_fields_from_the_future() {
        assert!(matches!(read_message(br#"{"type":"teleport","to":[1,2]}"#), Ok(ReceivedMessage::Unknown)));
        let known =
            read_message(br#"{"later":1,"type":"presence","whole":true,"nodes":[[3,true]],"more":{}}"#).unwrap();
        let ReceivedMessage::Known(message) = known else { panic!("presence is known") };
        assert_eq!(*message, ToNode::Presence { whole: true, nodes: vec![(NodeId(3), true)] });
        assert!(matches!(read_message(br#"{"type":"pong"}"#), Ok(ReceivedMessage::Known(_))));
        let escaped = read_message(br#"{"type":"p\u006fng"}"#);
        assert!(matches!(escaped, Ok(ReceivedMessage::Known(_))));
    }

    #[test]
    fn nonsense_is_an_error_not_a_silence() {
        for text in ["", "7", "{}", r#"{"type":7}"#, r#"{"type":"map"}"#, r#"{"type":"delta","from":1}"#] {
            assert!(read_message(text.as_bytes()).is_err(), "{text}");
        }
    }
}
