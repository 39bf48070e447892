//! A host that exists only in this program: it answers every ICMP echo request that arrives on a new TUN device.
//!
//! README.md shows a session.

use std::error::Error;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

use taut_tun::{Offload, Tun, TunConfig};

const ICMP: u8 = 1;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

const HELP: &str = "\
pong: creates a TUN device and answers every ICMP echo request over IPv4 that arrives on it

usage: pong [NAME]

  NAME   name of the device (default pong0)

Needs root. Runs until it is ended by a signal; the device then disappears.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let name = match words.as_slice() {
        [] => "pong0",
        [word] if word == "--help" || word == "-h" => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        [name] if !name.is_empty() && !name.starts_with('-') => name,
        _ => {
            eprintln!("pong: expected at most one word, the name of the device\nusage: pong [NAME]");
            return ExitCode::from(2);
        }
    };
    match run(name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pong: {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Creates the device and answers until an error occurs.
fn run(name: &str) -> Result<(), Box<dyn Error>> {
    let name = String::from(name);
    // Without offloads each read returns one bare IP packet.
    let tun = Tun::create(&TunConfig { name, offload: Offload::NONE, multi_queue: false })?;
    println!("created {}", tun.name());
    let mut buffer = vec![0; 65_536];
    loop {
        match tun.read(&mut buffer) {
            Ok(length) => {
                if let Some(reply) = echo_reply(&mut buffer[..length]) {
                    // Fails with EIO if the interface was set down after the request.
                    tun.write(reply)?;
                }
            }
            // Reads never block. A real program waits with a poller.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Turns an ICMP echo request over IPv4 into its reply; `None` for any other packet.
fn echo_reply(packet: &mut [u8]) -> Option<&[u8]> {
    let header = usize::from(packet.first().filter(|first| **first >> 4 == 4)? & 15) * 4;
    if *packet.get(9)? != ICMP || *packet.get(header)? != ECHO_REQUEST || packet.len() < header + 8 {
        return None;
    }
    let (source, destination) = packet.get_mut(12..20)?.split_at_mut(4);
    source.swap_with_slice(destination);
    packet[header] = ECHO_REPLY;
    // The type went from 8 to 0 in the high byte of a word, so the checksum grows by 0x0800 (RFC 1624).
    let checksum = u16::from_be_bytes([packet[header + 2], packet[header + 3]]);
    let (sum, carry) = checksum.overflowing_add(0x0800);
    packet[header + 2..header + 4].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    Some(packet)
}
