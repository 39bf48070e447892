//! Marks of packets (`SO_MARK`, man 7 socket), by which the host's routing rules and its kill switch know the overlay's own traffic.

/// Bits of a packet's mark that belong to this program: the highest byte. Docker and Kubernetes use 0xc000, Tailscale 0xff0000, wg-quick 0xca6c, so that their marks can live beside ours;
/// rules compare these bits alone.
pub const MARK_MASK: u32 = 0xff00_0000;

/// Mark of everything that the daemon's own sockets send outside the overlay: sealed packets, the control channel, relays, port mappings. ASCII `t`, as the routing protocol number of our routes.
/// One mark serves all networks of a host, because the packets of one network never belong into the tunnel of another.
pub const SOCKET_MARK: u32 = 0x7400_0000;

/// Mark of answers to connections that came in from outside through another interface: they leave the way they came, although an exit node is in use (fault J10). It differs from
/// [`SOCKET_MARK`] in the lowest bit of the byte, so that one rule with [`BOTH_MASK`] is about both.
pub const REPLY_MARK: u32 = 0x7500_0000;

/// Mask with which a rule is about [`SOCKET_MARK`] and [`REPLY_MARK`].
pub const BOTH_MASK: u32 = 0xfe00_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rule_is_about_both_marks_and_leaves_the_bits_of_others_alone() {
        for mark in [SOCKET_MARK, REPLY_MARK] {
            assert_eq!(mark & BOTH_MASK, SOCKET_MARK);
            assert_eq!(mark & !MARK_MASK, 0);
        }
        // Marks of Docker, Kubernetes, Tailscale and wg-quick.
        for other in [0, 0x4000, 0x8000, 0x8_0000, 0x4_0000, 0xca6c] {
            assert_ne!(other & BOTH_MASK, SOCKET_MARK);
        }
    }
}
