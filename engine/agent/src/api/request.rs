//! The requests of local users.

use std::net::IpAddr;

use serde::Serialize;
use serde::de::Error;
use taut_base::Prefix;
use taut_netmap::Connection;

use super::{CoordinatorPlace, SettingChange};

/// A request of a local user. [`Self::read`] reads it from JSON.
#[derive(Clone, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum ApiRequest {
    /// Reads the status; answered by [`super::ApiResponse::Status`].
    Status,
    /// Explains the path to a peer; answered by [`super::ApiResponse::Why`].
    Why {
        /// The peer's name, or one of its overlay addresses.
        peer: String,
    },
    /// Asks whether the policy allows a connection to a peer; answered at once by [`super::ApiResponse::Reach`]. The first request asks the coordinator, a later one has
    /// the answer.
    Reach(Connection),
    /// Reads the metrics for Prometheus; answered by [`super::ApiResponse::Metrics`].
    Metrics,
    /// Connects; with a token, joins the network first. Answered at once; the state in [`super::Status`] shows the progress.
    Up {
        /// The join token's text.
        join: Option<String>,
        /// The requested name of the node; the host name if it is not given.
        name: Option<String>,
        /// The coordinator that is asked to let this node in; [`super::Status::waiting`] has the code.
        coordinator: Option<CoordinatorPlace>,
    },
    /// Replaces this node's WireGuard key. Answered at once; `self.node_key` in [`super::Status`] shows when the new one is in use.
    RotateKey,
    /// Disconnects, and removes the TUN device with its routes. The node stays disconnected after a restart.
    Down,
    /// Ends the membership, and removes the keys. Answered at once; [`super::Status::leave`] shows the progress.
    Leave,
    /// Consents to the overlay prefixes that the coordinator wants and [`super::Status::problem`] names.
    AcceptPrefixes {
        /// All prefixes that change, and no others.
        prefixes: Vec<Prefix>,
    },
    /// Reads events; answered by [`super::ApiResponse::Log`]. For root and the daemon's own user only. A reader that follows the log asks again and again: nothing is
    /// kept for it.
    Log {
        /// The number of the first line that is wanted, [`super::LogPart::next`] of the last answer; without one the oldest that is kept.
        from: Option<u64>,
    },
    /// Has other events recorded, until the daemon ends.
    LogLevel {
        /// As `--log-level` takes it.
        levels: String,
    },
    /// Lists the settings; answered by [`super::ApiResponse::Settings`].
    Settings,
    /// Changes settings, and keeps them for later daemons: all of them, or none. Answered by [`super::ApiResponse::Settings`].
    Set {
        /// The settings that change.
        changes: Vec<SettingChange>,
        /// The address from which the user is logged in by ssh: changes that would cut it off are refused. `None` without such a session, or if that is wanted.
        session: Option<IpAddr>,
    },
    /// Has this host's packets take its own way to the internet for a while instead of the exit node, as to sign in at a captive portal.
    PauseExit {
        /// For how long, in seconds; 0 ends the pause.
        seconds: u64,
    },
}

impl ApiRequest {
    /// Reads a request. As with [`super::ApiResponse::read`], deriving this would be much more code.
    ///
    /// # Errors
    /// If the line is no request that this version knows.
    pub fn read(line: &[u8]) -> Result<Self, taut_json::Error> {
        let fields: RequestFields = taut_json::from_slice(line)?;
        let needs_peer = |peer: Option<String>| peer.ok_or_else(|| Error::missing_field("peer"));
        Ok(match fields.command {
            RequestKind::Status => Self::Status,
            RequestKind::Why => Self::Why { peer: needs_peer(fields.peer)? },
            RequestKind::Reach => Self::Reach(Connection {
                peer: needs_peer(fields.peer)?,
                protocol: fields.protocol.ok_or_else(|| Error::missing_field("protocol"))?,
                port: fields.port.ok_or_else(|| Error::missing_field("port"))?,
            }),
            RequestKind::Metrics => Self::Metrics,
            RequestKind::Up => Self::Up { join: fields.join, name: fields.name, coordinator: fields.coordinator },
            RequestKind::RotateKey => Self::RotateKey,
            RequestKind::Down => Self::Down,
            RequestKind::Leave => Self::Leave,
            RequestKind::AcceptPrefixes => {
                Self::AcceptPrefixes { prefixes: fields.prefixes.ok_or_else(|| Error::missing_field("prefixes"))? }
            }
            RequestKind::Log => Self::Log { from: fields.from },
            RequestKind::LogLevel => {
                Self::LogLevel { levels: fields.levels.ok_or_else(|| Error::missing_field("levels"))? }
            }
            RequestKind::Settings => Self::Settings,
            RequestKind::Set => Self::Set {
                changes: fields.changes.ok_or_else(|| Error::missing_field("changes"))?,
                session: fields.session,
            },
            RequestKind::PauseExit => {
                Self::PauseExit { seconds: fields.seconds.ok_or_else(|| Error::missing_field("seconds"))? }
            }
        })
    }

    /// Returns true if the request changes settings and therefore needs a privileged user.
    pub fn changes(&self) -> bool {
        matches!(
            self,
            Self::Up { .. }
                | Self::RotateKey
                | Self::Down
                | Self::Leave
                | Self::AcceptPrefixes { .. }
                | Self::LogLevel { .. }
                | Self::Set { .. }
                | Self::PauseExit { .. }
        )
    }

    /// Returns true if it reads what is for root and the daemon's own user only: who this node talked to, when, and from where.
    pub fn is_private(&self) -> bool {
        matches!(self, Self::Log { .. })
    }
}

/// The kind of a request, the field `command`.
#[derive(taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RequestKind {
    Status,
    Why,
    Reach,
    Metrics,
    Up,
    RotateKey,
    Down,
    Leave,
    AcceptPrefixes,
    Log,
    LogLevel,
    Settings,
    Set,
    PauseExit,
}

/// The fields of all requests: each kind has some of them.
#[derive(taut_json::Deserialize)]
struct RequestFields {
    command: RequestKind,
    peer: Option<String>,
    protocol: Option<u8>,
    port: Option<u16>,
    join: Option<String>,
    name: Option<String>,
    coordinator: Option<CoordinatorPlace>,
    prefixes: Option<Vec<Prefix>>,
    from: Option<u64>,
    levels: Option<String>,
    changes: Option<Vec<SettingChange>>,
    session: Option<IpAddr>,
    seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_base::PublicKey;

    #[test]
    fn requests_are_read_as_they_were_written() {
        let connection = Connection { peer: String::from("web"), protocol: 6, port: 22 };
        let place = CoordinatorPlace { url: String::from("http://c"), key: PublicKey([7; 32]) };
        for request in [
            ApiRequest::Status,
            ApiRequest::Why { peer: String::from("web") },
            ApiRequest::Reach(connection),
            ApiRequest::Metrics,
            ApiRequest::Up { join: None, name: Some(String::from("me")), coordinator: Some(place) },
            ApiRequest::RotateKey,
            ApiRequest::Down,
            ApiRequest::Leave,
            ApiRequest::AcceptPrefixes { prefixes: vec!["10.0.0.0/8".parse().unwrap()] },
            ApiRequest::Log { from: Some(7) },
            ApiRequest::LogLevel { levels: String::from("path=all") },
            ApiRequest::Settings,
            ApiRequest::Set { changes: Vec::new(), session: Some([10, 0, 0, 1].into()) },
            ApiRequest::PauseExit { seconds: 5 },
        ] {
            let text = serde_json::to_string(&request).unwrap();
            let read = ApiRequest::read(text.as_bytes()).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
        let late = ApiRequest::read(br#"{"later":[1],"peer":"web","command":"why"}"#);
        assert!(matches!(late, Ok(ApiRequest::Why { peer }) if peer == "web"));
        for kind in ["why", "reach", "accept-prefixes", "log-level", "set", "pause-exit", "teleport"] {
            assert!(ApiRequest::read(format!(r#"{{"command":"{kind}"}}"#).as_bytes()).is_err(), "{kind}");
        }
    }
}
