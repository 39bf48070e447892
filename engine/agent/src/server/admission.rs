//! Admission of local users: places for connections, and the order in which requests are answered. Pure: time and costs are arguments.
//!
//! Root and the daemon's own user are trusted: they have reserved places, no timeout and no limit on requests. Every other user id is a party with
//! limits of its own (law 15), because any local user may open the socket (fault P7):
//!
//! - connections: [`PER_USER`] of one user id, [`MAX_CONNECTIONS`] less [`RESERVED`] of all of them. A newcomer takes the place of the oldest idle
//!   connection of its own user id, or of the user id with the most connections.
//! - time: [`FIRST_REQUEST`], [`NEXT_REQUEST`], [`TAKE_ANSWER`].
//! - the agent thread's processor time: [`USER_SHARE`] of one user id, [`SHARED`] of all of them; the user id that used least is answered first.

use std::time::Duration;

use taut_base::Time;

use crate::share::{PART_PAUSE, Share};

/// Connections at a time, of all users. Each holds a descriptor and 20 KiB for its request.
pub(super) const MAX_CONNECTIONS: usize = 32;
/// Of these, the ones that only root and the daemon's own user may use: a few programs of an administrator at the same moment.
const RESERVED: usize = 4;
/// Connections of one other user id at a time: a shell, a status bar and some scripts.
pub(super) const PER_USER: usize = 8;
/// From the connection to its first whole request, 10 s: `taut` sends it at once.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// From an answer to the next request, 60 s: `taut ping --timeout` waits that long between two of them.
const NEXT_REQUEST: Duration = Duration::from_secs(60);
/// Until an answer was read, 10 s: a program that reads at all takes milliseconds.
const TAKE_ANSWER: Duration = Duration::from_secs(10);
/// Processor time of one user id, a twentieth: some hundred requests a second in a small network, two in one of ten thousand members. At once, 100 ms.
const USER_SHARE: Share = Share::new(20, Duration::from_millis(100));
/// Processor time of all of these users, a fifth: the rest is for handshakes and timers. At once, 200 ms.
const SHARED: Share = Share::new(5, Duration::from_millis(200));
/// User ids without a connection whose use is remembered until it is paid off; more are forgotten, the least indebted first. Each had to connect, so
/// only a user who owns many ids gets there.
const MAX_REMEMBERED: usize = 256;

/// Whose limits a connection counts towards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    /// Root, or the daemon's own user.
    Trusted,
    /// Another user id.
    User(u32),
}

/// A connection for which there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// For a request.
    Idle,
    /// For the rest of a request; the socket is read again at this time.
    Part(Time),
    /// For an answer. The number tells which request came first.
    Asked(u64),
    /// For its user to read the answer.
    Answered,
}

struct Seat {
    token: u64,
    party: Party,
    phase: Phase,
    /// When it is closed, if it is still in this phase. Trusted users are not timed.
    until: Time,
    /// Rises with each use, so that the smallest is the longest unused.
    used: u64,
    /// The turn in which it was admitted.
    turn: u64,
}

/// A request that waits for its answer.
struct Waiting {
    token: u64,
    number: u64,
    user: u32,
    /// From when it may be answered.
    due: Time,
    /// When its user id has paid off what it used.
    paid: Time,
}

/// The table of connections and of what each user id used. Both lists are short enough to be searched from end to end.
#[derive(Default)]
pub(super) struct Admission {
    /// At most [`MAX_CONNECTIONS`].
    seats: Vec<Seat>,
    /// User ids, and when the processor time that each used is paid off. A user id without an entry owes nothing.
    paid: Vec<(u32, Time)>,
    /// The same for all of them together.
    paid_by_all: Time,
    /// Counts uses.
    uses: u64,
    /// Counts the agent's turns.
    turn: u64,
}

impl Admission {
    /// Ends a turn of the agent: everything that the poller reported was served.
    pub(super) fn next_turn(&mut self) {
        self.turn += 1;
    }

    /// Admits connection `token`. Returns the connection that must be closed for it, if any.
    pub(super) fn admit(&mut self, token: u64, party: Party, now: Time) -> Result<Option<u64>, Full> {
        let evicted = match self.limit(party) {
            None => None,
            Some(own_only) => Some(self.victim(party, own_only).ok_or(Full)?),
        };
        if let Some(evicted) = evicted {
            self.remove(evicted);
        }
        self.forget_paid(now);
        self.uses += 1;
        let (until, turn) = (now + FIRST_REQUEST, self.turn);
        self.seats.push(Seat { token, party, phase: Phase::Idle, until, used: self.uses, turn });
        Ok(evicted)
    }

    /// Returns which limit one more connection of `party` exceeds: `Some(true)` for its own, `Some(false)` for that of several parties.
    fn limit(&self, party: Party) -> Option<bool> {
        let trusted = self.count(Party::Trusted);
        let others = self.seats.len() - trusted;
        match party {
            Party::User(_) if self.count(party) >= PER_USER => Some(true),
            Party::User(_) if others >= MAX_CONNECTIONS - RESERVED => Some(false),
            _ if self.seats.len() >= MAX_CONNECTIONS => Some(false),
            _ => None,
        }
    }

    fn count(&self, party: Party) -> usize {
        self.seats.iter().filter(|seat| seat.party == party).count()
    }

    /// Returns the connection that gives up its place for a newcomer of `party`: the longest unused one of the party with the most. It has been
    /// there for a whole turn, so a client that sends its request at once has been heard. Only a trusted user evicts a trusted user, and a request that
    /// waits for its answer is given up only for a party with fewer connections.
    fn victim(&self, party: Party, own_only: bool) -> Option<u64> {
        let own = self.count(party);
        let may_go = |seat: &Seat| {
            let is_own = seat.party == party;
            let is_allowed = if own_only { is_own } else { party == Party::Trusted || seat.party != Party::Trusted };
            let is_kept = matches!(seat.phase, Phase::Asked(_)) && (is_own || self.count(seat.party) <= own);
            is_allowed && !is_kept && seat.turn + 2 <= self.turn
        };
        let is_busy = |seat: &Seat| matches!(seat.phase, Phase::Asked(_) | Phase::Answered);
        let candidates = self.seats.iter().filter(|seat| may_go(seat));
        candidates
            .max_by_key(|seat| (self.count(seat.party), !is_busy(seat), std::cmp::Reverse(seat.used)))
            .map(|seat| seat.token)
    }

    /// Removes a connection that was closed.
    pub(super) fn remove(&mut self, token: u64) {
        self.seats.retain(|seat| seat.token != token);
    }

    /// Returns true if this connection's requests are answered as they come.
    pub(super) fn is_trusted(&self, token: u64) -> bool {
        self.seats.iter().any(|seat| seat.token == token && seat.party == Party::Trusted)
    }

    /// Connection `token` waits for its next request.
    pub(super) fn wait(&mut self, token: u64, now: Time) {
        self.enter(token, Phase::Idle, now);
    }

    /// Connection `token` sent a part of a request, and is read again after [`PART_PAUSE`].
    pub(super) fn wait_for_rest(&mut self, token: u64, now: Time) {
        self.enter(token, Phase::Part(now + PART_PAUSE), now);
    }

    /// Connection `token` sent a request, which waits for [`Self::next`].
    pub(super) fn ask(&mut self, token: u64, now: Time) {
        self.uses += 1;
        self.enter(token, Phase::Asked(self.uses), now);
    }

    /// The answer on connection `token` waits to be read.
    pub(super) fn wait_for_reader(&mut self, token: u64, now: Time) {
        self.enter(token, Phase::Answered, now);
    }

    /// Time goes on while a connection stays in its phase, and while a request comes in parts.
    fn enter(&mut self, token: u64, phase: Phase, now: Time) {
        use Phase::{Answered, Asked, Idle, Part};
        let Some(seat) = self.seats.iter_mut().find(|seat| seat.token == token) else { return };
        seat.until = match (seat.phase, phase) {
            (Idle | Part(_), Idle | Part(_)) | (Answered, Answered) => seat.until,
            (_, Idle | Part(_)) => now + NEXT_REQUEST,
            (_, Answered) => now + TAKE_ANSWER,
            (_, Asked(_)) => Time(u64::MAX),
        };
        if let Asked(number) = phase {
            seat.used = number;
        }
        seat.phase = phase;
    }

    /// Returns the connection whose request is answered now, if one may be, and its user id: the user id that owes least, then its first request.
    pub(super) fn next(&self, now: Time) -> Option<(u64, u32)> {
        let eligible = self.waiting().filter(|waiting| waiting.due <= now);
        eligible.min_by_key(|waiting| (waiting.paid, waiting.number)).map(|waiting| (waiting.token, waiting.user))
    }

    /// Returns the requests that wait. A user id of which an answer was not read yet is left out until it was: one answer per user id is kept in memory.
    fn waiting(&self) -> impl Iterator<Item = Waiting> + '_ {
        let by_all = SHARED.due(self.paid_by_all);
        let has_unread = |party| self.seats.iter().any(|seat| seat.party == party && seat.phase == Phase::Answered);
        self.seats.iter().filter_map(move |seat| match (seat.phase, seat.party) {
            (Phase::Asked(number), party @ Party::User(user)) if !has_unread(party) => {
                let paid = self.paid.iter().find(|(known, _)| *known == user).map_or(Time::ZERO, |(_, paid)| *paid);
                Some(Waiting { token: seat.token, number, user, due: USER_SHARE.due(paid).max(by_all), paid })
            }
            _ => None,
        })
    }

    /// Charges a user id with the time that an answer took, whether its connection is still there or not.
    pub(super) fn charge(&mut self, user: u32, cost: Duration, now: Time) {
        match self.paid.iter_mut().find(|(known, _)| *known == user) {
            Some((_, paid)) => *paid = USER_SHARE.charge(*paid, cost, now),
            None => self.paid.push((user, USER_SHARE.charge(Time::ZERO, cost, now))),
        }
        self.paid_by_all = SHARED.charge(self.paid_by_all, cost, now);
    }

    /// Returns the connections whose time is over.
    pub(super) fn expired(&self, now: Time) -> Vec<u64> {
        let is_over = |seat: &Seat| seat.party != Party::Trusted && seat.until <= now;
        self.seats.iter().filter(|seat| is_over(seat)).map(|seat| seat.token).collect()
    }

    /// Returns the connections of which the rest of a request may be read now.
    pub(super) fn readable(&self, now: Time) -> Vec<u64> {
        let is_due = |seat: &Seat| matches!(seat.phase, Phase::Part(due) if due <= now);
        self.seats.iter().filter(|seat| is_due(seat)).map(|seat| seat.token).collect()
    }

    /// Returns when [`Self::expired`], [`Self::readable`] or [`Self::next`] has something.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let timed = self.seats.iter().filter(|seat| seat.party != Party::Trusted).map(|seat| seat.until);
        let parts = self.seats.iter().filter_map(|seat| match seat.phase {
            Phase::Part(due) => Some(due),
            _ => None,
        });
        timed.chain(parts).chain(self.waiting().map(|waiting| waiting.due)).min()
    }

    /// Forgets what is paid off, and what exceeds [`MAX_REMEMBERED`].
    fn forget_paid(&mut self, now: Time) {
        let seats = &self.seats;
        let is_connected = |user: u32| seats.iter().any(|seat| seat.party == Party::User(user));
        self.paid.retain(|(user, paid)| *paid > now || is_connected(*user));
        while self.paid.len() > MAX_REMEMBERED {
            let away = self.paid.iter().enumerate().filter(|(_, (user, _))| !is_connected(*user));
            let Some((place, _)) = away.min_by_key(|(_, (_, paid))| *paid) else { return };
            self.paid.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests;
