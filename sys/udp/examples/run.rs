//! Sends ten datagrams to another socket of this host with one system call, and receives them with another. README.md shows the output.

use std::error::Error;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use taut_udp::{ReceiveBatch, Transmit, UdpConfig, UdpSocket};

const DATAGRAM: usize = 1_200;
const COUNT: usize = 10;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let config =
        UdpConfig { port: 0, ipv4_only: false, send_buffer: 1 << 20, receive_buffer: 1 << 20, gso: true, gro: true };
    let (sender, receiver) = (UdpSocket::bind(&config)?, UdpSocket::bind(&config)?);
    println!("{:?}", receiver.features());

    let run = Transmit {
        destination: SocketAddr::from((Ipv4Addr::LOCALHOST, receiver.port())),
        contents: &[7; COUNT * DATAGRAM],
        segment_size: DATAGRAM,
        ecn: 0,
    };
    let report = sender.send(&[run]);
    if let Some((_, error)) = report.first_error {
        return Err(error.into());
    }
    println!("sent {COUNT} datagrams of {DATAGRAM} bytes as one run");

    let mut batch = ReceiveBatch::new(64)?;
    let mut missing = COUNT;
    while missing > 0 {
        match receiver.recv(&mut batch) {
            Ok(_) => {}
            // Calls never block. A real program waits with a poller.
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        }
        for mut message in batch.iter_mut() {
            let count = message.datagrams().count();
            println!("received {count} datagrams of {} bytes as one message", message.segment_size);
            missing = missing.saturating_sub(count);
        }
    }
    Ok(())
}
