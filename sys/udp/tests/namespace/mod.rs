//! A network namespace per test, and an Ethernet device in it whose far side is the test.

use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;

use taut_namespace::{add_neighbour, open_tap, set_address, set_up};

/// Runs `test` in a network namespace of its own, with its loopback interface up.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    taut_namespace::in_namespace(|| {
        set_up("lo");
        test();
    });
}

/// An Ethernet device with a host that never answers, so that datagrams to it wait in the kernel and fill the send buffer.
pub(crate) struct SilentNetwork {
    tap: File,
}

impl SilentNetwork {
    /// The host's address on the device.
    const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
    /// The address of the silent host.
    pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
    const NAME: &str = "silent";

    pub(crate) fn new() -> Self {
        let tap = open_tap(Self::NAME, 0);
        set_address(Self::NAME, Self::NEAR);
        set_up(Self::NAME);
        Self { tap }
    }

    /// Gives the kernel the silent host's hardware address, so that it sends all waiting packets.
    pub(crate) fn resolve(&self) {
        add_neighbour(Self::NAME, Self::FAR);
    }

    /// Returns the contents of the UDP datagrams that left so far, and whether each has Don't Fragment.
    pub(crate) fn datagrams(&self) -> Vec<(Vec<u8>, bool)> {
        let mut found = Vec::new();
        let mut frame = [0; 2_048];
        while let Ok(length) = (&self.tap).read(&mut frame) {
            let packet = &frame[14..length];
            // Only IPv4 packets with UDP that are no later fragments.
            if frame[12..14] == [8, 0] && packet[9] == 17 && packet[6] & 0x1f == 0 && packet[7] == 0 {
                found.push((packet[28..].to_vec(), packet[6] & 0x40 != 0));
            }
        }
        found
    }
}
