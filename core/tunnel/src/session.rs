//! A session: the key pairs of one handshake. A stock session has WireGuard's own pair; between Taut nodes there is a control pair beside it
//! (protocol.md 1.3), and where both ends can, a data pair of another suite.
//!
//! A [`Session`] is what one lane has of it. The first lane has WireGuard's own pair; each further one has a data pair of the same suite in its place,
//! and pairs beside it like the first ([`SessionKeys::on_lane`]). Lanes of a session share its age and nothing else.

use taut_base::{LaneId, ReceiverIndex, SessionId, Time};
use taut_wire::control::{Abilities, ControlMessage, Suite, Suites};
use taut_wire::wireguard::{DATA_OVERHEAD, padded_len};
use zeroize::Zeroizing;

use crate::exporter::{Exporter, ordered};
use crate::pair::{Exhausted, Pair, PairKeys};

/// Which side of the handshake we were; only the initiator starts the next one by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We sent the initiation.
    Initiator,
    /// We answered.
    Responder,
}

/// What a handshake yields: everything a [`Session`] is made of. Moves from the agent to a lane once (protocol.md 1.7).
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_tunnel::SessionKeys>(); // law 12
/// ```
pub struct SessionKeys {
    /// Which side we were.
    pub role: Role,
    /// For which lane.
    pub lane: LaneId,
    /// WireGuard's own pair; on a further lane the pair in its place.
    pub stock: PairKeys,
    /// Where further pairs come from; `None` for a native peer (law 1).
    pub extension: Option<Exporter>,
    /// What we are ready to receive data with.
    pub suites: Suites,
}

impl SessionKeys {
    /// Keys of a session that has WireGuard's own pair and nothing else.
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

    /// Keys of another lane of the same session; `None` with a native peer. Each lane's may be made once: a [`Session`] counts from zero.
    pub fn on_lane(&self, lane: LaneId) -> Option<Self> {
        let exporter = self.extension.as_ref().filter(|_| lane != LaneId::FIRST)?;
        Some(Self::for_extra_lane(self.role, exporter.clone(), self.suites, lane))
    }

    /// Keys of a lane other than the first.
    pub fn for_extra_lane(role: Role, exporter: Exporter, suites: Suites, lane: LaneId) -> Self {
        let stock = exporter.data(Suite::ChaCha20Poly1305, lane);
        Self { role, lane, stock, extension: Some(exporter), suites }
    }

    /// All indices by which the peer may name the session's pairs.
    pub fn indices(&self) -> SessionIndices {
        SessionIndices {
            stock: self.stock.local,
            control: self.control().map(|keys| keys.local),
            fast: self.fast().map(|keys| keys.local),
        }
    }

    fn name(&self) -> (ReceiverIndex, ReceiverIndex) {
        self.extension.as_ref().map_or_else(|| ordered((self.stock.local, self.stock.remote)), Exporter::name)
    }

    fn control(&self) -> Option<PairKeys> {
        self.extension.as_ref().map(|exporter| exporter.control(self.lane))
    }

    fn fast(&self) -> Option<PairKeys> {
        let exporter = self.extension.as_ref().filter(|_| self.suites.has(Suite::Aes256Gcm))?;
        Some(exporter.data(Suite::Aes256Gcm, self.lane))
    }
}

/// By which a peer names a session's pairs on one lane to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionIndices {
    /// WireGuard's own pair, or that in its place.
    pub stock: ReceiverIndex,
    /// The control pair.
    pub control: Option<ReceiverIndex>,
    /// The data pair of a suite that is faster than the stock one.
    pub fast: Option<ReceiverIndex>,
}

impl SessionIndices {
    /// Of which lane.
    pub fn lane(&self) -> LaneId {
        self.stock.lane()
    }

    /// Those that were not drawn, but derived from the handshake.
    pub fn derived(&self) -> Vec<ReceiverIndex> {
        let stock = Some(self.stock).filter(|_| self.lane() != LaneId::FIRST);
        stock.into_iter().chain(self.control).chain(self.fast).collect()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = ReceiverIndex> {
        [Some(self.stock), self.control, self.fast].into_iter().flatten()
    }
}

/// A session in use, on one lane.
pub struct Session {
    /// Our name for it: the same on all its lanes.
    pub id: SessionId,
    /// Which side we were.
    pub role: Role,
    /// When the handshake ended.
    pub born: Time,
    name: (ReceiverIndex, ReceiverIndex),
    stock: Pair,
    control: Option<Box<Pair>>,
    fast: Option<Box<Pair>>,
    /// The peer said in this session which lanes and suites it has.
    agreed: bool,
    /// Data goes by the fast pair: the peer is ready for it.
    uses_fast: bool,
    /// The peer takes marked packets on the fast pair.
    peer_takes_marks: bool,
    /// What our last receipt said.
    receipted: Option<(Suite, u64)>,
    /// What the peer's last receipt said.
    acknowledged: Option<(Suite, u64)>,
}

impl Session {
    /// Puts the keys of a handshake that ended at `born` to use.
    pub fn new(id: SessionId, keys: SessionKeys, born: Time) -> Self {
        Self {
            id,
            role: keys.role,
            born,
            name: keys.name(),
            control: keys.control().map(|keys| Box::new(Pair::new(keys))),
            fast: keys.fast().map(|keys| Box::new(Pair::new(keys))),
            stock: Pair::new(keys.stock),
            agreed: false,
            uses_fast: false,
            peer_takes_marks: false,
            receipted: None,
            acknowledged: None,
        }
    }

    /// Bytes of the datagram that carries a packet of `packet` bytes on a device of this MTU.
    pub fn sealed_len(packet: usize, mtu: usize) -> usize {
        DATA_OVERHEAD + padded_len(packet, mtu)
    }

    /// By which the peer names WireGuard's own pair, and the session as a whole.
    pub fn local(&self) -> ReceiverIndex {
        self.stock.local()
    }

    /// By which the peer names all of its pairs.
    pub fn indices(&self) -> SessionIndices {
        SessionIndices {
            stock: self.stock.local(),
            control: self.control.as_ref().map(|pair| pair.local()),
            fast: self.fast.as_ref().map(|pair| pair.local()),
        }
    }

    /// The suite that data is sealed with.
    pub fn suite(&self) -> Suite {
        self.sending().suite()
    }

    /// Seals data with this suite from now on: the peer said that it is ready, and what else it understands. Of a suite that the session has no
    /// pair of nothing comes.
    pub fn use_suite(&mut self, suite: Suite, abilities: Abilities) {
        self.agreed = true;
        self.peer_takes_marks = abilities.accepts_partial_checksums();
        self.uses_fast = self.fast.as_ref().is_some_and(|pair| pair.suite() == suite);
    }

    /// Whether [`Self::use_suite`] was called: of its lanes and suites the peer told us in this session, and not just in a former one.
    pub(crate) fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// Whether what [`Self::seal`] seals now may hold [marked](taut_wire::partial_checksum) packets.
    pub fn sends_partial_checksums(&self) -> bool {
        self.peer_takes_marks && self.sending().allows_partial_checksums()
    }

    /// Turns `datagram` into a data message, see [`Pair::seal`].
    ///
    /// # Errors
    /// [`Exhausted`] when the key has sealed all it may; nothing was written then.
    pub fn seal(&mut self, datagram: &mut [u8], packet: usize) -> Result<(), Exhausted> {
        self.sending_mut().seal(datagram, packet)
    }

    /// What was sealed last, if anything was: of which pair, and under which counter. A receipt that names it, or a later one, covers all before.
    pub fn newest(&self) -> Option<(Suite, u64)> {
        let pair = self.sending();
        Some((pair.suite(), pair.sent().checked_sub(1)?))
    }

    /// Whether the peer acknowledges data in it: it is a Taut node.
    pub fn has_receipts(&self) -> bool {
        self.control.is_some()
    }

    /// The data pair that the peer names `index`.
    pub fn data_pair(&mut self, index: ReceiverIndex) -> Option<&mut Pair> {
        if self.stock.local() == index {
            return Some(&mut self.stock);
        }
        self.fast.as_deref_mut().filter(|pair| pair.local() == index)
    }

    /// The control pair, if the peer is a Taut node.
    pub fn control_pair(&mut self) -> Option<&mut Pair> {
        self.control.as_deref_mut()
    }

    /// A receipt for the data that came last, if there was none for it yet.
    pub(crate) fn take_receipt(&mut self) -> Option<ControlMessage> {
        let pair = self.fast.as_deref().filter(|pair| pair.highest().is_some()).unwrap_or(&self.stock);
        let newest = (pair.suite(), pair.highest()?);
        if self.receipted == Some(newest) {
            return None;
        }
        self.receipted = Some(newest);
        Some(ControlMessage::Receipt { suite: newest.0, counter: newest.1 })
    }

    /// The peer says what of our data arrived. False when we never sealed that: nothing is believed then.
    pub fn acknowledge(&mut self, suite: Suite, counter: u64) -> bool {
        let pair = if self.stock.suite() == suite { Some(&self.stock) } else { self.fast.as_deref() };
        let sealed = pair.is_some_and(|pair| pair.suite() == suite && counter < pair.sent());
        // Receipts overtake each other; the later suite of a session never goes back to the former.
        if sealed && self.acknowledged.is_none_or(|known| known < (suite, counter)) {
            self.acknowledged = Some((suite, counter));
        }
        sealed
    }

    /// The highest counter that the peer acknowledged, and of which pair.
    pub fn acknowledged(&self) -> Option<(Suite, u64)> {
        self.acknowledged
    }

    /// What the session is called on both sides and on all its lanes: the two indices of WireGuard's own pair, the smaller one first.
    pub fn name(&self) -> (ReceiverIndex, ReceiverIndex) {
        self.name
    }

    /// Whether so much was sealed that there should be a new session.
    pub(crate) fn wants_rekey_by_use(&self) -> bool {
        self.sending().wants_rekey()
    }

    /// Whether nothing may be sealed any more.
    pub(crate) fn exhausted(&self) -> bool {
        self.sending().exhausted()
    }

    fn sending(&self) -> &Pair {
        match &self.fast {
            Some(fast) if self.uses_fast => fast,
            _ => &self.stock,
        }
    }

    fn sending_mut(&mut self) -> &mut Pair {
        match &mut self.fast {
            Some(fast) if self.uses_fast => fast,
            _ => &mut self.stock,
        }
    }
}

#[cfg(test)]
mod tests;
