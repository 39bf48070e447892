//! A session: the key pairs of one handshake. A session with a native peer has WireGuard's own pair only. Between Taut nodes it also has a control pair
//! (protocol.md 1.3) and, until the nodes have agreed on a suite, a data pair of each faster suite of this node.
//!
//! A [`Session`] holds one lane's pairs. The first lane has WireGuard's own pair; each extra lane has a derived pair of the same suite instead, and its own
//! control and fast pairs ([`SessionKeys::on_lane`]). The lanes of a session share its age and nothing else.

use taut_base::{LaneId, ReceiverIndex, SessionId, Time};
use taut_wire::control::{Abilities, ControlMessage, Suite, Suites};
use taut_wire::wireguard::{DATA_OVERHEAD, padded_len};
use zeroize::Zeroizing;

use crate::exporter::{Exporter, ordered};
use crate::pair::{Exhausted, Pair, PairKeys};
use crate::role::Role;

/// The suites that are faster than the stock one, the preferred one first.
const FAST: [Suite; 2] = [Suite::Aegis256X4, Suite::Aes256Gcm];

/// The result of a handshake, from which a [`Session`] is made. It moves from the agent to a lane once (protocol.md 1.7).
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_tunnel::SessionKeys>(); // law 12
/// ```
pub struct SessionKeys {
    /// This node's side of the handshake.
    pub role: Role,
    /// Lane of the keys.
    pub lane: LaneId,
    /// WireGuard's own pair; on an extra lane the derived pair that replaces it.
    pub stock: PairKeys,
    /// Source of all derived pairs; `None` for a native peer (law 1).
    pub extension: Option<Exporter>,
    /// Suites that this node accepts for data.
    pub suites: Suites,
}

impl SessionKeys {
    /// Returns the keys of a session with WireGuard's own pair only.
    pub fn stock(
        role: Role,
        local: ReceiverIndex,
        remote: ReceiverIndex,
        sending: Zeroizing<[u8; 32]>,
        receiving: Zeroizing<[u8; 32]>,
    ) -> Self {
        let stock = PairKeys { suite: Suite::ChaCha20Poly1305, local, remote, sending, receiving };
        Self { role, lane: LaneId::FIRST, stock, extension: None, suites: Suites::STOCK }
    }

    /// Returns the keys of another lane of the same session; `None` with a native peer. The caller makes them once per lane, because the counters of a
    /// [`Session`] start at zero.
    pub fn on_lane(&self, lane: LaneId) -> Option<Self> {
        let exporter = self.extension.as_ref().filter(|_| lane != LaneId::FIRST)?;
        Some(Self::for_extra_lane(self.role, exporter.clone(), self.suites, lane))
    }

    /// Returns the keys of a lane other than the first.
    pub fn for_extra_lane(role: Role, exporter: Exporter, suites: Suites, lane: LaneId) -> Self {
        let stock = exporter.data(Suite::ChaCha20Poly1305, lane);
        Self { role, lane, stock, extension: Some(exporter), suites }
    }

    /// Returns the receiver indices of all pairs.
    pub fn indices(&self) -> SessionIndices {
        SessionIndices {
            stock: self.stock.local,
            control: self.control().map(|keys| keys.local),
            fast: self.fast().map(|keys| keys.map(|keys| keys.local)),
        }
    }

    fn name(&self) -> (ReceiverIndex, ReceiverIndex) {
        self.extension.as_ref().map_or_else(|| ordered((self.stock.local, self.stock.remote)), Exporter::name)
    }

    fn control(&self) -> Option<PairKeys> {
        self.extension.as_ref().map(|exporter| exporter.control(self.lane))
    }

    /// Returns the keys of the suites that are faster than the stock one, as far as this node accepts them.
    fn fast(&self) -> [Option<PairKeys>; FAST.len()] {
        FAST.map(|suite| {
            let exporter = self.extension.as_ref().filter(|_| self.suites.has(suite))?;
            Some(exporter.data(suite, self.lane))
        })
    }
}

/// Receiver indices of a session's pairs on one lane, in the peer's packets to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionIndices {
    /// Index of WireGuard's own pair, or of the pair that replaces it.
    pub stock: ReceiverIndex,
    /// Index of the control pair.
    pub control: Option<ReceiverIndex>,
    /// Indices of the data pairs of suites that are faster than the stock one.
    pub fast: [Option<ReceiverIndex>; FAST.len()],
}

impl SessionIndices {
    /// Returns the lane of the indices.
    pub fn lane(&self) -> LaneId {
        self.stock.lane()
    }

    /// Returns the indices that are derived from the handshake instead of random.
    pub fn derived(&self) -> Vec<ReceiverIndex> {
        let stock = Some(self.stock).filter(|_| self.lane() != LaneId::FIRST);
        stock.into_iter().chain(self.control).chain(self.fast.into_iter().flatten()).collect()
    }

    /// Returns all indices.
    pub fn iter(&self) -> impl Iterator<Item = ReceiverIndex> {
        [Some(self.stock), self.control].into_iter().chain(self.fast).flatten()
    }
}

/// The meaning of a receipt of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// This node never sealed that counter. The receipt is ignored.
    Impossible,
    /// Data has arrived.
    Arrived,
    /// Data has arrived, and the long messages before it are missing. A peer that tells no lengths seems to say so, too
    /// ([`Abilities::takes_pieces`]).
    LongLost,
}

/// A session in use, on one lane.
pub struct Session {
    /// This node's number for the session, the same on all lanes.
    pub id: SessionId,
    /// This node's side of the handshake.
    pub role: Role,
    /// Time at which the handshake ended.
    pub born: Time,
    name: (ReceiverIndex, ReceiverIndex),
    stock: Pair,
    control: Option<Box<Pair>>,
    /// Pairs of faster suites: all that this node accepts, and after the agreement only that of the suite in use.
    fast: [Option<Box<Pair>>; FAST.len()],
    indices: SessionIndices,
    /// The peer has told its lanes and suites in this session.
    agreed: bool,
    /// Suite that data is sealed with.
    suite: Suite,
    /// The peer accepts packets with partial checksums under a fast pair.
    peer_accepts_partial_checksums: bool,
    /// Content of the last receipt sent.
    last_receipt: Option<(Suite, u64)>,
    /// Content of the peer's latest receipt.
    acknowledged: Option<(Suite, u64)>,
}

impl Session {
    /// Returns the session of a handshake that ended at `born`.
    pub fn new(id: SessionId, keys: SessionKeys, born: Time) -> Self {
        let (name, role) = (keys.name(), keys.role);
        let control = keys.control().map(|keys| Box::new(Pair::new(keys)));
        let fast = keys.fast().map(|keys| keys.map(|keys| Box::new(Pair::new(keys))));
        let stock = Pair::new(keys.stock);
        let indices = SessionIndices {
            stock: stock.local(),
            control: control.as_ref().map(|pair| pair.local()),
            fast: fast.each_ref().map(|pair| pair.as_ref().map(|pair| pair.local())),
        };
        Self {
            id,
            role,
            born,
            name,
            control,
            fast,
            indices,
            suite: stock.suite(),
            stock,
            agreed: false,
            peer_accepts_partial_checksums: false,
            last_receipt: None,
            acknowledged: None,
        }
    }

    /// Returns the length of the datagram that carries a packet of `packet` bytes from a device of this MTU.
    pub fn sealed_len(packet: usize, mtu: usize) -> usize {
        DATA_OVERHEAD + padded_len(packet, mtu)
    }

    /// Returns the receiver index of WireGuard's own pair, which also identifies the session.
    pub fn local(&self) -> ReceiverIndex {
        self.stock.local()
    }

    /// Returns the receiver indices of all pairs, those that were dropped after the agreement included.
    pub fn indices(&self) -> SessionIndices {
        self.indices
    }

    /// Returns the suite that data is sealed with.
    pub fn suite(&self) -> Suite {
        self.sending().suite()
    }

    /// Seals data with this suite from now on. The peer has said that it is ready for it, and told its abilities. A suite without a pair in this session
    /// leaves WireGuard's own in use. One with a pair replaces all other fast pairs: the peer chooses from the same two sets of suites, and will not use them either.
    pub fn use_suite(&mut self, suite: Suite, abilities: Abilities) {
        self.agreed = true;
        self.peer_accepts_partial_checksums = abilities.accepts_partial_checksums();
        let has_pair = self.fast.iter().flatten().any(|pair| pair.suite() == suite);
        for place in &mut self.fast {
            place.take_if(|pair| has_pair && pair.suite() != suite);
        }
        self.suite = if has_pair { suite } else { self.stock.suite() };
    }

    /// Returns true if [`Self::use_suite`] was called: the peer has told its lanes and suites in this session, not only in an earlier one.
    pub(crate) fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// Returns true if packets for [`Self::seal`] may have [partial checksums](taut_wire::partial_checksum).
    pub fn sends_partial_checksums(&self) -> bool {
        self.peer_accepts_partial_checksums && self.sending().allows_partial_checksums()
    }

    /// Seals `datagram` in place with the pair in use, see [`Pair::seal`].
    ///
    /// # Errors
    /// [`Exhausted`] if the key has reached its limit. `datagram` is unchanged then.
    pub fn seal(&mut self, datagram: &mut [u8], packet: usize) -> Result<(), Exhausted> {
        self.sending_mut().seal(datagram, packet)
    }

    /// Returns suite and counter of the packet that was sealed last, if any. A receipt for this or a later counter covers all packets before.
    pub fn newest(&self) -> Option<(Suite, u64)> {
        let pair = self.sending();
        Some((pair.suite(), pair.sent().checked_sub(1)?))
    }

    /// Returns true if the peer acknowledges data by receipts, as Taut nodes do.
    pub fn has_receipts(&self) -> bool {
        self.control.is_some()
    }

    /// Returns the data pair with this receiver index.
    pub fn data_pair(&mut self, index: ReceiverIndex) -> Option<&mut Pair> {
        if self.stock.local() == index {
            return Some(&mut self.stock);
        }
        self.fast.iter_mut().flatten().find(|pair| pair.local() == index).map(|pair| &mut **pair)
    }

    /// Returns the control pair; `None` for a native peer.
    pub fn control_pair(&mut self) -> Option<&mut Pair> {
        self.control.as_deref_mut()
    }

    /// Returns a receipt for the data received last, unless it was acknowledged already.
    pub(crate) fn take_receipt(&mut self) -> Option<ControlMessage> {
        let mut fast = self.fast.iter_mut().flatten().map(|pair| &mut **pair);
        let pair = fast.find(|pair| pair.highest().is_some()).unwrap_or(&mut self.stock);
        let newest = (pair.suite(), pair.highest()?);
        if self.last_receipt == Some(newest) {
            return None;
        }
        self.last_receipt = Some(newest);
        let longest = pair.take_longest();
        Some(ControlMessage::Receipt { suite: newest.0, counter: newest.1, longest })
    }

    /// Handles a receipt of the peer; `longest` is the length of the longest message that it received lately.
    pub fn acknowledge(&mut self, suite: Suite, counter: u64, longest: u16) -> Acknowledged {
        let fast = self.fast.iter_mut().flatten().map(|pair| &mut **pair);
        let pair = fast.chain([&mut self.stock]).find(|pair| pair.suite() == suite);
        let Some(pair) = pair.filter(|pair| counter < pair.sent()) else {
            return Acknowledged::Impossible;
        };
        let long_lost = pair.receipted(counter, longest);
        // Receipts may arrive out of order. A session never goes back to its earlier suite.
        if self.acknowledged.is_none_or(|known| known < (suite, counter)) {
            self.acknowledged = Some((suite, counter));
        }
        if long_lost { Acknowledged::LongLost } else { Acknowledged::Arrived }
    }

    /// Returns suite and counter of the latest packet that the peer acknowledged.
    pub fn acknowledged(&self) -> Option<(Suite, u64)> {
        self.acknowledged
    }

    /// Returns the session's name, which is the same on both nodes and on all lanes: the two indices of WireGuard's own pair, the smaller first.
    pub fn name(&self) -> (ReceiverIndex, ReceiverIndex) {
        self.name
    }

    /// Returns true if the key in use is so worn that the session should be renewed.
    pub(crate) fn wants_rekey_by_use(&self) -> bool {
        self.sending().wants_rekey()
    }

    /// Returns true if the key in use has reached its limit.
    pub(crate) fn exhausted(&self) -> bool {
        self.sending().exhausted()
    }

    fn sending(&self) -> &Pair {
        self.fast.iter().flatten().find(|pair| pair.suite() == self.suite).map_or(&self.stock, |pair| &**pair)
    }

    fn sending_mut(&mut self) -> &mut Pair {
        self.fast
            .iter_mut()
            .flatten()
            .find(|pair| pair.suite() == self.suite)
            .map_or(&mut self.stock, |pair| &mut **pair)
    }
}

#[cfg(test)]
mod tests;
