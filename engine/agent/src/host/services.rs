//! The ports on which this host offers services, as the kernel lists them in /proc/net.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};

use taut_node::ServicePorts;

/// The state of a listening socket in /proc/net/tcp (the kernel's TCP_LISTEN, include/net/tcp_states.h).
const LISTENING: &str = "0A";

/// Limit on the lines that are read of each file, 100,000: listening sockets come first.
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

fn listening_in(path: &str) -> io::Result<Vec<u16>> {
    let lines = BufReader::new(File::open(path)?).lines().take(MOST_LINES);
    Ok(lines.map_while(Result::ok).filter_map(|line| listening_port(&line)).collect())
}

/// Returns the port of a listening socket: `  0: 0100007F:1F90 00000000:0000 0A …`.
fn listening_port(line: &str) -> Option<u16> {
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let (_, port) = local.rsplit_once(':')?;
    (state == LISTENING).then(|| u16::from_str_radix(port, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = |state: &str| {
            format!("   3: 0100007F:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0")
        };
        assert_eq!(listening_port(&line("0A")), Some(8080));
        assert_eq!(listening_port(&line("01")), None);
        for other in ["", "  sl  local_address rem_address   st", "0: x 0 0A", "0: 1:zz 0 0A"] {
            assert_eq!(listening_port(other), None);
        }
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
