//! The stack's network device: the socket to the lane of the daemon.

use std::collections::VecDeque;
use std::io;

use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use taut_tun::Tun;

/// Packets that wait because the socket is full, 64: the stack sends at most one packet for each socket and turn, and asks for room before.
const MOST_WAITING: usize = 64;

/// The device: reads are the loop's, which looks at each packet before the stack gets it.
pub(crate) struct Device {
    tun: Tun,
    mtu: usize,
    /// The packet that the stack takes next.
    arrived: Option<Vec<u8>>,
    waiting: VecDeque<Vec<u8>>,
}

impl Device {
    pub(crate) fn new(tun: Tun, mtu: u16) -> Self {
        Self { tun, mtu: usize::from(mtu), arrived: None, waiting: VecDeque::new() }
    }

    /// Reads a packet of the lane. `WouldBlock` if none waits, `UnexpectedEof` if the daemon has ended.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tun.read(buffer)
    }

    /// Has the stack take this packet next.
    pub(crate) fn offer(&mut self, packet: &[u8]) {
        let mut kept = self.arrived.take().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(packet);
        self.arrived = Some(kept);
    }

    /// Writes the packets that wait, as far as the socket takes them. Returns true if some still wait.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some(packet) = self.waiting.front() {
            match self.tun.write(packet) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // The end of the daemon is noticed by reading.
                _ => drop(self.waiting.pop_front()),
            }
        }
        false
    }

    pub(crate) fn tun(&self) -> &Tun {
        &self.tun
    }
}

/// A packet that arrived.
pub(crate) struct Arrived(Vec<u8>);

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

/// Room for one packet.
pub(crate) struct Room<'a> {
    tun: &'a Tun,
    waiting: &'a mut VecDeque<Vec<u8>>,
}

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let result = write(&mut packet);
        let is_full = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        if !self.waiting.is_empty() || self.tun.write(&packet).as_ref().is_err_and(is_full) {
            self.waiting.push_back(packet);
        }
        result
    }
}

impl phy::Device for Device {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, now: Instant) -> Option<(Arrived, Room<'_>)> {
        // An answer may be needed for each packet, so without room none is taken: it was only offered, and its sender sends again.
        let packet = self.arrived.take()?;
        self.transmit(now).map(|room| (Arrived(packet), room))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        (self.waiting.len() < MOST_WAITING).then_some(Room { tun: &self.tun, waiting: &mut self.waiting })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}
