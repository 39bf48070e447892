//! Admission of local users: limits on connections, and the order in which requests are answered. Pure: time and costs are arguments.
//!
//! Root and the daemon's own user are trusted: they have reserved connections, no timeout and no limit on requests. Every other user id is a party with
//! limits of its own (law 15), because any local user may open the socket (fault P7):
//!
//! - connections: [`PER_USER`] of one user id, [`MAX_CONNECTIONS`] less [`RESERVED`] of all of them. A new connection evicts the oldest idle connection of its
//!   own user id, or of the user id with the most connections.
//! - timeouts: [`FIRST_REQUEST`], [`NEXT_REQUEST`], [`TAKE_ANSWER`].
//! - the agent thread's processor time: [`USER_SHARE`] of one user id, [`SHARED`] of all of them; the user id that used least is answered first.

use std::time::Duration;

use taut_base::Time;

use crate::basics::{CpuShare, PART_PAUSE};

/// Maximum number of connections of all users, 32. Each takes a descriptor and 20 KiB for its request.
pub(super) const MAX_CONNECTIONS: usize = 32;
/// Connections reserved for root and the daemon's own user, four: an administrator runs a few programs at the same time.
const RESERVED: usize = 4;
/// Maximum number of connections of one other user id, eight: a shell, a status bar and some scripts.
pub(super) const PER_USER: usize = 8;
/// Timeout from the connection to its first complete request, 10 s: `taut` sends it at once.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// Timeout from a response to the next request, 60 s: `taut ping --timeout` waits that long between two requests.
const NEXT_REQUEST: Duration = Duration::from_secs(60);
/// Timeout for reading a response, 10 s: a working program needs milliseconds.
const TAKE_ANSWER: Duration = Duration::from_secs(10);
/// Processor time of one user id, a twentieth, with a burst of 100 ms: some hundred requests a second in a small network, two in one of ten thousand members.
const USER_SHARE: CpuShare = CpuShare::new(20, Duration::from_millis(100));
/// Processor time of all untrusted users together, a fifth, with a burst of 200 ms: the rest is for handshakes and timers.
const SHARED: CpuShare = CpuShare::new(5, Duration::from_millis(200));
/// Maximum number of user ids without a connection whose used time is remembered until it is paid off, 256. Of more ids, the least indebted ones are forgotten. Only a
/// user who owns many ids reaches this limit, because each id had to connect.
const MAX_REMEMBERED: usize = 256;

/// The party whose limits apply to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UserClass {
    /// Root, or the daemon's own user.
    Trusted,
    /// Another user id.
    User(u32),
}

/// The error for a connection that exceeds the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LimitExceeded;

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A request.
    Idle,
    /// The rest of a request; the socket is read again at this time.
    Part(Time),
    /// The response to a request. Requests are numbered in the order of arrival.
    Asked(u64),
    /// The client, which has to read the response.
    Answered,
}

/// An admitted connection.
struct Admitted {
    token: u64,
    party: UserClass,
    phase: Phase,
    /// Time at which the connection is closed if it is still in this phase. Trusted users have no timeouts.
    until: Time,
    /// Number of the last use. The connection with the smallest number is the longest unused.
    used: u64,
    /// Turn in which the connection was admitted.
    turn: u64,
}

/// A request that waits for its response.
struct PendingRequest {
    token: u64,
    number: u64,
    user: u32,
    /// Time from which it may be answered.
    due: Time,
    /// Time at which its user id has paid off the used time.
    paid: Time,
}

/// The admitted connections and the processor time that each user id used. Both lists are short enough for a linear search.
#[derive(Default)]
pub(super) struct UserAdmission {
    /// The admitted connections, at most [`MAX_CONNECTIONS`].
    admitted: Vec<Admitted>,
    /// User ids, each with the time at which its used processor time is paid off. A user id without an entry owes nothing.
    paid: Vec<(u32, Time)>,
    /// Time at which the processor time that all untrusted users together used is paid off.
    paid_by_all: Time,
    /// Counts uses.
    uses: u64,
    /// Counts the agent's turns.
    turn: u64,
}

impl UserAdmission {
    /// Ends a turn of the agent: everything that the poller reported was served.
    pub(super) fn next_turn(&mut self) {
        self.turn += 1;
    }

    /// Admits connection `token`. Returns the connection that must be closed for it, if any.
    pub(super) fn admit(&mut self, token: u64, party: UserClass, now: Time) -> Result<Option<u64>, LimitExceeded> {
        let evicted = match self.limit(party) {
            None => None,
            Some(own_only) => Some(self.victim(party, own_only).ok_or(LimitExceeded)?),
        };
        if let Some(evicted) = evicted {
            self.remove(evicted);
        }
        self.forget_paid(now);
        self.uses += 1;
        let (until, turn) = (now + FIRST_REQUEST, self.turn);
        self.admitted.push(Admitted { token, party, phase: Phase::Idle, until, used: self.uses, turn });
        Ok(evicted)
    }

    /// Returns the limit that one more connection of `party` would exceed: `Some(true)` for the party's own limit, `Some(false)` for a limit of several parties,
    /// `None` if no limit is exceeded.
    fn limit(&self, party: UserClass) -> Option<bool> {
        let trusted = self.count(UserClass::Trusted);
        let others = self.admitted.len() - trusted;
        match party {
            UserClass::User(_) if self.count(party) >= PER_USER => Some(true),
            UserClass::User(_) if others >= MAX_CONNECTIONS - RESERVED => Some(false),
            _ if self.admitted.len() >= MAX_CONNECTIONS => Some(false),
            _ => None,
        }
    }

    fn count(&self, party: UserClass) -> usize {
        self.admitted.iter().filter(|connection| connection.party == party).count()
    }

    /// Returns the connection to evict for a new one of `party`: the longest unused connection of the party with the most connections. Only connections that are
    /// older than one turn are evicted, so that a client that sends its request at once is served. Only a trusted user evicts a trusted user, and a connection whose
    /// request waits for its answer is evicted only for a party with fewer connections.
    fn victim(&self, party: UserClass, own_only: bool) -> Option<u64> {
        let own = self.count(party);
        let may_go = |connection: &Admitted| {
            let is_own = connection.party == party;
            let is_allowed =
                if own_only { is_own } else { party == UserClass::Trusted || connection.party != UserClass::Trusted };
            let is_kept =
                matches!(connection.phase, Phase::Asked(_)) && (is_own || self.count(connection.party) <= own);
            is_allowed && !is_kept && connection.turn + 2 <= self.turn
        };
        let is_busy = |connection: &Admitted| matches!(connection.phase, Phase::Asked(_) | Phase::Answered);
        let candidates = self.admitted.iter().filter(|connection| may_go(connection));
        candidates
            .max_by_key(|connection| {
                (self.count(connection.party), !is_busy(connection), std::cmp::Reverse(connection.used))
            })
            .map(|connection| connection.token)
    }

    /// Removes a connection that was closed.
    pub(super) fn remove(&mut self, token: u64) {
        self.admitted.retain(|connection| connection.token != token);
    }

    /// Returns true if the connection belongs to a trusted user, whose requests are answered at once.
    pub(super) fn is_trusted(&self, token: u64) -> bool {
        self.admitted.iter().any(|connection| connection.token == token && connection.party == UserClass::Trusted)
    }

    /// Notes that connection `token` waits for its next request.
    pub(super) fn wait(&mut self, token: u64, now: Time) {
        self.enter(token, Phase::Idle, now);
    }

    /// Notes that connection `token` sent a part of a request. It is read again after [`PART_PAUSE`].
    pub(super) fn wait_for_rest(&mut self, token: u64, now: Time) {
        self.enter(token, Phase::Part(now + PART_PAUSE), now);
    }

    /// Notes that connection `token` sent a request, which waits for [`Self::next`].
    pub(super) fn ask(&mut self, token: u64, now: Time) {
        self.uses += 1;
        self.enter(token, Phase::Asked(self.uses), now);
    }

    /// Notes that the response on connection `token` waits to be read.
    pub(super) fn wait_for_reader(&mut self, token: u64, now: Time) {
        self.enter(token, Phase::Answered, now);
    }

    /// Puts a connection into a phase. Its timeout starts again, except while the phase stays the same or a request arrives in parts.
    fn enter(&mut self, token: u64, phase: Phase, now: Time) {
        use Phase::{Answered, Asked, Idle, Part};
        let Some(connection) = self.admitted.iter_mut().find(|connection| connection.token == token) else { return };
        connection.until = match (connection.phase, phase) {
            (Idle | Part(_), Idle | Part(_)) | (Answered, Answered) => connection.until,
            (_, Idle | Part(_)) => now + NEXT_REQUEST,
            (_, Answered) => now + TAKE_ANSWER,
            (_, Asked(_)) => Time(u64::MAX),
        };
        if let Asked(number) = phase {
            connection.used = number;
        }
        connection.phase = phase;
    }

    /// Returns the connection whose request may be answered now, with its user id: the first request of the user id that owes least.
    pub(super) fn next(&self, now: Time) -> Option<(u64, u32)> {
        let eligible = self.waiting().filter(|waiting| waiting.due <= now);
        eligible.min_by_key(|waiting| (waiting.paid, waiting.number)).map(|waiting| (waiting.token, waiting.user))
    }

    /// Returns the requests that wait. User ids with an unread response are left out: one response per user id is kept in memory.
    fn waiting(&self) -> impl Iterator<Item = PendingRequest> + '_ {
        let by_all = SHARED.due(self.paid_by_all);
        let has_unread = |party| {
            self.admitted.iter().any(|connection| connection.party == party && connection.phase == Phase::Answered)
        };
        self.admitted.iter().filter_map(move |connection| match (connection.phase, connection.party) {
            (Phase::Asked(number), party @ UserClass::User(user)) if !has_unread(party) => {
                let paid = self.paid.iter().find(|(known, _)| *known == user).map_or(Time::ZERO, |(_, paid)| *paid);
                Some(PendingRequest {
                    token: connection.token,
                    number,
                    user,
                    due: USER_SHARE.due(paid).max(by_all),
                    paid,
                })
            }
            _ => None,
        })
    }

    /// Charges a user id with the time that a response took, even if its connection has ended.
    pub(super) fn charge(&mut self, user: u32, cost: Duration, now: Time) {
        match self.paid.iter_mut().find(|(known, _)| *known == user) {
            Some((_, paid)) => *paid = USER_SHARE.charge(*paid, cost, now),
            None => self.paid.push((user, USER_SHARE.charge(Time::ZERO, cost, now))),
        }
        self.paid_by_all = SHARED.charge(self.paid_by_all, cost, now);
    }

    /// Returns the connections whose timeout has expired.
    pub(super) fn expired(&self, now: Time) -> Vec<u64> {
        let is_over = |connection: &Admitted| connection.party != UserClass::Trusted && connection.until <= now;
        self.admitted.iter().filter(|connection| is_over(connection)).map(|connection| connection.token).collect()
    }

    /// Returns the connections with an incomplete request that may be read now.
    pub(super) fn readable(&self, now: Time) -> Vec<u64> {
        let is_due = |connection: &Admitted| matches!(connection.phase, Phase::Part(due) if due <= now);
        self.admitted.iter().filter(|connection| is_due(connection)).map(|connection| connection.token).collect()
    }

    /// Returns the time at which [`Self::expired`], [`Self::readable`] or [`Self::next`] has a result.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let timed = self
            .admitted
            .iter()
            .filter(|connection| connection.party != UserClass::Trusted)
            .map(|connection| connection.until);
        let parts = self.admitted.iter().filter_map(|connection| match connection.phase {
            Phase::Part(due) => Some(due),
            _ => None,
        });
        timed.chain(parts).chain(self.waiting().map(|waiting| waiting.due)).min()
    }

    /// Forgets user ids that have paid off their time, and those that exceed [`MAX_REMEMBERED`].
    fn forget_paid(&mut self, now: Time) {
        let admitted = &self.admitted;
        let is_connected = |user: u32| admitted.iter().any(|connection| connection.party == UserClass::User(user));
        self.paid.retain(|(user, paid)| *paid > now || is_connected(*user));
        while self.paid.len() > MAX_REMEMBERED {
            let away = self.paid.iter().enumerate().filter(|(_, (user, _))| !is_connected(*user));
            let Some((index, _)) = away.min_by_key(|(_, (_, paid))| *paid) else { return };
            self.paid.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests;
