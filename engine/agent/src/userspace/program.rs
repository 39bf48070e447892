//! The daemon's end of `taut-userspace`.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use taut_node::ServicePorts;
use taut_proxy::{EPHEMERAL, MAX_LINE, Publish, Report, Setup};
use taut_tun::{Offload, Tun};

use super::UserspaceNetwork;
use crate::api::Failure;
use crate::config::{DaemonConfig, USERSPACE};
use crate::outside;

/// Most reads of reports in one turn, of 4 KiB each.
const READS: usize = 16;

/// The program, seen from the daemon.
pub(crate) struct Userspace {
    stream: UnixStream,
    unread: Vec<u8>,
    /// What it was told last.
    setup: Setup,
    /// What it said last.
    report: Report,
}

impl Userspace {
    /// Starts the program. Returns it with the device that leads to it.
    pub(crate) fn start(config: &DaemonConfig) -> Result<(Tun, Self), Failure> {
        let wrong = |error: std::io::Error| {
            let missing = error.kind() == ErrorKind::NotFound;
            let hint = match missing {
                true => {
                    "install the package taut-userspace, or put the program beside `taut` or into PATH, and run `taut up` again (a daemon that keeps running tries again by itself)"
                }
                false => "taut tries again automatically; see the daemon's standard error",
            };
            Failure::new(format!("the program `{}` cannot be started: {error}", outside::USERSPACE_PROGRAM), hint)
        };
        let none = || std::io::Error::other("the daemon does not know its own program");
        let program = config.program.as_deref().ok_or_else(none).map_err(wrong)?;
        let (device, stream) = outside::start_userspace(program).map_err(wrong)?;
        let tun = Tun::from_packet_socket(device, USERSPACE, Offload::PACKET_SOCKET).map_err(wrong)?;
        stream.set_nonblocking(true).map_err(wrong)?;
        let setup = Setup {
            socks5: config.socks5,
            http: config.http_proxy,
            forwards: config.forwards.clone(),
            publish: config.publish.clone(),
            ..Setup::default()
        };
        Ok((tun, Self { stream, unread: Vec::new(), setup, report: Report::default() }))
    }

    /// Tells the program what it has to know, if that changed.
    pub(crate) fn tell(&mut self, network: UserspaceNetwork) {
        let UserspaceNetwork { addresses, mtu, reachable, name_servers, zone } = network;
        let setup = Setup { addresses, mtu, reachable, name_servers, zone, ..self.setup.clone() };
        if setup == self.setup {
            return;
        }
        let mut line = taut_json::to_vec(&setup).unwrap_or_default();
        line.push(b'\n');
        // After a part of a line the program would understand none. Closed, it ends, and another one is started.
        if line.len() > MAX_LINE || (&self.stream).write_all(&line).is_err() {
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
        self.setup = setup;
    }

    /// Reads the reports of the program, for a while: one that never pauses must not keep the daemon from its work. Returns false if there will be no more.
    pub(crate) fn read(&mut self) -> bool {
        let mut chunk = [0; 4_096];
        for _ in 0..READS {
            let count = match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => count,
                Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
            };
            self.unread.extend_from_slice(&chunk[..count]);
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                if let Ok(report) = taut_json::from_slice(&line) {
                    self.report = report;
                }
            }
            if self.unread.len() > MAX_LINE {
                return false;
            }
        }
        true
    }

    /// Returns the state of the program.
    pub(crate) fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the ports of this node's addresses that lead to programs: flows from there are answers.
    pub(crate) fn service_ports(&self) -> ServicePorts {
        ServicePorts::new(self.setup.publish.iter().map(|publish| publish.port), *EPHEMERAL.start())
    }

    /// Returns warnings about the services.
    pub(crate) fn warnings(&self) -> Vec<Failure> {
        let open = [self.setup.socks5, self.setup.http].into_iter().flatten();
        let open = open.chain(self.setup.forwards.iter().map(|forward| forward.listen));
        let open: Vec<SocketAddr> = open.filter(|at| !at.ip().is_loopback()).collect();
        let open = (!open.is_empty()).then(|| {
            let message = format!(
                "{} can be reached from outside of this host, and whoever connects there reaches the overlay as this node",
                listed(&open)
            );
            Failure::new(message, "listen on 127.0.0.1, or have a firewall or the container's network let in whom you mean")
        });
        let broken = self.report.services.iter().filter_map(|service| {
            let problem = service.problem.as_ref()?;
            let message = format!("a service of the userspace network does not work: {problem}");
            Some(Failure::new(message, "free the address or choose another one; then `taut down` and `taut up`"))
        });
        let over = (self.report.over_limit > 0).then(|| {
            let count = self.report.over_limit;
            Failure::new(
                format!(
                    "the userspace network refused {count} connections since its start, because too many were open"
                ),
                "programs of this host may have 256 connections, and peers 256, one address of a peer 64; `taut status` shows how many are open",
            )
        });
        open.into_iter().chain(broken).chain(over).collect()
    }
}

impl AsFd for Userspace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Returns the reason why these settings cannot be together: what needs the host's network stack is not possible without a device in it, and services need the program.
pub fn conflict(config: &DaemonConfig) -> Option<Failure> {
    let routes = &config.routes;
    let kernel = [
        ("exit-node", routes.exit_node.is_on()),
        ("kill-switch", routes.kill_switch),
        ("advertise-exit-node", routes.advertise_exit_node),
        ("advertise-routes", !routes.advertise.is_empty()),
    ];
    let own = [
        ("socks5", config.socks5.is_some()),
        ("http-proxy", config.http_proxy.is_some()),
        ("forward", !config.forwards.is_empty()),
        ("publish", !config.publish.is_empty()),
    ];
    let is_userspace = config.is_userspace();
    if let Some(publish) = is_userspace.then(|| published_proxy(config)).flatten() {
        let what =
            format!("`publish` would open {} to every peer: it is a proxy or forward of this node", publish.target);
        return Some(Failure::new(
            what,
            "publish the port of a program that is meant for peers, or choose another port for the proxy",
        ));
    }
    let (name, _) = if is_userspace { &kernel[..] } else { &own[..] }.iter().find(|(_, on)| *on)?;
    Some(match is_userspace {
        true => Failure::new(
            format!("`{name}` needs a TUN device, and this node has a userspace network (`tun = userspace`)"),
            format!("take `{name}` away, or run the daemon with a TUN device"),
        ),
        false => Failure::new(
            format!("`{name}` is a service of the userspace network, and this node has a TUN device"),
            format!("take `{name}` away: programs of this host reach the overlay directly; or set `tun = userspace`"),
        ),
    })
}

/// Returns a published port that leads to a proxy or forward of this node: peers would use the overlay as this node.
fn published_proxy(config: &DaemonConfig) -> Option<&Publish> {
    let own = [config.socks5, config.http_proxy].into_iter().flatten();
    let own: Vec<SocketAddr> = own.chain(config.forwards.iter().map(|forward| forward.listen)).collect();
    let is_own = |target: &SocketAddr| {
        own.iter().any(|at| {
            at.port() == target.port()
                && (at.ip() == target.ip() || at.ip().is_unspecified() || target.ip().is_unspecified())
        })
    };
    config.publish.iter().find(|publish| is_own(&publish.target))
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().fold(String::new(), |mut text, address| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{address}", if text.is_empty() { "" } else { ", " });
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(tun: &str, change: impl FnOnce(&mut DaemonConfig)) -> DaemonConfig {
        let mut config = DaemonConfig { tun_name: String::from(tun), ..DaemonConfig::default() };
        change(&mut config);
        config
    }

    #[test]
    fn what_needs_the_kernel_is_refused_without_a_device_and_services_with_one() {
        let named = |config: &DaemonConfig| conflict(config).map(|failure| failure.message);
        assert_eq!(named(&config(USERSPACE, |_| {})), None);
        assert_eq!(named(&config("taut0", |config| config.routes.kill_switch = true)), None);
        let kill = named(&config(USERSPACE, |config| config.routes.kill_switch = true)).unwrap();
        assert!(kill.starts_with("`kill-switch` needs a TUN device"), "{kill}");
        let exit = named(&config(USERSPACE, |config| config.routes.exit_node = crate::ExitChoice::Auto)).unwrap();
        assert!(exit.starts_with("`exit-node` needs a TUN device"), "{exit}");
        let proxy = |config: &mut DaemonConfig| config.socks5 = Some(SocketAddr::from(([127, 0, 0, 1], 1080)));
        assert_eq!(named(&config(USERSPACE, proxy)), None);
        let proxy = named(&config("taut0", proxy)).unwrap();
        assert!(proxy.starts_with("`socks5` is a service of the userspace network"), "{proxy}");
    }

    #[test]
    fn fault_p5_a_program_that_writes_without_a_pause_is_read_for_a_while_only() {
        let (stream, mut program) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        program.set_nonblocking(true).unwrap();
        let (setup, report) = (Setup::default(), Report::default());
        let mut userspace = Userspace { stream, unread: Vec::new(), setup, report };
        assert!(userspace.read(), "nothing to read yet");
        let mut write = || while program.write(&[b'x'; 4_096]).is_ok() {};
        write();
        assert!(userspace.read());
        assert!((1..=READS * 4_096).contains(&userspace.unread.len()), "{}", userspace.unread.len());
        // A line that never ends is no report: the program is given up.
        let turns = (0..MAX_LINE).take_while(|_| {
            write();
            userspace.read()
        });
        assert!(turns.count() < MAX_LINE);
        drop(program);
        userspace.unread.clear();
        assert!(
            (0..MAX_LINE).any(|_| {
                userspace.unread.clear();
                !userspace.read()
            }),
            "its end is noticed"
        );
    }

    #[test]
    fn no_port_for_peers_leads_to_a_proxy_of_this_node() {
        let publishing = |proxy: &str, target: &str| {
            let (proxy, target) = (proxy.parse().unwrap(), target.parse().unwrap());
            conflict(&config(USERSPACE, |config| {
                config.http_proxy = Some(proxy);
                config.publish = vec![Publish { port: 80, target }];
            }))
        };
        assert_eq!(publishing("127.0.0.1:3128", "127.0.0.1:8080"), None);
        for (proxy, target) in [("127.0.0.1:8080", "127.0.0.1:8080"), ("0.0.0.0:8080", "127.0.0.1:8080")] {
            let message = publishing(proxy, target).unwrap().message;
            assert!(message.contains("every peer"), "{message}");
        }
    }
}
