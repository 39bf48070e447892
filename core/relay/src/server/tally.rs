//! What a relay counts, and why it refused something.

use std::fmt;

use crate::ticket::BadTicket;

/// What has happened since the start, and how many there are now. No address, no key (fault F12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Clients that are bound now.
    pub clients: u64,
    /// Channels between two of them now, each counted once for each direction.
    pub channels: u64,
    /// Bindings that began.
    pub bound: u64,
    /// Of them, those that took the place of another one.
    pub replaced: u64,
    /// Clients that moved: they returned a nonce from another place.
    pub moved: u64,
    /// Challenges to places from which a client was heard, and where it had not proven to be.
    pub challenged: u64,
    /// Clients in whose place another client has proven to be.
    pub displaced: u64,
    /// Frames from another place that brought no challenge, because the client has caused as many as it may.
    pub move_rate: u64,
    /// Bindings that ended by themselves: silent, left, expired.
    pub ended: u64,
    /// [`Refused::NotAFrame`].
    pub not_a_frame: u64,
    /// [`Refused::BadMac`].
    pub bad_mac: u64,
    /// [`Refused::CookieAsked`].
    pub cookie_asked: u64,
    /// [`Refused::BindRate`].
    pub bind_rate: u64,
    /// [`Refused::NotAuthentic`].
    pub not_authentic: u64,
    /// [`Refused::Ticket`], whatever is wrong with it.
    pub bad_ticket: u64,
    /// [`Refused::NotTheirs`].
    pub not_theirs: u64,
    /// [`Refused::Full`].
    pub full: u64,
    /// [`Refused::MemberBinds`].
    pub member_binds: u64,
    /// [`Refused::Stale`].
    pub stale: u64,
    /// [`Refused::CutOff`].
    pub cut_off: u64,
    /// Clients that were ended because their network held the most of a full table.
    pub evicted: u64,
    /// Channels that were ended for the same reason.
    pub channels_evicted: u64,
    /// [`Refused::Unbound`].
    pub unbound: u64,
    /// [`Refused::ControlRate`].
    pub control_rate: u64,
}

/// Why a frame changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No frame that a client sends.
    NotAFrame,
    /// A bind that was not made for this relay: the sender does not know its key.
    BadMac,
    /// A bind without a cookie, while there are too many; the sender was given one.
    CookieAsked,
    /// More binds from there than anybody needs.
    BindRate,
    /// It does not open, or not a second time.
    NotAuthentic,
    /// A bind whose ticket does not hold.
    Ticket(BadTicket),
    /// A bind with somebody else's ticket (fault F3).
    NotTheirs,
    /// There is no more room: all of a table is in use, and this network has its share of it.
    Full,
    /// The member has as many binds pending as it may have.
    MemberBinds,
    /// A bind that is older than another one of the same member, or shows a former key of its node: it was recorded.
    Stale,
    /// A bind of a member that its coordinator has removed.
    CutOff,
    /// From somebody who is not bound here; told so, within limits.
    Unbound,
    /// More control frames of one client than anybody needs.
    ControlRate,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFrame => f.write_str("no frame that a client of a relay sends"),
            Self::BadMac => f.write_str("a bind for another relay"),
            Self::CookieAsked => f.write_str("too many binds; the sender was asked for a cookie"),
            Self::BindRate => f.write_str("too many binds from there"),
            Self::NotAuthentic => {
                f.write_str("a frame that was altered, repeated or made by nobody whom this relay knows")
            }
            Self::Ticket(reason) => write!(f, "a bind with {reason}"),
            Self::NotTheirs => f.write_str("a bind with somebody else's ticket"),
            Self::Full => f.write_str("as many clients as this relay takes"),
            Self::MemberBinds => f.write_str("a bind of a member that has as many pending as it may have"),
            Self::Stale => f.write_str("a bind that is older than another one of the same member"),
            Self::CutOff => f.write_str("a bind of a member that was removed"),
            Self::Unbound => f.write_str("from somebody who is not bound here; told to bind again"),
            Self::ControlRate => f.write_str("more control frames of one client than anybody needs"),
        }
    }
}

impl Tally {
    /// Returns the counter of a reason.
    pub(super) fn counter(&mut self, refused: &Refused) -> &mut u64 {
        match refused {
            Refused::NotAFrame => &mut self.not_a_frame,
            Refused::BadMac => &mut self.bad_mac,
            Refused::CookieAsked => &mut self.cookie_asked,
            Refused::BindRate => &mut self.bind_rate,
            Refused::NotAuthentic => &mut self.not_authentic,
            Refused::Ticket(_) => &mut self.bad_ticket,
            Refused::NotTheirs => &mut self.not_theirs,
            Refused::Full => &mut self.full,
            Refused::MemberBinds => &mut self.member_binds,
            Refused::Stale => &mut self.stale,
            Refused::CutOff => &mut self.cut_off,
            Refused::Unbound => &mut self.unbound,
            Refused::ControlRate => &mut self.control_rate,
        }
    }
}
