//! How many may be in the house before it is known who they are (fault E11).
//!
//! Every connection is a guest until its node was let in as a member. Where there is no room for another one, the oldest idle guest of the
//! source that has most of them makes room: a flood of connections that say nothing pushes out itself, and whoever has something to say
//! is done long before it is the oldest. Guests that the coordinator works for (an operator's request, a node whose hello has come)
//! stay; they are bounded by time.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Most guests at the same time. What one costs is bounded by `server`: some ten KiB while it says nothing.
const MOST: usize = 1_024;

/// Where a guest comes from. A host has a whole /64 of IPv6 to come from.
type Source = [u8; 8];

/// Counts guests.
pub(super) struct Door {
    most: usize,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    next: u64,
    /// By age: the oldest first.
    guests: BTreeMap<u64, Guest>,
}

struct Guest {
    source: Source,
    busy: bool,
    leave: watch::Sender<bool>,
}

/// One guest's leave to be here; its end is the guest's.
pub(super) struct Pass {
    door: Arc<Door>,
    number: u64,
    leave: watch::Receiver<bool>,
}

/// While it lives, its guest is not asked to make room.
pub(super) struct Busy(Arc<Pass>);

impl Door {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, inside: Mutex::default() })
    }

    /// Lets a connection in; `None` when all who are here are being worked for.
    pub(super) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Arc<Pass>> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.guests.len() >= self.most {
            let oldest = inside.in_the_way()?;
            if let Some(guest) = inside.guests.remove(&oldest) {
                guest.leave.send_replace(true);
            }
        }
        let (number, (leave, asked)) = (inside.next, watch::channel(false));
        inside.next += 1;
        inside.guests.insert(number, Guest { source: source(from), busy: false, leave });
        Some(Arc::new(Pass { door: Arc::clone(self), number, leave: asked }))
    }
}

impl Inside {
    /// The oldest idle guest of the source that has most of them.
    fn in_the_way(&self) -> Option<u64> {
        let mut sources: BTreeMap<Source, (usize, u64)> = BTreeMap::new();
        for (number, guest) in self.guests.iter().filter(|(_, guest)| !guest.busy) {
            sources.entry(guest.source).or_insert((0, *number)).0 += 1;
        }
        // Of sources with as many, the one whose guest came first.
        let heaviest = sources.into_values().max_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
        heaviest.map(|(_, oldest)| oldest)
    }
}

impl Pass {
    /// Waits until somebody else needs the place.
    pub(super) async fn asked_to_leave(&self) {
        let _ = self.leave.clone().wait_for(|leave| *leave).await;
    }

    /// Somebody works for this guest from now on.
    pub(super) fn busy(self: Arc<Self>) -> Busy {
        self.set_busy(true);
        Busy(self)
    }

    fn set_busy(&self, busy: bool) {
        let mut inside = self.door.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = inside.guests.get_mut(&self.number) {
            guest.busy = busy;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.door.inside.lock().unwrap_or_else(PoisonError::into_inner).guests.remove(&self.number);
    }
}

fn source(from: IpAddr) -> Source {
    match from.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [0, 0, 0, 0, a, b, c, d]
        }
        IpAddr::V6(ip) => {
            let [a, b, c, d, e, f, g, h, ..] = ip.octets();
            [a, b, c, d, e, f, g, h]
        }
    }
}

/// How many guests there is room for: half of the files that this process may open are left to members, the database and the log.
pub(super) fn room() -> usize {
    let files = fs::read_to_string("/proc/self/limits").ok().and_then(|limits| {
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    });
    files.map_or(MOST, |files| (files / 2).clamp(16, MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_asked(pass: &Pass) -> bool {
        *pass.leave.borrow()
    }

    #[test]
    fn fault_e11_a_crowd_pushes_out_itself() {
        let door = Door::new(4);
        let quiet = door.enter(from("192.0.2.1")).unwrap();
        let crowd: Vec<_> = (0..3).map(|_| door.enter(from("192.0.2.2")).unwrap()).collect();
        let next = door.enter(from("192.0.2.3")).unwrap();
        assert_eq!(crowd.iter().map(|pass| is_asked(pass)).collect::<Vec<_>>(), [true, false, false]);
        let _last = door.enter(from("::ffff:192.0.2.2")).unwrap();
        assert!(is_asked(&crowd[1]) && !is_asked(&quiet) && !is_asked(&next));
    }

    #[test]
    fn fault_e11_who_is_worked_for_stays_and_gives_the_place_back() {
        let door = Door::new(2);
        let first = door.enter(from("2001:db8::1")).unwrap();
        let second = door.enter(from("2001:db8::ffff:2")).unwrap();
        let working = (Arc::clone(&first).busy(), Arc::clone(&second).busy());
        assert!(door.enter(from("192.0.2.3")).is_none());
        drop(working.1);
        assert!(door.enter(from("192.0.2.3")).is_some() && is_asked(&second) && !is_asked(&first));
        drop((first, working.0, second));
        assert_eq!(door.inside.lock().unwrap().guests.len(), 0, "nothing is left");
    }

    #[test]
    fn one_hosts_addresses_are_one_source() {
        assert_eq!(source(from("2001:db8::1")), source(from("2001:db8::ffff:2")));
        assert_ne!(source(from("2001:db8::1")), source(from("2001:db8:0:1::1")));
        assert_eq!(source(from("::ffff:192.0.2.1")), source(from("192.0.2.1")));
        assert_ne!(source(from("192.0.2.1")), source(from("192.0.2.2")));
    }
}
