//! The loop between the TUN and the socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use taut_event::{Events, Interest, Poller};
use taut_tun::{HEADER_LEN, Offload, Tun};
use taut_udp::{ReceiveBatch, Transmit, UdpSocket};

use crate::arguments::FloorArguments;
use crate::cipher::FloorCipher;
use crate::inbound::Inbound;
use crate::outbound::Outbound;

/// Bytes of each socket buffer, 8 MiB: 8 ms at 8 Gbit/s, so that no datagram is lost while the other end has the core.
const BUFFER: usize = 8 << 20;
/// Packets or runs that one direction takes before the other direction's turn, 64.
const TURN: usize = 64;
/// Runs per receive call, 1. Eight runs cost the same within the precision of a measurement, and eight times the memory.
const RUNS: usize = 1;
/// Bytes of the longest packet with its virtio header.
const READ: usize = HEADER_LEN + 0xffff;

/// TUN, socket, and the state of both directions.
pub(crate) struct Pump<'a> {
    tun: Tun,
    udp: UdpSocket,
    poller: Poller,
    peer: SocketAddr,
    cipher: &'a FloorCipher,
    batch: ReceiveBatch,
    read: Box<[u8]>,
    outbound: Outbound,
}

impl<'a> Pump<'a> {
    /// Makes the TUN and opens the socket.
    pub(crate) fn new(arguments: &'a FloorArguments) -> Result<Self, Box<dyn std::error::Error>> {
        let config = taut_tun::TunConfig { name: arguments.tun.clone(), offload: Offload::ALL, multi_queue: false };
        let tun = Tun::create(&config)?;
        if !tun.offload().tso {
            return Err("the kernel gives this TUN no superpackets, so this would not measure the lowest cost".into());
        }
        let udp = UdpSocket::bind(&taut_udp::UdpConfig {
            port: arguments.port,
            ipv4_only: true,
            send_buffer: BUFFER,
            receive_buffer: BUFFER,
            gso: true,
            gro: true,
        })?;
        let poller = Poller::new()?;
        Ok(Self {
            tun,
            udp,
            poller,
            peer: arguments.peer.into(),
            cipher: &arguments.cipher,
            batch: ReceiveBatch::new(RUNS)?,
            read: vec![0; READ].into_boxed_slice(),
            outbound: Outbound::new(),
        })
    }

    /// Moves packets until the TUN is gone.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        self.poller.add(self.tun.as_fd(), 0, Interest::READ)?;
        self.poller.add(self.udp.as_fd(), 1, Interest::READ)?;
        let mut events = Events::with_capacity(2);
        loop {
            self.poller.wait(&mut events, None)?;
            self.receive()?;
            self.send()?;
        }
    }

    /// Socket to TUN. A packet that the TUN does not take is lost: the TUN is down, or the packet is invalid.
    fn receive(&mut self) -> io::Result<()> {
        let Self { tun, udp, batch, cipher, .. } = self;
        let write = |pieces: &[io::IoSlice<'_>]| drop(tun.write_vectored(pieces));
        for _ in 0..TURN {
            if unless_blocking(udp.recv(batch))?.is_none() {
                return Ok(());
            }
            for mut run in batch.iter_mut() {
                let mut inbound = Inbound::new();
                run.datagrams().for_each(|datagram| inbound.take(datagram, cipher, write));
                inbound.finish(write);
            }
        }
        Ok(())
    }

    /// TUN to socket. A datagram that the socket has no room for is lost.
    fn send(&mut self) -> io::Result<()> {
        let Self { tun, udp, peer, cipher, read, outbound, .. } = self;
        let send = |contents: &[u8], segment_size| {
            let _ = udp.send(&[Transmit { destination: *peer, contents, segment_size, ecn: 0 }]);
        };
        for _ in 0..TURN {
            let Some(length) = unless_blocking(tun.read(read))? else { break };
            outbound.take(&read[..length], cipher, send);
        }
        outbound.flush(send);
        Ok(())
    }
}

/// Returns `None` if the call would block.
fn unless_blocking<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(taken) => Ok(Some(taken)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
