//! The resolver of an exit node: it has the host's own servers answer the peers that the policy lets use this node as an exit, and nobody else (fault H8).
//!
//! The sockets are bound to the overlay's device, so the LAN does not reach them, and the packet filter is opened for the same peers alone
//! ([`opened`]). The peers get the names of the internet: not those of the networks around this host, and no private addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use taut_base::{Entropy, Prefix, SortedMap, is_internet};
use taut_dns::{EXIT_PORT, Zones, asks_for_records, failure, is_at_or_below, labels, leads_to, no_name, refused};
use taut_event::bind_to_device;
use taut_filter::{Filter, Rule, Target};

use super::{PRIVATE, STACK};
use crate::basics::OsEntropy;
use crate::resolver::{ask_by_tcp, ask_by_udp, host_servers, read_message, write_message};

/// Questions and connections of one peer at once, 16: its resolver has a few in flight while a page loads.
const MOST_OF_A_PEER: usize = 16;
/// Questions and connections of all peers at once, 128. Each has a thread while it waits.
const MOST: usize = 128;
/// Longest time from one answer to the next whole question of a connection, and to the end of an answer, 10 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest question over UDP, 4,096 bytes, as the stub's.
const MAX_QUESTION: usize = 4_096;
/// Domains that mean something else on each host or in each network (RFC 6761, RFC 6762, RFC 7686, RFC 8375). The names of private addresses are kept, too ([`private_reverse_zones`]); those of
/// public addresses are the internet's.
const KEPT: [&str; 7] = ["alt", "home.arpa", "internal", "invalid", "local", "localhost", "onion"];
/// Protocols of questions: UDP and TCP.
const PROTOCOLS: [u8; 2] = [17, 6];

/// Returns a filter that also lets the peers ask that may use this node as an exit: those that a rule lets send to a public address.
pub(crate) fn opened(filter: &Filter, own: &[IpAddr]) -> Filter {
    let src: Vec<Prefix> = users(filter).collect();
    let target = |address: &IpAddr| Target { prefix: Prefix::host(*address), ports: vec![(EXIT_PORT, EXIT_PORT)] };
    let rule = Rule { src, proto: PROTOCOLS.to_vec(), dst: own.iter().map(target).collect() };
    let mut opened = filter.clone();
    opened.rules.push(rule);
    // A filter at its limits stays as it is, and the peers' questions are dropped.
    if opened.check().is_ok() { opened } else { filter.clone() }
}

/// Returns the domains whose names are not the internet's: those of each host, of private addresses, and of this network.
fn kept(own: &[String]) -> Zones {
    let reverse = private_reverse_zones();
    Zones::new(KEPT.into_iter().chain(reverse.iter().map(String::as_str)).chain(own.iter().map(String::as_str)))
}

/// Returns the domains with the names of private, shared, link-local and loopback addresses (RFC 6303, RFC 7793): of [`PRIVATE`].
fn private_reverse_zones() -> Vec<String> {
    let v4 = |front: String| format!("{front}.in-addr.arpa");
    let whole = ["0", "10", "127", "254.169", "168.192"].map(|front| v4(String::from(front)));
    let private = (16..32).map(|second| v4(format!("{second}.172")));
    let shared = (64..128).map(|second| v4(format!("{second}.100")));
    let v6 = ["c.f", "d.f", "8.e.f", "9.e.f", "a.e.f", "b.e.f"].map(|front| format!("{front}.ip6.arpa"));
    // `::` and `::1`: all but the last digit.
    let loopback = format!("{}ip6.arpa", "0.".repeat(31));
    whole.into_iter().chain(private).chain(shared).chain(v6).chain([loopback]).collect()
}

/// Returns the sources that the filter of an exit node lets send to the internet.
fn users(filter: &Filter) -> impl Iterator<Item = Prefix> {
    let is_public = |rule: &&Rule| {
        rule.dst.iter().any(|target| is_internet(target.prefix.address()) || target.prefix.length() == 0)
    };
    filter.rules.iter().filter(is_public).flat_map(|rule| rule.src.iter().copied())
}

/// The sockets at which peers ask. They close when it is dropped; questions in progress end within their time.
pub(crate) struct ServedPeers {
    /// The device and the addresses that the sockets are bound to.
    place: (String, Vec<IpAddr>),
    datagrams: Vec<Arc<UdpSocket>>,
    listeners: Vec<TcpListener>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The sources that are answered; `None` for all peers, if the node has no filter.
    users: Mutex<Option<Vec<Prefix>>>,
    /// Names that are not the internet's.
    kept: Mutex<Zones>,
    private: Vec<Prefix>,
    waiting: Mutex<SortedMap<IpAddr, usize>>,
}

impl ServedPeers {
    /// Opens the sockets at these overlay addresses of this node.
    pub(crate) fn open(device: &str, own: &[IpAddr]) -> io::Result<Self> {
        let (mut datagrams, mut listeners) = (Vec::new(), Vec::new());
        for address in own {
            let socket = UdpSocket::bind((*address, EXIT_PORT))?;
            bind_to_device(socket.as_fd(), device)?;
            socket.set_nonblocking(true)?;
            datagrams.push(Arc::new(socket));
            let listener = TcpListener::bind((*address, EXIT_PORT))?;
            bind_to_device(listener.as_fd(), device)?;
            listener.set_nonblocking(true)?;
            listeners.push(listener);
        }
        let private = PRIVATE.iter().filter_map(|text| text.parse().ok()).collect();
        let shared = Arc::new(Shared { private, ..Shared::default() });
        Ok(Self { place: (String::from(device), own.to_vec()), datagrams, listeners, shared })
    }

    /// Returns true if the sockets are bound to this device and these addresses.
    pub(crate) fn is_at(&self, device: &str, own: &[IpAddr]) -> bool {
        self.place.0 == device && self.place.1 == own
    }

    /// Sets who is answered, by the node's filter, and the domains of this network, whose names are not the internet's.
    pub(crate) fn set(&self, filter: Option<&Filter>, own: impl IntoIterator<Item = String>) {
        let own: Vec<String> = own.into_iter().collect();
        *lock(&self.shared.users) = filter.map(|filter| users(filter).collect());
        *lock(&self.shared.kept) = kept(&own);
    }

    /// Returns the descriptors to wait for.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.datagrams.iter().map(|socket| socket.as_fd()).chain(self.listeners.iter().map(AsFd::as_fd))
    }

    /// Takes the questions and connections that wait.
    pub(crate) fn turn(&self) {
        let mut buffer = vec![0; MAX_QUESTION];
        for socket in &self.datagrams {
            // A bounded number, so that the agent goes on with other work.
            for _ in 0..MOST {
                let Ok((length, client)) = socket.recv_from(&mut buffer) else { break };
                let Some(place) = self.shared.place(client.ip()) else { continue };
                let (question, socket) = (buffer.get(..length).unwrap_or_default().to_vec(), Arc::clone(socket));
                self.shared.work(place, move |shared| {
                    if let Some(answer) = shared.answer(&question, ask_by_udp) {
                        let _ = socket.send_to(&answer, client);
                    }
                });
            }
        }
        for listener in &self.listeners {
            for _ in 0..MOST {
                let Ok((stream, client)) = listener.accept() else { break };
                let Some(place) = self.shared.place(client.ip()) else { continue };
                // A client that breaks off is no error of ours.
                self.shared.work(place, move |shared| drop(shared.serve(stream)));
            }
        }
    }
}

type Ask = fn(SocketAddr, &[u8], Option<&str>) -> io::Result<Vec<u8>>;

impl Shared {
    /// Returns a place for one more question of a peer, unless it may not ask, or has too many.
    fn place(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let is_user = lock(&self.users).as_ref().is_none_or(|users| users.iter().any(|prefix| prefix.contains(peer)));
        let mut waiting = lock(&self.waiting);
        let (all, own) = (waiting.values().sum::<usize>(), waiting.get(&peer).copied().unwrap_or(0));
        if !is_user || all >= MOST || own >= MOST_OF_A_PEER {
            return None;
        }
        waiting.insert(peer, own + 1);
        Some(Place { shared: Arc::clone(self), peer })
    }

    /// Runs work in a thread of its own. Without one, the client asks again.
    fn work(self: &Arc<Self>, place: Place, work: impl FnOnce(&Self) + Send + 'static) {
        let shared = Arc::clone(self);
        let _ = thread::Builder::new().name(String::from("names")).stack_size(STACK).spawn(move || {
            let _place = place;
            work(&shared);
        });
    }

    /// Serves a connection (RFC 7766): one question after the other.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_nonblocking(false)?;
        loop {
            let question = read_message(&mut client, Instant::now() + PATIENCE)?;
            let answer = self.answer(&question, ask_by_tcp).ok_or(io::ErrorKind::InvalidData)?;
            write_message(&mut client, &answer, Instant::now() + PATIENCE)?;
        }
    }

    /// Returns the answer of the host's own servers; `None` if the message is no question.
    fn answer(&self, question: &[u8], ask: Ask) -> Option<Vec<u8>> {
        let (servers, search) = host_servers();
        let search = Zones::new(search.iter().map(String::as_str));
        let is_kept = is_at_or_below(question, &search) || is_at_or_below(question, &lock(&self.kept));
        if !asks_for_records(question) || labels(question) < 2 || is_kept {
            return refused(question);
        }
        let mut asked = question.to_vec();
        OsEntropy::new().fill(asked.first_chunk_mut::<2>()?);
        let answers = servers.into_iter().take(MOST_SERVERS).filter_map(|server| ask(server, &asked, None).ok());
        let answer = answers.into_iter().next().or_else(|| failure(question))?;
        self.told(question, answer)
    }

    /// Returns what a peer is told of an answer.
    fn told(&self, question: &[u8], mut answer: Vec<u8>) -> Option<Vec<u8>> {
        if leads_to(&answer, &self.private) {
            // As a name that does not exist: a peer should not learn which names of the networks around this host do.
            return no_name(question);
        }
        answer.get_mut(..2)?.copy_from_slice(question.get(..2)?);
        Some(answer)
    }
}

/// Servers that are asked about one name, 3: as many as libc asks.
const MOST_SERVERS: usize = 3;

/// A question or connection in progress.
struct Place {
    shared: Arc<Shared>,
    peer: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = lock(&self.shared.waiting);
        match waiting.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(waiting.remove(&self.peer)),
        }
    }
}

/// Locks a value that is whole after each statement, so a panic elsewhere leaves it usable.
fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use taut_filter::ALL_PORTS;

    use super::*;

    fn rule(src: &str, dst: &str) -> Rule {
        let target = Target { prefix: dst.parse().unwrap(), ports: vec![ALL_PORTS] };
        Rule { src: vec![src.parse().unwrap()], proto: Vec::new(), dst: vec![target] }
    }

    fn filter() -> Filter {
        Filter {
            rules: vec![
                rule("100.64.0.2/32", "1.0.0.0/8"),
                rule("100.64.0.3/32", "100.64.0.1/32"),
                rule("100.64.0.4/32", "10.0.0.0/8"),
            ],
        }
    }

    #[test]
    fn fault_h8_only_peers_that_may_use_the_exit_are_answered() {
        let own = ["100.64.0.1".parse().unwrap()];
        let opened = opened(&filter(), &own);
        assert_eq!(opened.rules.len(), 4);
        let last = opened.rules.last().unwrap();
        assert_eq!((&last.src, &last.dst[0].ports), (&vec!["100.64.0.2/32".parse().unwrap()], &vec![(253, 253)]));
        let shared = Arc::new(Shared::default());
        *lock(&shared.users) = Some(users(&filter()).collect());
        let place = |last: u8| shared.place(IpAddr::from([100, 64, 0, last]));
        assert!(place(2).is_some() && place(3).is_none() && place(4).is_none() && place(9).is_none());
        let held: Vec<Place> = std::iter::from_fn(|| place(2)).collect();
        assert_eq!(held.len(), MOST_OF_A_PEER);
        drop(held);
        assert!(place(2).is_some() && lock(&shared.waiting).is_empty(), "the places are free again");
        *lock(&shared.users) = None;
        let all: Vec<Place> =
            (0..250).flat_map(|last| std::iter::from_fn(move || Some(last)).take(4)).filter_map(place).collect();
        assert_eq!(all.len(), MOST);
    }

    #[test]
    fn names_that_are_not_the_internets_are_refused() {
        let shared = Shared::default();
        *lock(&shared.kept) = kept(&[String::from("corp.example")]);
        let reverse = [
            "7.7.168.192.in-addr.arpa",
            "1.0.0.10.in-addr.arpa",
            "254.169.254.169.in-addr.arpa",
            "1.0.31.172.in-addr.arpa",
            "1.0.127.100.in-addr.arpa",
            "1.0.0.0.8.e.f.ip6.arpa",
            "1.0.0.0.d.f.ip6.arpa",
        ];
        let names = ["printer", "nas.local", "x.taut.internal", "www.corp.example", "x.onion", "nas.home.arpa"];
        for name in names.into_iter().chain(reverse) {
            let mut message = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            for label in name.split('.') {
                message.push(label.len() as u8);
                message.extend_from_slice(label.as_bytes());
            }
            message.extend([0, 0, 1, 0, 1]);
            let never: Ask = |_, _, _| panic!("asked");
            assert_eq!(shared.answer(&message, never).unwrap()[3] & 15, 5, "{name}");
        }
    }

    #[test]
    fn a_name_of_the_networks_around_looks_like_one_that_does_not_exist() {
        let shared =
            Shared { private: PRIVATE.iter().map(|text| text.parse().unwrap()).collect(), ..Shared::default() };
        let question = b"\x07\x07\x01\0\0\x01\0\0\0\0\0\0\x03nas\x04corp\x03lan\0\0\x01\0\x01";
        let answer = |address: [u8; 4]| {
            let mut answer = question.to_vec();
            (answer[2], answer[7]) = (0x81, 1);
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4]);
            answer.extend(address);
            shared.told(question, answer).unwrap()
        };
        assert_eq!(answer([192, 168, 7, 7])[3] & 15, 3, "NXDOMAIN");
        assert_eq!(answer([192, 0, 2, 7])[3] & 15, 0);
        let public = "8.8.8.8.in-addr.arpa";
        assert!(!private_reverse_zones().iter().any(|zone| public.ends_with(zone.as_str())));
    }
}
