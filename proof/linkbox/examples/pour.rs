//! Sends frames into interfaces at an even rate. `lab/runs/linkspeed.py` measures linkbox with it.
//!
//! Each interface gets this many frames per second, of this many bytes including the Ethernet header. The frames have no receiver, so the host behind the
//! other end spends almost no processor time on them. One thread sends to all interfaces in turn and never sleeps: a sender that sleeps sends in bursts, which are
//! easier for the receiver. At the end it prints one JSON line: `seconds`, and for each interface `sent` and `refused` (by the kernel of this host).

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Display;
use std::hint::spin_loop;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::Serialize;
use taut_packet::{MAX_FRAMES, PacketConfig, PacketSocket};

/// The Ethernet header: addresses that no host has, and a protocol that no kernel handles (EtherType 0x88b5, reserved for experiments by IEEE 802).
const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];

#[derive(Serialize)]
struct Summary {
    seconds: f64,
    interfaces: BTreeMap<String, Poured>,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Poured {
    sent: u64,
    refused: u64,
}

impl Poured {
    fn all(self) -> u64 {
        self.sent + self.refused
    }
}

const USAGE: &str = "usage: pour FRAMES_PER_SECOND BYTES SECONDS INTERFACE...";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!(
            "pour: sends frames into interfaces at an even rate\n\n{USAGE}\n\nNeeds root. Example: pour 100000 1200 5 eth0"
        );
        return ExitCode::SUCCESS;
    }
    let [rate, bytes, seconds, interfaces @ ..] = words.as_slice() else {
        eprintln!("pour: some words are missing\n{USAGE}");
        return ExitCode::from(2);
    };
    let parsed = (number("FRAMES_PER_SECOND", rate), number("BYTES", bytes), number("SECONDS", seconds));
    let result = match parsed {
        (Ok(rate), Ok(bytes), Ok(seconds)) if !interfaces.is_empty() => pour(rate, bytes, seconds, interfaces),
        (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
            eprintln!("pour: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
        _ => {
            eprintln!("pour: no interface was given\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pour: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Parses a number of the command line.
fn number<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{name} `{text}` is not a number: {error}"))
}

fn pour(rate: f64, bytes: usize, seconds: f64, interfaces: &[String]) -> Result<(), Box<dyn Error>> {
    let mut frame = vec![0x5a; bytes.max(HEADER.len())];
    frame[..HEADER.len()].copy_from_slice(&HEADER);
    let mut ways = Vec::new();
    for interface in interfaces {
        let config = PacketConfig { interface, superpackets: false, receive_buffer: 0 };
        let socket = PacketSocket::open(&config).map_err(|error| format!("{interface}: {error}"))?;
        ways.push((interface, socket, Poured::default()));
    }
    let length = Duration::try_from_secs_f64(seconds).map_err(|error| format!("SECONDS: {error}"))?;
    let (frames, start) = ([frame.as_slice(); MAX_FRAMES], Instant::now());
    loop {
        let elapsed = start.elapsed();
        if elapsed >= length {
            break;
        }
        let wanted = (elapsed.as_secs_f64() * rate) as u64;
        for (_, socket, poured) in &mut ways {
            let due = wanted.saturating_sub(poured.all()).min(MAX_FRAMES as u64) as usize;
            if due > 0 {
                match socket.send(&frames[..due]) {
                    Ok(sent) => poured.sent += sent as u64,
                    Err(_) => poured.refused += 1,
                }
            }
        }
        spin_loop();
    }
    let seconds = start.elapsed().as_secs_f64();
    let interfaces = ways.into_iter().map(|(interface, _, poured)| (interface.clone(), poured)).collect();
    println!("{}", serde_json::to_string(&Summary { seconds, interfaces })?);
    Ok(())
}
