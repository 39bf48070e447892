//! The row about what the kernel does not do for the node in one step: only on a host where something is missing, by its kernel's age or by a switch.

use taut_agent::api::{TunStatus, UdpStatus};

/// The offloads of the device, as the local API names them, and in words.
const DEVICE: [(&str, &str); 3] =
    [("checksum", "checksums"), ("tso", "TCP offload of the device"), ("uso", "UDP offload of the device (Linux 6.2)")];
/// The offloads of the socket.
const SOCKET: [(&str, &str); 2] = [("gso", "UDP segmentation (Linux 4.18)"), ("gro", "UDP merging (Linux 5.0)")];

/// Returns the row, unless every offload is in force.
pub(super) fn row(tun: Option<&TunStatus>, udp: Option<&UdpStatus>) -> Option<Vec<String>> {
    let missing = |known: &[(&str, &'static str)], granted: &[String]| -> Vec<&'static str> {
        known.iter().filter(|(name, _)| !granted.iter().any(|one| one == name)).map(|(_, words)| *words).collect()
    };
    // A userspace network has no device.
    let tun = tun.filter(|tun| tun.name != "userspace");
    let mut lacks = tun.map(|tun| missing(&DEVICE, &tun.offload)).unwrap_or_default();
    lacks.extend(udp.map(|udp| missing(&SOCKET, &udp.offload)).unwrap_or_default());
    (!lacks.is_empty()).then(|| vec![String::from("offloads"), format!("without {}", lacks.join(", "))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().copied().map(String::from).collect()
    }

    fn row_with(device: &[&str], socket: &[&str]) -> Option<String> {
        let tun = TunStatus { name: String::new(), mtu: 1420, mtu_by: None, ipv6: true, offload: named(device) };
        let udp = UdpStatus { offload: named(socket), send_buffer: 0, receive_buffer: 0 };
        row(Some(&tun), Some(&udp)).map(|cells| cells[1].clone())
    }

    #[test]
    fn only_what_is_missing_is_shown() {
        assert_eq!(row_with(&["vnet-header", "checksum", "tso", "uso"], &["gso", "gro"]), None);
        let older = row_with(&["vnet-header", "checksum", "tso"], &["gso"]).unwrap();
        assert_eq!(older, "without UDP offload of the device (Linux 6.2), UDP merging (Linux 5.0)");
        let none = TunStatus { name: String::from("userspace"), mtu: 1420, mtu_by: None, ipv6: true, offload: vec![] };
        assert_eq!(row(Some(&none), None), None);
        assert_eq!(row(None, None), None, "a node that is down has neither");
    }
}
