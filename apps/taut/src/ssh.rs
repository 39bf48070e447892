//! The address from which the user of this command is logged in by ssh: the kill switch must not end that session unasked (fault J10).

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use crate::fault::Fault;

/// The variable that sshd sets: the client's address and port, and the server's.
const VARIABLE: &str = "SSH_CONNECTION";

/// Most parents whose environment is looked at, 16: a shell, sudo, and some more.
const MOST_PARENTS: usize = 16;

/// Returns the client's address of the ssh session in which this command runs; `None` without one. sudo and su remove the variable, so the environments of the parents are read, too.
pub(crate) fn client() -> Option<IpAddr> {
    if let Ok(text) = std::env::var(VARIABLE) {
        return address(&text);
    }
    let mut process = std::process::id();
    for _ in 0..MOST_PARENTS {
        process = parent(Path::new("/proc"), process).filter(|parent| *parent > 1)?;
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if let Some(text) = variable(&environment) {
            return address(&text);
        }
    }
    None
}

/// Returns the failure for `taut up`, which has no daemon yet that knows the local networks.
pub(crate) fn refusal(client: IpAddr) -> Fault {
    Fault::failed(
        format!("the kill switch would cut off {client}, from where you are logged in by ssh"),
        "add --exit-node-allow-lan-access if that address is in this host's local network, log in over the overlay, or repeat the command with --cut-ssh",
    )
}

fn address(text: &str) -> Option<IpAddr> {
    // A link-local address has its interface behind it.
    let client = text.split_whitespace().next()?;
    client.split('%').next()?.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn variable(environment: &[u8]) -> Option<String> {
    let entries = environment.split(|byte| *byte == 0);
    let mut found =
        entries.filter_map(|entry| std::str::from_utf8(entry).ok()?.strip_prefix(VARIABLE)?.strip_prefix('='));
    found.next().map(String::from)
}

/// Returns the parent of a process: the fourth field of its `stat`, behind a name that may contain anything.
fn parent(proc: &Path, process: u32) -> Option<u32> {
    let stat = fs::read_to_string(proc.join(process.to_string()).join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_address_is_found() {
        assert_eq!(address("192.168.1.5 50000 192.168.1.7 22"), "192.168.1.5".parse().ok());
        assert_eq!(address("fe80::1%eth0 50000 fe80::2 22"), "fe80::1".parse().ok());
        assert_eq!(address("::ffff:192.168.1.5 1 2 3"), "192.168.1.5".parse().ok());
        assert_eq!(address(""), None);
        assert_eq!(
            variable(b"A=1\0SSH_CONNECTION=10.0.0.1 1 10.0.0.2 22\0B=2\0").as_deref(),
            Some("10.0.0.1 1 10.0.0.2 22")
        );
        assert_eq!(variable(b"XSSH_CONNECTION=1\0"), None);
        assert!(parent(Path::new("/proc"), std::process::id()).is_some());
    }
}
