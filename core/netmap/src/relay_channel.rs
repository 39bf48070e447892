//! The channel between a relay and a coordinator that it trusts: messages, and the relay token that opens it.
//!
//! The channel is a WebSocket at [`RELAY_CONTROL_PATH`]. As on a node's control channel, its first two binary messages are the Noise_IK handshake, here between the
//! relay's key and the coordinator's key, with [`RELAY_PROLOGUE`]. Each later binary message is one sealed JSON message.
//!
//! ```text
//! relay                                  coordinator
//! Hello{schema, version} ──▶
//!                                        ◀── Revoked{revocations}…   or Refused
//! Load{…} ──▶                             ◀── Noted                         every 10 s
//!                                        ◀── Revoked{…}                    when a member was removed or changed its key
//! ```
//! A relay needs no channel to serve: tickets are checked offline (protocol.md 6.2). With a channel it refuses removed members at once.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use taut_base::{NodeId, PublicKey};

use crate::TOKEN_PREFIX;
use crate::message::Problem;
use crate::token_line;

/// Path of the relays' channel below the coordinator's URL.
pub const RELAY_CONTROL_PATH: &str = "/relay-control/v1";

/// The prologue of the handshake between relay and coordinator. It differs from all other prologues with the relay's key.
pub const RELAY_PROLOGUE: &[u8] = b"taut relay control v1";

/// Prefix of every relay token of this version.
pub const RELAY_TOKEN_PREFIX: &str = "tautrelay1-";

/// Largest number of revocations in one message, 1,024: about 150 KB of JSON.
pub const MAX_REVOCATIONS: usize = 1_024;

/// A message of a relay to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum RelayToCoordinator {
    /// The first message on every channel.
    Hello {
        /// [`crate::SCHEMA`] of the relay.
        schema: u32,
        /// Version of the program, shown to the operator.
        #[serde(default)]
        version: String,
    },
    /// The relay's load, sent regularly. It renews the channel; the answer is [`CoordinatorToRelay::Noted`].
    Load(RelayLoad),
    /// The relay ends.
    Goodbye,
    /// An unknown message of a newer relay, which is ignored (fault L5).
    #[serde(other)]
    Unknown,
}

/// The load of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayLoad {
    /// Clients bound now.
    pub clients: u64,
    /// Most clients that it can have.
    pub clients_max: u64,
    /// Forwarded traffic, in bits per second, since the last report.
    pub bits_per_second: u64,
    /// Traffic that its operator says it can forward, in bits per second; 0 if unknown.
    pub capacity: u64,
    /// Processor time in use, in thousandths of what its threads may use.
    pub processor: u32,
    /// Datagrams that it dropped since the last report.
    pub dropped: u64,
    /// Seconds since its start.
    pub uptime: u64,
}

impl RelayLoad {
    /// Returns the share of the scarcest resource in use, in thousandths: places for clients, processor time, or traffic.
    pub fn thousandths(&self) -> u32 {
        let share = |used: u64, most: u64| u32::try_from(used.saturating_mul(1_000).checked_div(most).unwrap_or(0));
        let [clients, traffic] = [share(self.clients, self.clients_max), share(self.bits_per_second, self.capacity)]
            .map(|share| share.unwrap_or(u32::MAX));
        clients.max(traffic).max(self.processor).min(1_000)
    }
}

/// A message of the coordinator to a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum CoordinatorToRelay {
    /// Members that are cut off: their bindings end, and their tickets are refused.
    Revoked {
        /// At most [`MAX_REVOCATIONS`].
        revocations: Vec<Revocation>,
    },
    /// Answer to [`RelayToCoordinator::Load`].
    Noted,
    /// The coordinator does not serve this relay; it closes the channel. After [`crate::ProblemCode::Twin`] the relay waits for half a minute or longer.
    Refused(Problem),
    /// The coordinator closes the channel for a reason of its own.
    Closing {
        /// Why, for the log.
        reason: String,
    },
    /// An unknown message of a newer coordinator, which is ignored (fault L5).
    #[serde(other)]
    Unknown,
}

/// A member that was removed, or a former key of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Revocation {
    /// The network's id.
    #[serde(with = "hex16")]
    pub network: [u8; 16],
    /// The node's number; omitted if the node remains a member and only its former key is cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The node's key.
    pub key: PublicKey,
    /// Time of the revocation, in seconds since 1970.
    pub at: u64,
}

/// Everything that a relay needs to serve a coordinator's nodes, in one line. It holds no secret: the relay proves its own key, which the operator announced.
///
/// `tautrelay1-` and base64url of: coordinator key (32 bytes) ‖ key that signs tickets (32) ‖ proof that both have one owner (64) ‖ number of URLs (1) ‖ each URL as length (1) and text ‖ the first 4 bytes
/// of BLAKE2s-256 of all that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayToken {
    /// The coordinator's key, which the relay pins.
    pub coordinator: PublicKey,
    /// The key with which the coordinator signs tickets (Ed25519).
    pub tickets: [u8; 32],
    /// Signature of that key over the coordinator's key (`taut_relay::SigningKey::prove`). The relay verifies it.
    pub proof: [u8; 64],
    /// URLs of the coordinator, `http://…` or `https://…`, best first.
    pub urls: Vec<String>,
}

impl RelayToken {
    /// Returns the line to copy.
    pub fn encode(&self) -> String {
        token_line::encode(RELAY_TOKEN_PREFIX, &[self.coordinator.as_bytes(), &self.tickets, &self.proof], &self.urls)
    }
}

impl FromStr for RelayToken {
    type Err = BadRelayToken;

    fn from_str(text: &str) -> Result<Self, BadRelayToken> {
        let text = text.trim();
        let Some(body) = text.strip_prefix(RELAY_TOKEN_PREFIX) else {
            return Err(match text {
                join if join.starts_with(TOKEN_PREFIX) => BadRelayToken::Join,
                other if other.starts_with("tautrelay") => BadRelayToken::Version,
                _ => BadRelayToken::NoToken,
            });
        };
        let (fixed, urls) = token_line::decode::<128>(body).ok_or(BadRelayToken::Damaged)?;
        let (coordinator, rest) = fixed.split_first_chunk::<32>().ok_or(BadRelayToken::Damaged)?;
        let (tickets, proof) = rest.split_first_chunk::<32>().ok_or(BadRelayToken::Damaged)?;
        let proof = proof.try_into().map_err(|_| BadRelayToken::Damaged)?;
        Ok(Self { coordinator: PublicKey(*coordinator), tickets: *tickets, proof, urls })
    }
}

/// Why a text is not a relay token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRelayToken {
    /// It does not start with [`RELAY_TOKEN_PREFIX`].
    NoToken,
    /// It is a join token, which enrols a node.
    Join,
    /// It is a token of another version.
    Version,
    /// It is truncated, mistyped or altered.
    Damaged,
}

impl fmt::Display for BadRelayToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoToken => "this is no relay token; `taut-coordinator relay-token` prints one",
            Self::Join => {
                "this is a join token, which enrols a node; `taut-coordinator relay-token` prints the token for a relay"
            }
            Self::Version => "this relay token has a version that this program does not know; update the program",
            Self::Damaged => {
                "the relay token is damaged; copy the whole line that `taut-coordinator relay-token` prints"
            }
        })
    }
}

impl Error for BadRelayToken {}

/// Sixteen bytes as 32 hex digits.
mod hex16 {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 16], serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let value = u128::from_str_radix(&text, 16).ok().filter(|_| text.len() == 32 && !text.starts_with('+'));
        value.map(u128::to_be_bytes).ok_or_else(|| de::Error::custom("a network's id has 32 hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> RelayToken {
        RelayToken {
            coordinator: PublicKey([7; 32]),
            tickets: [9; 32],
            proof: [8; 64],
            urls: vec![String::from("https://taut.example"), String::from("http://10.0.0.1:8288")],
        }
    }

    #[test]
    fn a_token_survives_its_line() {
        let line = token().encode();
        assert!(line.starts_with(RELAY_TOKEN_PREFIX));
        assert_eq!(format!(" {line}\n").parse(), Ok(token()));
    }

    #[test]
    fn other_texts_are_no_relay_tokens() {
        let line = token().encode();
        for (text, why) in [
            (String::new(), BadRelayToken::NoToken),
            (String::from("taut1-AAAA"), BadRelayToken::Join),
            (String::from("tautrelay2-AAAA"), BadRelayToken::Version),
            (line[..line.len() - 1].to_owned(), BadRelayToken::Damaged),
            (line.replace("relay1-B", "relay1-C"), BadRelayToken::Damaged),
            (format!("{line}AAAA"), BadRelayToken::Damaged),
        ] {
            assert_eq!(text.parse::<RelayToken>(), Err(why), "{text}");
        }
    }

    #[test]
    fn the_scarcest_resource_is_the_load() {
        let load = RelayLoad { clients: 10, clients_max: 100, processor: 50, ..RelayLoad::default() };
        assert_eq!(load.thousandths(), 100);
        assert_eq!(RelayLoad { processor: 700, ..load }.thousandths(), 700);
        assert_eq!(RelayLoad { bits_per_second: 9, capacity: 10, ..load }.thousandths(), 900);
        assert_eq!(RelayLoad { bits_per_second: u64::MAX, capacity: 1, ..load }.thousandths(), 1_000);
        assert_eq!(RelayLoad::default().thousandths(), 0);
    }

    #[test]
    fn fault_l5_unknown_messages_and_fields_are_ignored() {
        let unknown = serde_json::from_str::<CoordinatorToRelay>(r#"{"type":"moved","to":"x"}"#).unwrap();
        assert_eq!(unknown, CoordinatorToRelay::Unknown);
        let load = serde_json::from_str::<RelayToCoordinator>(r#"{"type":"load","clients":3,"mood":"good"}"#).unwrap();
        assert_eq!(load, RelayToCoordinator::Load(RelayLoad { clients: 3, ..RelayLoad::default() }));
    }

    #[test]
    fn revocations_have_the_documented_form() {
        let revocation = Revocation { network: [0xab; 16], node: None, key: PublicKey([1; 32]), at: 5 };
        let json = serde_json::to_string(&revocation).unwrap();
        assert_eq!(json, format!(r#"{{"network":"{}","key":"{}","at":5}}"#, "ab".repeat(16), PublicKey([1; 32])));
        assert_eq!(serde_json::from_str::<Revocation>(&json).unwrap(), revocation);
        for bad in ["ab", "+b".repeat(16).as_str(), "zz".repeat(16).as_str()] {
            assert!(serde_json::from_str::<Revocation>(&json.replace(&"ab".repeat(16), bad)).is_err(), "{bad}");
        }
    }
}
