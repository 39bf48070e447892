//! The join token: one line with everything that a node needs to enrol (protocol.md 8).
//!
//! `taut1-` and base64url of: network id (16 bytes) ‖ coordinator key (32) ‖ enrolment secret (32) ‖ number of URLs (1) ‖ each URL as
//! length (1) and text ‖ the first 4 bytes of BLAKE2s-256 of all that, so that a badly copied line is recognised before
//! it is used.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use taut_base::PublicKey;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::token_line;

/// Prefix of every token of this version.
pub const TOKEN_PREFIX: &str = "taut1-";

/// Prefix of relay tokens of all versions (`relay_channel`).
const RELAY_PREFIX: &str = "tautrelay";

/// Prefix of every operator token, by which people and secret scanners recognise it.
pub const OPERATOR_PREFIX: &str = "tautop-";

/// Bytes before the URLs: network id, coordinator key, enrolment secret.
const FIXED: usize = 16 + 32 + 32;

/// A join token. It holds a secret, so it has no `Debug` and is wiped when dropped; only [`Self::encode`] prints it.
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_netmap::JoinToken>(); // law 12
/// ```
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct JoinToken {
    /// Id of the network, which is part of the control channel's prologue.
    #[zeroize(skip)]
    pub network: [u8; 16],
    /// The coordinator's key, which the node pins.
    #[zeroize(skip)]
    pub coordinator: PublicKey,
    /// URLs of the coordinator, `http://…` or `https://…`, best first.
    #[zeroize(skip)]
    pub urls: Vec<String>,
    /// The enrolment secret, sent only after the channel has proven the coordinator's key.
    pub secret: [u8; 32],
}

impl JoinToken {
    /// Returns the line to copy.
    pub fn encode(&self) -> String {
        token_line::encode(TOKEN_PREFIX, &[&self.network, self.coordinator.as_bytes(), &self.secret], &self.urls)
    }
}

impl FromStr for JoinToken {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let text = text.trim();
        let Some(body) = text.strip_prefix(TOKEN_PREFIX) else {
            return Err(match text {
                operator if operator.starts_with(OPERATOR_PREFIX) => BadToken::Operator,
                relay if relay.starts_with(RELAY_PREFIX) => BadToken::Relay,
                other if other.starts_with("taut") => BadToken::Version,
                _ => BadToken::NoToken,
            });
        };
        let (fixed, urls) = token_line::decode::<FIXED>(body).ok_or(BadToken::Damaged)?;
        Self::new(&fixed, urls).ok_or(BadToken::Damaged)
    }
}

impl JoinToken {
    fn new(fixed: &[u8; FIXED], urls: Vec<String>) -> Option<Self> {
        let (network, rest) = fixed.split_first_chunk::<16>()?;
        let (coordinator, secret) = rest.split_first_chunk::<32>()?;
        let secret = secret.try_into().ok()?;
        Some(Self { network: *network, coordinator: PublicKey(*coordinator), urls, secret })
    }
}

/// Why a text is not a join token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadToken {
    /// It does not start with [`TOKEN_PREFIX`].
    NoToken,
    /// It is an operator token, which gives access to the coordinator's API.
    Operator,
    /// It is a relay token, with which a relay serves a coordinator's nodes.
    Relay,
    /// It is a token of another version.
    Version,
    /// It is truncated, mistyped or altered.
    Damaged,
}

impl fmt::Display for BadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoToken => {
                "not a join token: it starts with `taut1-`; the operator prints one with `taut-coordinator keys create`"
            }
            Self::Operator => {
                "this is an operator token, which gives full control of the coordinator: keep it secret; a join token starts with \
                 `taut1-`, and `taut-coordinator keys create` makes one"
            }
            Self::Relay => {
                "this is a relay token, for `taut-relay serve --coordinator`; a join token starts with `taut1-`, and `taut-coordinator keys create` makes one"
            }
            Self::Version => "a join token of another version; update `taut`, or ask the operator for a new token",
            Self::Damaged => "the join token is damaged: a part is missing or mistyped; copy the whole line again",
        })
    }
}

impl Error for BadToken {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taut_base::encode_base64url;

    use super::*;
    use crate::token_line::{CHECK, read};

    fn token() -> JoinToken {
        JoinToken {
            network: [1; 16],
            coordinator: PublicKey([2; 32]),
            urls: vec![String::from("http://10.0.0.1:8288"), String::from("https://taut.example")],
            secret: [3; 32],
        }
    }

    #[test]
    fn reads_back_what_it_wrote() {
        assert!(token().encode().parse::<JoinToken>().is_ok_and(|read| read == token()));
        assert!(format!(" {}\n", token().encode()).parse::<JoinToken>().is_ok());
    }

    #[test]
    fn says_what_is_wrong() {
        let line = token().encode();
        assert_eq!("tskey-auth-1".parse::<JoinToken>().err(), Some(BadToken::NoToken));
        assert_eq!(line.replace("taut1-", "taut2-").parse::<JoinToken>().err(), Some(BadToken::Version));
        assert_eq!(line[..line.len() - 4].parse::<JoinToken>().err(), Some(BadToken::Damaged));
        let operator = format!("{OPERATOR_PREFIX}{}", encode_base64url(&[7; 32])).parse::<JoinToken>().err();
        assert_eq!(operator, Some(BadToken::Operator));
        assert!(BadToken::Operator.to_string().contains("keys create"));
        assert_eq!("tautrelay1-AAAA".parse::<JoinToken>().err(), Some(BadToken::Relay));
        let swapped = line.replacen('A', "B", 1);
        assert_eq!(swapped.parse::<JoinToken>().err(), Some(BadToken::Damaged));
    }

    proptest! {
        #[test]
        fn no_text_is_a_surprise(text in "(taut1-)?[A-Za-z0-9_-]{0,200}") {
            let _ = text.parse::<JoinToken>();
        }

        #[test]
        fn no_bytes_are_a_surprise(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let check = taut_noise::hash(&[&bytes]);
            let _ = read::<FIXED>(&[bytes.as_slice(), &check[..CHECK]].concat());
        }
    }
}
