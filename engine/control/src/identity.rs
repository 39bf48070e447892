//! The contents of `identity.json`: the node's keys and its membership.

use std::io;

use serde::Serialize;
use taut_base::{PrivateKey, PublicKey, decode_base64url, encode_base64url};
use taut_netmap::{Enrol, JoinToken, NO_NETWORK, Prefixes};
use taut_noise::{hmac, public_key};
use zeroize::Zeroizing;

use crate::event::{MemberIdentity, Place};

/// The identity of this node, as stored on disk.
#[derive(Clone, Serialize, taut_json::Deserialize)]
pub(crate) struct Membership {
    #[serde(with = "private_key")]
    pub(crate) machine_key: PrivateKey,
    #[serde(with = "private_key")]
    pub(crate) node_key: PrivateKey,
    /// The node key that replaces `node_key` once the coordinator lists it.
    #[serde(default, with = "next_key", skip_serializing_if = "Option::is_none")]
    pub(crate) next_node_key: Option<PrivateKey>,
    /// Time at which the node key was made, in seconds since 1970 by this host's clock; 0 if that is not known.
    #[serde(default)]
    pub(crate) key_made_at: u64,
    #[serde(with = "network_id")]
    pub(crate) network: [u8; 16],
    /// The coordinator's pinned key.
    pub(crate) coordinator: PublicKey,
    pub(crate) urls: Vec<String>,
    /// The enrolment secret, until the coordinator has enrolled this node.
    #[serde(default, with = "secret", skip_serializing_if = "Option::is_none")]
    enrol_secret: Option<Zeroizing<[u8; 32]>>,
    /// The name that the node requests.
    pub(crate) name: String,
    /// True if the coordinator has enrolled this node.
    #[serde(default)]
    pub(crate) accepted: bool,
    /// True if a hello with the enrolment secret was sent and not finally refused. Files of release 0.1.0 lack this field; it then counts as true.
    #[serde(default = "default_true")]
    enrol_sent: bool,
    /// True if the user wants the node up.
    pub(crate) wanted: bool,
    /// UDP port of the last run.
    #[serde(default)]
    pub(crate) port: Option<u16>,
    /// The overlay prefixes that this host used first, or that the user has consented to since (fault E24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pinned: Option<Prefixes>,
}

impl Membership {
    /// Returns a first identity, with new keys.
    pub(crate) fn new(token: &JoinToken, name: String, port: Option<u16>) -> io::Result<Self> {
        Ok(Self {
            machine_key: taut_dial::private_key()?,
            node_key: taut_dial::private_key()?,
            next_node_key: None,
            key_made_at: unix_now(),
            network: token.network,
            coordinator: token.coordinator,
            urls: token.urls.clone(),
            enrol_secret: Some(Zeroizing::new(token.secret)),
            name,
            accepted: false,
            enrol_sent: false,
            wanted: true,
            port,
            pinned: None,
        })
    }

    /// Returns an identity that asks this coordinator for a network. The keys of a present one stay, so that the coordinator knows the machine again.
    pub(crate) fn asking(present: Option<&Self>, place: &Place, name: String, port: Option<u16>) -> io::Result<Self> {
        let keys = match present {
            Some(present) => (present.machine_key.clone(), present.node_key.clone()),
            None => (taut_dial::private_key()?, taut_dial::private_key()?),
        };
        Ok(Self {
            machine_key: keys.0,
            node_key: keys.1,
            next_node_key: None,
            key_made_at: present.map_or_else(unix_now, |present| present.key_made_at),
            network: NO_NETWORK,
            coordinator: place.key,
            urls: vec![place.url.clone()],
            enrol_secret: None,
            name,
            accepted: false,
            enrol_sent: false,
            wanted: true,
            port,
            pinned: None,
        })
    }

    /// Returns true if this node asks for a network, and is in none.
    pub(crate) fn is_asking(&self) -> bool {
        self.network == NO_NETWORK
    }

    /// Returns the membership in the network that the coordinator let this node into.
    pub(crate) fn welcomed(&self, network: [u8; 16], urls: &[String]) -> Self {
        // The URL that works comes first: the coordinator may know itself by a name that this host cannot resolve.
        let own = self.urls.iter().chain(urls.iter().filter(|url| !self.urls.contains(url)));
        Self { network, urls: own.take(MAX_URLS).cloned().collect(), ..self.clone() }
    }

    /// Returns this node's membership with the network, the coordinator and the secret of a new token. The keys stay the same.
    pub(crate) fn with_token(&self, token: &JoinToken, name: String) -> Self {
        Self {
            network: token.network,
            coordinator: token.coordinator,
            urls: token.urls.clone(),
            enrol_secret: Some(Zeroizing::new(token.secret)),
            name,
            accepted: self.accepted && self.network == token.network,
            enrol_sent: self.enrol_sent && self.network == token.network,
            wanted: true,
            pinned: self.pinned.filter(|_| self.network == token.network),
            ..self.clone()
        }
    }

    /// Returns the enrolment to send to the coordinator: the secret and the name. `None` after the coordinator has enrolled this node.
    pub(crate) fn enrol(&self) -> Option<Enrol> {
        let secret = self.enrol_secret.as_ref()?;
        Some(Enrol { secret: encode_base64url(secret.as_slice()), name: self.name.clone() })
    }

    /// Returns true if there is an enrolment secret.
    pub(crate) fn is_enrolling(&self) -> bool {
        self.enrol_secret.is_some()
    }

    /// Forgets the enrolment secret.
    pub(crate) fn forget_secret(&mut self) {
        self.enrol_secret = None;
    }

    /// Notes that a hello is sent, with the enrolment secret if there is one.
    pub(crate) fn note_hello(&mut self) {
        self.enrol_sent = self.is_enrolling();
    }

    /// Notes that the coordinator finally refused the hello, so that it has not enrolled this node.
    pub(crate) fn note_refusal(&mut self) {
        self.enrol_sent = false;
    }

    /// Returns true if the coordinator may list this node: it has enrolled the node, or a hello is unanswered and may have enrolled it.
    pub(crate) fn may_be_listed(&self) -> bool {
        self.accepted || (self.enrol_sent && self.is_enrolling())
    }

    /// Returns the WireGuard public key with which this node says hello: the next one while it is being rotated.
    pub(crate) fn hello_key(&self) -> PublicKey {
        public_key(self.next_node_key.as_ref().unwrap_or(&self.node_key))
    }

    /// Returns the key with which this node binds to relays. It derives from the machine key, so that no further file has to be kept, and from the network, so
    /// that a relay of two networks cannot link the memberships of one machine. It reveals nothing about the machine key.
    pub(crate) fn bind_key(&self) -> PrivateKey {
        PrivateKey::from_bytes(*hmac(self.machine_key.expose(), &[b"taut bind v1", &self.network]))
    }

    /// Returns the part of the identity that the agent needs.
    pub(crate) fn announce(&self) -> MemberIdentity {
        MemberIdentity {
            node_key: self.node_key.clone(),
            coordinator: self.coordinator,
            bind_key: self.bind_key(),
            network: self.network,
            url: self.urls.first().cloned().unwrap_or_default(),
            name: self.name.clone(),
            port: self.port,
            wanted: self.wanted,
            is_new: self.pinned.is_none(),
            machine: public_key(&self.machine_key),
            key_made_at: self.key_made_at,
        }
    }
}

/// URLs of a coordinator that are kept, 8, as in a join token.
const MAX_URLS: usize = 8;

/// Returns the seconds since 1970 by this host's clock.
pub(crate) fn unix_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn default_true() -> bool {
    true
}

mod private_key {
    use serde::{Deserialize, Deserializer, Serializer};
    use taut_base::PrivateKey;
    use zeroize::Zeroizing;

    pub(super) fn serialize<S: Serializer>(key: &PrivateKey, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&key.expose_base64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PrivateKey, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        PrivateKey::from_base64(&text).map_err(serde::de::Error::custom)
    }
}

mod next_key {
    use serde::{Deserialize, Deserializer, Serializer};
    use taut_base::PrivateKey;
    use zeroize::Zeroizing;

    pub(super) fn serialize<S: Serializer>(key: &Option<PrivateKey>, serializer: S) -> Result<S::Ok, S::Error> {
        match key {
            Some(key) => serializer.serialize_str(&key.expose_base64()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PrivateKey>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)?.map(Zeroizing::new) else { return Ok(None) };
        PrivateKey::from_base64(&text).map(Some).map_err(serde::de::Error::custom)
    }
}

mod secret {
    use super::{Zeroizing, decode_base64url, encode_base64url};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        secret: &Option<Zeroizing<[u8; 32]>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => serializer.serialize_str(&Zeroizing::new(encode_base64url(secret.as_slice()))),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Zeroizing<[u8; 32]>>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)?.map(Zeroizing::new) else {
            return Ok(None);
        };
        let bytes = Zeroizing::new(decode_base64url(&text).map_err(serde::de::Error::custom)?);
        let secret = bytes.as_slice().try_into().map_err(serde::de::Error::custom)?;
        Ok(Some(Zeroizing::new(secret)))
    }
}

/// Serializes a network's id as 32 hex digits, the form that URLs and logs use.
pub(crate) mod network_id {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::disk::hex;

    pub(crate) fn serialize<S: Serializer>(network: &[u8; 16], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(network))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u128::from_str_radix(&text, 16).map_err(serde::de::Error::custom)?;
        let network = number.to_be_bytes();
        match hex(&network) == text {
            true => Ok(network),
            false => Err(serde::de::Error::custom("a network id has 32 lower-case hex digits")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bind_key_depends_on_machine_and_network_only() {
        let token = |network| JoinToken {
            network: [network; 16],
            coordinator: PublicKey([2; 32]),
            urls: vec![String::from("http://10.0.0.1:8288")],
            secret: [3; 32],
        };
        let first = Membership::new(&token(1), String::from("a"), None).unwrap();
        let again: Membership = serde_json::from_slice(&serde_json::to_vec(&first).unwrap()).unwrap();
        assert!(first.bind_key() == again.bind_key() && first.bind_key() == first.announce().bind_key);
        let elsewhere = first.with_token(&token(2), String::from("a"));
        let other = Membership::new(&token(1), String::from("a"), None).unwrap();
        assert!(first.bind_key() != elsewhere.bind_key() && first.bind_key() != other.bind_key());
        assert!(first.bind_key() != first.machine_key && first.bind_key() != first.node_key);
    }
}
