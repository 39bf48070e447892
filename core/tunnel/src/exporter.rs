//! Derivation of all keys beyond WireGuard's own pair, from the final chaining key of a handshake (protocol.md 1.2; bytes in docs/spec/wire.md).
//!
//! ```text
//! S    = HKDF-Extract(salt: chaining key, input: "taut v1")
//! key  = HKDF-Expand(S, purpose ‖ suite ‖ lane ‖ direction ‖ initiator's index ‖ responder's index, 32 bytes)
//! ```

use taut_base::{LaneId, ReceiverIndex};
use taut_noise::{Symmetric, hmac};
use taut_wire::control::Suite;
use zeroize::Zeroizing;

use crate::pair::PairKeys;
use crate::role::Role;

/// Label that separates Taut's keys from those of other extensions of WireGuard.
const LABEL: &[u8] = b"taut v1";

/// Purpose of a derived secret.
#[derive(Clone, Copy)]
enum Purpose {
    /// A key of a control pair.
    Control = 1,
    /// A key of a data pair.
    Data = 2,
    /// The index of a control pair.
    ControlIndex = 3,
    /// The index of a data pair.
    DataIndex = 4,
}

/// Derives the key pairs of one session. Both nodes have the same one.
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_tunnel::Exporter>(); // law 12
/// ```
#[derive(Clone)]
pub struct Exporter {
    secret: Zeroizing<[u8; 32]>,
    role: Role,
    /// Indices of WireGuard's own pair: the initiator's, the responder's.
    indices: (ReceiverIndex, ReceiverIndex),
}

impl Exporter {
    /// Returns the exporter of a finished handshake; the indices are those of its session.
    pub(crate) fn of(state: &Symmetric, role: Role, local: ReceiverIndex, remote: ReceiverIndex) -> Self {
        Self::new(state.export(LABEL), role, local, remote)
    }

    /// Returns an exporter whose `S` is given. For tests.
    pub fn new(secret: Zeroizing<[u8; 32]>, role: Role, local: ReceiverIndex, remote: ReceiverIndex) -> Self {
        let indices = match role {
            Role::Initiator => (local, remote),
            Role::Responder => (remote, local),
        };
        Self { secret, role, indices }
    }

    /// Returns the session's name, which is the same on both nodes and on all lanes: the indices of WireGuard's own pair, the smaller one first.
    pub fn name(&self) -> (ReceiverIndex, ReceiverIndex) {
        ordered(self.indices)
    }

    /// Returns the keys of a lane's control pair.
    pub fn control(&self, lane: LaneId) -> PairKeys {
        self.pair(Purpose::Control, Purpose::ControlIndex, Suite::ChaCha20Poly1305, lane)
    }

    /// Returns the keys of a lane's data pair. On an extra lane the pair of the stock suite replaces WireGuard's own pair of the first lane.
    pub fn data(&self, suite: Suite, lane: LaneId) -> PairKeys {
        self.pair(Purpose::Data, Purpose::DataIndex, suite, lane)
    }

    fn pair(&self, key: Purpose, index: Purpose, suite: Suite, lane: LaneId) -> PairKeys {
        let (ours, theirs) = match self.role {
            Role::Initiator => (0, 1),
            Role::Responder => (1, 0),
        };
        // Indices are derived too, because no message carries them. The index of a receiver derives from the direction towards it.
        let index_of = |direction| {
            let drawn = self.expand(index, suite, lane, direction);
            let [a, b, c, d, ..] = *drawn;
            ReceiverIndex(u32::from_le_bytes([a, b, c, d])).on_lane(lane)
        };
        PairKeys {
            suite,
            local: index_of(theirs),
            remote: index_of(ours),
            sending: self.expand(key, suite, lane, ours),
            receiving: self.expand(key, suite, lane, theirs),
        }
    }

    /// Returns one block of HKDF-Expand (RFC 5869).
    fn expand(&self, purpose: Purpose, suite: Suite, lane: LaneId, direction: u8) -> Zeroizing<[u8; 32]> {
        let (initiator, responder) = (self.indices.0.0.to_le_bytes(), self.indices.1.0.to_le_bytes());
        let info = [purpose as u8, suite.number(), lane.0, direction];
        hmac(&self.secret, &[&info, &initiator, &responder, &[1]])
    }
}

/// Returns two indices in ascending order, so that both nodes get the same pair.
pub(crate) fn ordered((one, other): (ReceiverIndex, ReceiverIndex)) -> (ReceiverIndex, ReceiverIndex) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (Exporter, Exporter) {
        let state = Symmetric::new("a protocol", b"a prologue");
        let (one, two) = (ReceiverIndex(16), ReceiverIndex(32));
        (Exporter::of(&state, Role::Initiator, one, two), Exporter::of(&state, Role::Responder, two, one))
    }

    #[test]
    fn both_ends_derive_the_same_pairs() {
        let (here, there) = both();
        for lane in [LaneId(0), LaneId(15)] {
            for (ours, theirs) in [
                (here.control(lane), there.control(lane)),
                (here.data(Suite::Aes256Gcm, lane), there.data(Suite::Aes256Gcm, lane)),
            ] {
                assert_eq!(ours.sending, theirs.receiving);
                assert_eq!(ours.receiving, theirs.sending);
                assert_eq!((ours.local, ours.remote), (theirs.remote, theirs.local));
                assert_eq!((ours.local.lane(), ours.remote.lane()), (lane, lane));
            }
        }
    }

    #[test]
    fn no_two_purposes_share_a_key_or_an_index() {
        let (here, _) = both();
        let mut keys = std::collections::BTreeSet::new();
        let mut indices = std::collections::BTreeSet::new();
        for lane in (0..16).map(LaneId) {
            let data = Suite::ALL.map(|suite| here.data(suite, lane));
            for pair in data.into_iter().chain([here.control(lane)]) {
                assert!(keys.insert(*pair.sending) && keys.insert(*pair.receiving));
                assert!(indices.insert(pair.local) && indices.insert(pair.remote));
            }
        }
    }

    #[test]
    fn other_indices_make_other_keys() {
        let state = Symmetric::new("a protocol", b"a prologue");
        let pair = |index| Exporter::of(&state, Role::Initiator, ReceiverIndex(16), index).control(LaneId(0));
        assert_ne!(pair(ReceiverIndex(32)).sending, pair(ReceiverIndex(48)).sending);
    }

    #[test]
    fn the_bytes_of_the_specification() {
        // The vector in docs/spec/wire.md, computed with Python's hmac and hashlib.
        let sending = both().0.control(LaneId(0)).sending;
        let hexadecimal: String = sending.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hexadecimal, "badcb26a7388aba6287ba859b2edcae632e0fecda0c6276caaee2e0edfd7fecb");
    }
}
