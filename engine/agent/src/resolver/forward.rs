//! The forwarder, for hosts whose resolver asks the same servers about every name: the network's names go to the stub, all others to the servers that the host
//! had. Messages pass unchanged except for their identifier, so signatures of DNSSEC stay whole.
//!
//! Each question has a thread of its own while it waits for its answer. They are few, bounded, and none of them moves packets.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use taut_base::{Entropy, Prefix};
use taut_dns::{Way, Zones, failure, is_at_or_below, labels, leads_to, no_data, no_name};

use super::Wanted;
use super::asked::Asked;
use super::messages::{ask_by_tcp, ask_by_udp, read_message, write_message};
use super::servers::{ADDRESS, PORT};
use crate::api::Failure;
use crate::basics::OsEntropy;

/// Questions over UDP that wait for their answers at once, 128: further ones are dropped, and libc asks again.
const MOST_WAITING: usize = 128;
/// Connections at once, 32. They are counted apart: any local user can hold them all, and must not take the places of questions over UDP with them.
const MOST_CONNECTIONS: usize = 32;
/// Servers that are asked about one name, 3: as many as libc asks.
const MOST_SERVERS: usize = 3;
/// Longest time from one answer to the next whole question of a connection, and to the end of an answer, 10 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// Stack of a thread, 64 KiB: it has one message of at most 64 KiB on the heap.
const STACK: usize = 64 * 1024;
/// Response codes after which the next server is asked: SERVFAIL and REFUSED (RFC 1035 section 4.1.1).
const NOT_ANSWERED: [u8; 2] = [2, 5];

/// A way to ask a server, through a network device or by the routes of the host.
type Ask = fn(SocketAddr, &[u8], Option<&str>) -> io::Result<Vec<u8>>;

/// The forwarder. It runs from its first use until the helper ends: a program that read the host's settings while the network was up may ask for longer.
#[derive(Clone, Default)]
pub(super) struct Forwarder(Arc<Shared>);

#[derive(Default)]
struct Shared {
    ways: Mutex<Ways>,
    waiting: Places,
    connections: Places,
    loopback: Asked,
}

/// Work that is done at once.
#[derive(Default)]
struct Places(Arc<AtomicUsize>);

impl Places {
    /// Takes a place until what is returned is dropped; `None` if there is none left.
    fn take(&self, most: usize) -> Option<Place> {
        // The place is made in any case, and gives itself back.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.0));
        (before < most).then_some(place)
    }
}

struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where questions go.
#[derive(Clone, Default)]
struct Ways {
    zones: Zones,
    stub: Vec<SocketAddr>,
    others: Vec<SocketAddr>,
    /// Prefixes that answers for public names must not have an address in, and domains whose names are not public ones.
    filtered: Vec<Prefix>,
    trusted: Zones,
    listens: bool,
}

impl Ways {
    /// Returns the prefixes that answers to a question must not have an address in: none for names that are not public ones (fault H6).
    fn filtered_for(&self, question: &[u8]) -> Vec<Prefix> {
        // A bare name is the host's own affair.
        let is_public = labels(question) > 1 && !is_at_or_below(question, &self.trusted);
        if is_public { self.filtered.clone() } else { Vec::new() }
    }
}

impl Forwarder {
    /// Forwards from now on: names of `wanted` to its stub, all others to these servers.
    pub(super) fn serve(&self, wanted: &Wanted, others: &[SocketAddr]) -> Result<(), Failure> {
        let mut ways = self.0.ways();
        if !ways.listens {
            self.listen().map_err(|error| {
                Failure::new(
                    format!("taut cannot answer the host's questions at {ADDRESS}, port {PORT}: {error}"),
                    format!("see who listens there (`ss -lnup 'sport = :{PORT}'`), and have it listen on addresses of its own"),
                )
            })?;
            ways.listens = true;
        }
        ways.zones = Zones::new(wanted.zones.iter().map(String::as_str));
        ways.stub = wanted.servers.iter().map(|server| SocketAddr::new(*server, PORT)).collect();
        // While an exit node is asked, no server of the host is.
        ways.others = if wanted.all { ways.stub.clone() } else { others.to_vec() };
        ways.filtered.clone_from(&wanted.filtered);
        ways.trusted = Zones::new(wanted.trusted.iter().map(String::as_str));
        Ok(())
    }

    fn listen(&self) -> io::Result<()> {
        let datagrams = Arc::new(UdpSocket::bind((ADDRESS, PORT))?);
        let connections = TcpListener::bind((ADDRESS, PORT))?;
        let shared = Arc::clone(&self.0);
        spawn(move || {
            let mut buffer = vec![0; usize::from(u16::MAX)];
            loop {
                let Ok((length, client)) = datagrams.recv_from(&mut buffer) else { continue };
                let question = buffer.get(..length).unwrap_or_default().to_vec();
                let socket = Arc::clone(&datagrams);
                let Some(place) = shared.waiting.take(MOST_WAITING) else { continue };
                shared.work(place, move |shared| {
                    if let Some(answer) = shared.answer(&question, ask_by_udp) {
                        let _ = socket.send_to(&answer, client);
                    }
                });
            }
        })?;
        let shared = Arc::clone(&self.0);
        spawn(move || {
            for client in connections.incoming().flatten() {
                let Some(place) = shared.connections.take(MOST_CONNECTIONS) else { continue };
                // A client that breaks off is no error of ours.
                shared.work(place, move |shared| drop(shared.serve(client)));
            }
        })
    }
}

impl Shared {
    fn ways(&self) -> std::sync::MutexGuard<'_, Ways> {
        // The table is whole after each statement, so a panic elsewhere leaves it usable.
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work in a thread of its own. Without one, the client asks again.
    fn work(self: &Arc<Self>, place: Place, work: impl FnOnce(&Self) + Send + 'static) {
        let shared = Arc::clone(self);
        let _ = spawn(move || {
            let _place = place;
            work(&shared);
        });
    }

    /// Serves a connection (RFC 7766): one question after the other.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        loop {
            let question = read_message(&mut client, Instant::now() + PATIENCE)?;
            let answer = self.answer(&question, ask_by_tcp).ok_or(io::ErrorKind::InvalidData)?;
            write_message(&mut client, &answer, Instant::now() + PATIENCE)?;
        }
    }

    /// Returns the answer to a question; `None` if it is no question. Of several servers the first that answers is believed.
    fn answer(&self, question: &[u8], ask: Ask) -> Option<Vec<u8>> {
        let (servers, filtered) = {
            let ways = self.ways();
            match ways.zones.way(question)? {
                Way::Network => (ways.stub.clone(), Vec::new()),
                Way::Elsewhere => (ways.others.clone(), ways.filtered_for(question)),
                Way::Nowhere => return no_name(question),
            }
        };
        // Drawn anew: a host's programs may draw predictable ones, and an answer is recognised by it (RFC 5452).
        let mut asked = question.to_vec();
        OsEntropy::new().fill(asked.first_chunk_mut::<2>()?);
        let mut last = None;
        for server in servers.into_iter().take(MOST_SERVERS) {
            let turn = if server.ip().is_loopback() { self.loopback.begin(question).map(Some) } else { Some(None) };
            let Some(_turn) = turn else { continue };
            let Ok(answer) = ask(server, &asked, None) else { continue };
            let code = answer.get(3).copied().unwrap_or_default() & 15;
            last = Some(answer);
            if !NOT_ANSWERED.contains(&code) {
                break;
            }
        }
        if last.as_ref().is_some_and(|answer| !filtered.is_empty() && leads_to(answer, &filtered)) {
            return no_data(question);
        }
        let mut answer = last.or_else(|| failure(question))?;
        answer.get_mut(..2)?.copy_from_slice(question.get(..2)?);
        Some(answer)
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().stack_size(STACK).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// A question for `name`, type A.
    fn question(name: &str) -> Vec<u8> {
        let mut message = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            message.push(u8::try_from(label.len()).unwrap());
            message.extend_from_slice(label.as_bytes());
        }
        message.extend([0, 0, 1, 0, 1]);
        message
    }

    /// Answers the first question it gets with this response code; returns its address.
    fn server(code: u8) -> SocketAddr {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 512];
            let (length, client) = socket.recv_from(&mut buffer).unwrap();
            assert_ne!(buffer[..2], [7, 7], "the identifier is drawn again");
            // Not for this question.
            socket.send_to(&buffer[..length], client).unwrap();
            (buffer[2], buffer[3]) = (0x81, code);
            socket.send_to(&buffer[..length], client).unwrap();
        });
        address
    }

    fn shared(stub: &[SocketAddr], others: &[SocketAddr]) -> Shared {
        let ways = Ways {
            zones: Zones::new(["taut.internal"]),
            stub: stub.to_vec(),
            others: others.to_vec(),
            listens: true,
            ..Ways::default()
        };
        Shared { ways: Mutex::new(ways), ..Shared::default() }
    }

    #[test]
    fn fault_h4_a_name_of_the_network_is_asked_at_the_stub_and_nowhere_else() {
        let code = |shared: &Shared, name| {
            let answer = shared.answer(&question(name), ask_by_udp).unwrap();
            assert_eq!(answer[..2], [7, 7], "the client's identifier is in the answer");
            answer[3] & 15
        };
        assert_eq!(code(&shared(&[server(3)], &[server(0)]), "nas.home.taut.internal"), 3);
        assert_eq!(code(&shared(&[], &[server(0)]), "nas.home.taut.internal"), 2, "SERVFAIL without the stub");
        assert_eq!(code(&shared(&[server(3)], &[server(0)]), "example.com"), 0);
        assert_eq!(code(&shared(&[], &[server(0)]), "nas.home.taut.internal.lan.example"), 3);
        assert_eq!(shared(&[], &[]).answer(&[0; 5], ask_by_udp), None);
    }

    #[test]
    fn fault_h6_a_public_name_leads_to_no_address_of_the_overlay() {
        let lead = |name: &str, filtered: &[&str], trusted: &[&str]| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let shared = shared(&[], &[socket.local_addr().unwrap()]);
            let ways = || shared.ways();
            ways().filtered = filtered.iter().map(|prefix| prefix.parse().unwrap()).collect();
            ways().trusted = Zones::new(trusted.iter().copied());
            let server = thread::spawn(move || {
                let mut buffer = [0; 512];
                let (length, client) = socket.recv_from(&mut buffer).unwrap();
                (buffer[2], buffer[7]) = (0x81, 1);
                let answer = [&buffer[..length], &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 100, 64, 0, 2]].concat();
                socket.send_to(&answer, client).unwrap();
            });
            let answer = shared.answer(&question(name), ask_by_udp).unwrap();
            server.join().unwrap();
            assert_eq!((&answer[..2], answer[3] & 15), (&[7, 7][..], 0));
            answer[7]
        };
        assert_eq!(lead("evil.example", &["100.64.0.0/10"], &["lan"]), 0, "no record");
        assert_eq!(lead("evil.example", &[], &[]), 1, "off");
        assert_eq!(lead("evil.example", &["10.0.0.0/8"], &[]), 1);
        assert_eq!(lead("nas.lan", &["100.64.0.0/10"], &["lan"]), 1, "not a public name");
        assert_eq!(lead("nas", &["100.64.0.0/10"], &[]), 1);
    }

    #[test]
    fn fault_h5_a_server_that_fails_or_is_dead_is_followed_by_the_next() {
        let dead = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let shared = shared(&[], &[dead, server(2), server(3)]);
        assert_eq!(shared.answer(&question("example.com"), ask_by_udp).unwrap()[3] & 15, 3);
    }

    #[test]
    fn fault_h5_connections_take_no_places_of_questions_over_udp() {
        let shared = Shared::default();
        let held: Vec<Place> = std::iter::from_fn(|| shared.connections.take(MOST_CONNECTIONS)).collect();
        assert_eq!(held.len(), MOST_CONNECTIONS);
        assert!(shared.waiting.take(MOST_WAITING).is_some());
        drop(held);
        assert!(shared.connections.take(MOST_CONNECTIONS).is_some(), "the places are free again");
    }

    #[test]
    fn a_server_of_the_host_that_asks_back_is_left_out_after_a_few_turns() {
        let shared = Shared::default();
        let local = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        local.set_nonblocking(true).unwrap();
        shared.ways().others = vec![local.local_addr().unwrap()];
        // As many wait for it as a loop may have.
        let held: Vec<_> = std::iter::from_fn(|| shared.loopback.begin(&question("example.com"))).collect();
        assert_eq!(shared.answer(&question("example.com"), ask_by_udp).unwrap()[3] & 15, 2, "SERVFAIL at once");
        assert!(local.recv(&mut [0; 512]).is_err(), "it was not asked");
        drop(held);
    }
}
