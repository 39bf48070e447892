//! The ports on which this host offers services, as the kernel lists them in /proc/net.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};

use taut_node::ServicePorts;

/// The states of a listening socket and of a connection that is being accepted in /proc/net/tcp (TCP_LISTEN and TCP_SYN_RECV, include/net/tcp_states.h).
const LISTENING: &str = "0A";
const ACCEPTING: &str = "03";

/// The state of a socket without a peer in /proc/net/udp (TCP_CLOSE).
const UNCONNECTED: &str = "07";

/// Limit on the lines that are read of each file, 100,000.
const MOST_LINES: usize = 100_000;

/// Returns the ports of TCP on which the host listens, in the daemon's network namespace, and its first ephemeral port. Without /proc the numbers of the ports decide.
pub(crate) fn service_ports() -> ServicePorts {
    let listening = || -> io::Result<Vec<u16>> {
        let mut ports = listening_in("/proc/net/tcp")?;
        // A host without IPv6 has no such file.
        ports.extend(listening_in("/proc/net/tcp6").unwrap_or_default());
        Ok(ports)
    };
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let ephemeral = range.split_whitespace().next().and_then(|first| first.parse().ok());
    match (listening(), ephemeral) {
        (Ok(ports), Some(ephemeral)) => ServicePorts::new(ports, ephemeral),
        _ => ServicePorts::default(),
    }
}

/// Returns the ports at which a socket of this host accepts packets from any sender: listening TCP sockets and unconnected UDP sockets.
pub(super) fn open_ports() -> Vec<u16> {
    let mut ports = listening_ports_now();
    for path in ["/proc/net/udp", "/proc/net/udp6"] {
        let Ok(file) = File::open(path) else { continue };
        let lines = BufReader::new(file).lines().map_while(Result::ok).skip(1).take(MOST_LINES);
        ports.extend(
            lines.filter_map(|line| {
                port_and_state(&line).filter(|(_, state)| *state == UNCONNECTED).map(|(port, _)| port)
            }),
        );
    }
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Returns the ports of TCP on which the host listens.
pub(super) fn listening_ports_now() -> Vec<u16> {
    let files = ["/proc/net/tcp", "/proc/net/tcp6"];
    let mut ports: Vec<u16> = files.iter().flat_map(|path| listening_in(path).unwrap_or_default()).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn listening_in(path: &str) -> io::Result<Vec<u16>> {
    Ok(listening_ports(BufReader::new(File::open(path)?).lines().map_while(Result::ok)))
}

/// Returns the ports of the listening sockets in a file of the kernel, whose first line has headings: `  0: 0100007F:1F90 00000000:0000 0A …`.
///
/// The kernel lists all listening sockets before it goes through the table of connections (tcp_get_idx and tcp_seq_next in net/ipv4/tcp_ipv4.c), so reading ends at the first
/// connection: a busy host has many. Before Linux 4.4 a connection that is being accepted follows its listening socket.
fn listening_ports(lines: impl Iterator<Item = String>) -> Vec<u16> {
    let sockets = lines.skip(1).take(MOST_LINES).map_while(|line| {
        let (port, state) = port_and_state(&line)?;
        (state == LISTENING || state == ACCEPTING).then_some((state == LISTENING).then_some(port))
    });
    sockets.flatten().collect()
}

/// Returns the local port and the state of a socket.
fn port_and_state(line: &str) -> Option<(u16, &str)> {
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let (_, port) = local.rsplit_once(':')?;
    Some((u16::from_str_radix(port, 16).ok()?, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = |port: u16, state: &str| {
            format!("   3: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0")
        };
        assert_eq!(port_and_state(&line(8080, "0A")), Some((8080, "0A")));
        for other in ["", "  sl  local_address rem_address   st", "0: x 0 0A", "0: 1:zz 0 0A"] {
            assert_eq!(port_and_state(other), None);
        }
        let sockets = |sockets: &[(u16, &str)]| {
            let heading = String::from("  sl  local_address rem_address   st tx_queue");
            let lines = sockets.iter().map(|(port, state)| line(*port, state));
            listening_ports([heading].into_iter().chain(lines))
        };
        assert_eq!(sockets(&[(22, "0A"), (22, "03"), (80, "0A"), (22, "01"), (443, "0A")]), [22, 80]);
        assert!(sockets(&[]).is_empty());
    }

    #[test]
    fn reading_ends_at_the_first_connection() {
        let lines = ["heading", "0: 0:0016 0:0 0A", "1: 0:0016 0:1 01"].map(String::from).into_iter();
        let rest = std::iter::from_fn(|| panic!("a line after the first connection was read"));
        assert_eq!(listening_ports(lines.chain(rest)), [22]);
    }

    #[test]
    fn a_listening_socket_of_this_host_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listening_in("/proc/net/tcp").unwrap().contains(&port));
        drop(listener);
        assert!(!listening_in("/proc/net/tcp").unwrap().contains(&port));
    }
}
