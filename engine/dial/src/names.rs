//! The addresses behind the name of a coordinator or a relay, also where the host cannot resolve names.
//!
//! ```text
//! the host's resolver ─ no answer ─▶ its servers, asked from a marked socket ─ no answer ─▶ the addresses of the last connection
//! ```
//! While an exit node is in use, or the kill switch is in force, the host's own questions go into the overlay, which may need this very name to come up (fault H7). A wrong address gains
//! nothing: what is sent there is sealed for a pinned key (fault J4). The addresses of the last connection are tried behind those of a name in any case.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use taut_base::{Entropy, SOCKET_MARK};
use taut_dns::{addresses, question};

use crate::broken::Broken;
use crate::random::Jitter;

/// Maximum number of addresses of a name that are tried. Names like `localhost` have two, large sites about five.
pub const MAX_ADDRESSES: usize = 8;

/// Longest wait for the answers of one server, 1.5 s: with three servers less than libc's patience of 5 s.
const ONE_SERVER: Duration = Duration::from_millis(1_500);

/// Most servers that are asked, three, as libc does (man 5 resolv.conf).
const MOST_SERVERS: usize = 3;

/// Longest answer over UDP, in bytes, more than any server sends to a question without EDNS.
const ANSWER: usize = 4_096;

/// The files with the host's servers: what systemd-resolved asks, what was there before taut changed it, and what libc reads.
const FILES: [&str; 3] = ["/run/systemd/resolve/resolv.conf", "/etc/resolv.conf.before-taut", "/etc/resolv.conf"];

/// Returns the addresses of a host, with this port, best first. `known` are those of the last connection.
///
/// # Errors
/// If there is none.
pub fn resolve(host: &str, port: u16, known: &[IpAddr]) -> Result<Vec<SocketAddr>, Broken> {
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        // A literal address has no others.
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let by_host = LOOK_UP.get().map_or_else(|| look_up(host, port), |look_up| look_up(host, port));
    let mut found = by_host.as_ref().map_or_else(|_| Vec::new(), Clone::clone);
    for address in known.iter().map(|address| SocketAddr::new(*address, port)) {
        if found.len() < 2 * MAX_ADDRESSES && !found.contains(&address) {
            found.push(address);
        }
    }
    match (found.is_empty(), by_host) {
        (false, _) => Ok(found),
        (true, Err(error)) => Err(Broken(format!("its name cannot be resolved: {error}"))),
        (true, Ok(_)) => Err(Broken(String::from("its name has no address"))),
    }
}

/// A function that returns the addresses of a host, with this port, or the reason why there are none.
pub type LookUp = fn(&str, u16) -> Result<Vec<SocketAddr>, String>;

/// How this process looks names up, if not by [`look_up`]. It holds for all threads, as a sandbox does.
static LOOK_UP: OnceLock<LookUp> = OnceLock::new();

/// Has this process look names up by `other`, for a process that may not read the host's settings itself. The first call decides.
pub fn look_up_by(other: LookUp) {
    let _ = LOOK_UP.set(other);
}

/// Asks the host's resolver, then its servers, for the addresses of a host: [`MAX_ADDRESSES`] at most.
///
/// # Errors
/// The resolver's reason, if no address was found.
pub fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let by_host = (host, port).to_socket_addrs().map(Vec::from_iter);
    let mut found = match by_host {
        Ok(found) if !found.is_empty() => found,
        other => {
            let found = ask_servers(host).into_iter().map(|address| SocketAddr::new(address, port)).collect();
            match other {
                Err(error) if Vec::is_empty(&found) => return Err(error.to_string()),
                _ => found,
            }
        }
    };
    found.truncate(MAX_ADDRESSES);
    Ok(found)
}

/// Asks the host's servers, one after the other, until one knows an address.
fn ask_servers(host: &str) -> Vec<IpAddr> {
    let texts = FILES.iter().filter_map(|path| fs::read_to_string(path).ok());
    let mut servers: Vec<SocketAddr> = Vec::new();
    for server in texts.flat_map(|text| servers_in(&text)) {
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    let mut answers = servers.into_iter().take(MOST_SERVERS).map(|server| ask(server, host).unwrap_or_default());
    answers.find(|found| !found.is_empty()).unwrap_or_default()
}

/// Returns the servers in a text like that of `/etc/resolv.conf`. Servers of this host itself ask others, and those questions are not marked.
fn servers_in(text: &str) -> Vec<SocketAddr> {
    let named = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver").and_then(|_| words.next())
    });
    let addresses = named.filter_map(|text| text.parse::<IpAddr>().ok()).filter(|address| !address.is_loopback());
    addresses.map(|address| SocketAddr::new(address, 53)).collect()
}

/// Asks one server for the IPv4 and the IPv6 addresses of a name.
fn ask(server: SocketAddr, host: &str) -> io::Result<Vec<IpAddr>> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // The kernel draws the port, and takes datagrams of this server only.
    let socket = UdpSocket::bind((any, 0))?;
    let _ = taut_event::set_mark(&socket, SOCKET_MARK);
    socket.connect(server)?;
    let mut questions: Vec<Vec<u8>> = [true, false].iter().filter_map(|ipv4| question(host, *ipv4, id())).collect();
    for question in &questions {
        socket.send(question)?;
    }
    let deadline = Instant::now() + ONE_SERVER;
    let (mut found, mut buffer) = (Vec::new(), [0; ANSWER]);
    while !questions.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        socket.set_read_timeout(Some(left))?;
        let Ok(length) = socket.recv(&mut buffer) else { break };
        let answer = buffer.get(..length).unwrap_or_default();
        questions.retain(|question| match taut_dns::is_answer(question, answer) {
            true => {
                found.extend(addresses(question, answer));
                false
            }
            false => true,
        });
    }
    Ok(found)
}

fn id() -> u16 {
    let mut bytes = [0; 2];
    Jitter::new().fill(&mut bytes);
    u16::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_resolved_has_the_addresses_of_the_last_connection() {
        let known: Vec<IpAddr> = ["192.0.2.7", "2001:db8::7"].iter().map(|text| text.parse().unwrap()).collect();
        // No such name exists (RFC 6761, section 6.4).
        let found = resolve("coordinator.invalid", 8288, &known).unwrap();
        assert_eq!(found, ["192.0.2.7:8288", "[2001:db8::7]:8288"].map(|text| text.parse().unwrap()));
        assert!(resolve("coordinator.invalid", 8288, &[]).is_err());
        assert_eq!(
            resolve("192.0.2.9", 1, &known).unwrap(),
            ["192.0.2.9:1".parse().unwrap()],
            "an address has no others"
        );
    }

    #[test]
    fn servers_of_this_host_are_left_out() {
        let text = "nameserver 127.0.0.53\n nameserver 192.0.2.1 # main\nsearch lan\nnameserver ::1\nnameserver 2001:db8::1\nnameserver x";
        assert_eq!(servers_in(text), ["192.0.2.1:53", "[2001:db8::1]:53"].map(|text| text.parse().unwrap()));
    }
}
