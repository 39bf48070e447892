//! The counters of a relay, and the reasons of its refusals.

use std::fmt;

use crate::ticket::BadTicket;

/// Counters since the start, and present numbers of clients and channels. They hold no address and no key (fault F12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Clients bound at present.
    pub clients: u64,
    /// Channels open at present, each counted once for each direction.
    pub channels: u64,
    /// Bindings that began.
    pub bound: u64,
    /// Bindings that replaced another one of the same member.
    pub replaced: u64,
    /// Moves of clients: they returned a nonce from another address.
    pub moved: u64,
    /// Lanes beyond the first that are bound at present.
    pub lanes: u64,
    /// Challenges sent to addresses that a client used without having proven them.
    pub challenged: u64,
    /// Clients and lanes whose address another client has proven.
    pub displaced: u64,
    /// Frames from another address without a challenge, because the client was over its limit of challenges.
    pub move_rate: u64,
    /// Bindings that ended.
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
    /// [`Refused::Ticket`], for all reasons.
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
    /// Clients evicted from a full table because their network was the largest.
    pub evicted: u64,
    /// Channels evicted for the same reason.
    pub channels_evicted: u64,
    /// [`Refused::Unbound`].
    pub unbound: u64,
    /// [`Refused::ControlRate`].
    pub control_rate: u64,
}

/// The reason why a frame was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no frame that clients send.
    NotAFrame,
    /// The bind was not made for this relay: its sender does not know the relay's key.
    BadMac,
    /// The bind had no cookie while the relay required one. The sender was sent a cookie.
    CookieAsked,
    /// Too many binds from this address, or of this member.
    BindRate,
    /// The frame was altered or repeated, or its keys are wrong.
    NotAuthentic,
    /// The ticket of the bind is not valid.
    Ticket(BadTicket),
    /// The ticket of the bind belongs to another member (fault F3).
    NotTheirs,
    /// The table is full, and this network has its fair share of it.
    Full,
    /// The member has its maximum number of pending binds.
    MemberBinds,
    /// The bind is older than another one of the same member, or shows a former key of its node: it was recorded.
    Stale,
    /// The coordinator has removed the member of this bind.
    CutOff,
    /// The sender is not bound. It is told so, within limits.
    Unbound,
    /// The client sent too many control frames.
    ControlRate,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFrame => f.write_str("not a frame that a client of a relay sends"),
            Self::BadMac => f.write_str("a bind for another relay"),
            Self::CookieAsked => f.write_str("too many binds; the sender was asked for a cookie"),
            Self::BindRate => f.write_str("too many binds from this address or member"),
            Self::NotAuthentic => {
                f.write_str("a frame that was altered or repeated, or whose sender this relay does not know")
            }
            Self::Ticket(reason) => write!(f, "a bind with {reason}"),
            Self::NotTheirs => f.write_str("a bind with the ticket of another member"),
            Self::Full => f.write_str("the table is full: this relay has its maximum number of clients"),
            Self::MemberBinds => f.write_str("a bind of a member that has its maximum number of pending binds"),
            Self::Stale => f.write_str("a bind that is older than another one of the same member"),
            Self::CutOff => f.write_str("a bind of a member that was removed"),
            Self::Unbound => f.write_str("a frame of a sender that is not bound; it was told to bind again"),
            Self::ControlRate => f.write_str("too many control frames of one client"),
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
