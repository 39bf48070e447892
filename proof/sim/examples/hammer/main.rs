//! Sends malformed datagrams to a node's real socket from an unauthenticated sender, and counts the replies.
//!
//! `hammer ADDRESS:PORT NODE_KEY_IN_BASE64 SEED [DATAGRAMS_PER_SECOND]`
//!
//! It reads numbers from standard input, one per line, sends that many datagrams for each, and answers with one JSON line:
//! `sent`, `refused` (by the sender's kernel), `welcome` (those of `sent` that a lane passes on to the agent instead of dropping them)
//! and `answered` (bytes received so far). The same seed sends the same datagrams, except for those that depend on the time: a
//! handshake with a correct mac1 is sent at most twice a second, because a node may answer a more frequent sender with cookies.
//! `lab/runs/hammer.py` runs it against a daemon.

mod malformed;

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use malformed::Malformed;
use taut_base::PublicKey;
use taut_udp::{ReceiveBatch, Transmit, UdpConfig, UdpSocket};

/// Default datagrams per second, 60,000: as many as a node on one slow core takes without drops.
const RATE: u64 = 60_000;
/// Bytes of the program's socket buffers.
const BUFFER: usize = 4 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [target, key, seed, rest @ ..] = words.as_slice() else {
        return Err("usage: hammer ADDRESS:PORT NODE_KEY_IN_BASE64 SEED [DATAGRAMS_PER_SECOND]".into());
    };
    let target: SocketAddr = target.parse()?;
    let rate = rest.first().map_or(Ok(RATE), |rate| rate.parse())?;
    let mut malformed = Malformed::new(key.parse::<PublicKey>()?, seed.parse()?);
    let config =
        UdpConfig { port: 0, ipv4_only: false, send_buffer: BUFFER, receive_buffer: BUFFER, gso: true, gro: false };
    let socket = UdpSocket::bind(&config)?;
    socket.allow_fragmentation(true)?;
    let mut hammer = Hammer { socket, target, rate, answers: ReceiveBatch::new(8)?, answered: 0 };
    for line in std::io::stdin().lock().lines() {
        let goal = line?.trim().parse()?;
        let (sent, refused, welcome) = hammer.round(&mut malformed, goal)?;
        let answered = hammer.answered;
        println!(r#"{{"sent":{sent},"refused":{refused},"welcome":{welcome},"answered":{answered}}}"#);
        std::io::stdout().flush()?;
    }
    Ok(())
}

struct Hammer {
    socket: UdpSocket,
    target: SocketAddr,
    rate: u64,
    answers: ReceiveBatch,
    answered: usize,
}

impl Hammer {
    /// Sends `goal` datagrams. Returns the numbers of sent, refused and welcome datagrams.
    fn round(&mut self, malformed: &mut Malformed, goal: u64) -> std::io::Result<(u64, u64, u64)> {
        let (start, mut sent, mut refused, mut welcome) = (Instant::now(), 0, 0, 0);
        while sent < goal {
            let run = malformed.next_run(goal - sent);
            if self.send(&run.contents, run.segment_size) {
                sent += run.datagrams;
                welcome += run.welcome;
            } else {
                refused += run.datagrams;
            }
            self.listen()?;
            let due = Duration::from_micros(sent * 1_000_000 / self.rate);
            if let Some(early) = due.checked_sub(start.elapsed()).filter(|early| early.as_micros() > 500) {
                std::thread::sleep(early);
            }
        }
        // Replies under way get a moment to arrive.
        std::thread::sleep(Duration::from_millis(200));
        self.listen()?;
        Ok((sent, refused, welcome))
    }

    /// Sends a run. Returns true if the kernel accepted it.
    fn send(&self, contents: &[u8], segment_size: usize) -> bool {
        let mut rest = contents;
        loop {
            let report =
                self.socket.send(&[Transmit { destination: self.target, contents: rest, segment_size, ecn: 0 }]);
            if !report.blocked {
                return report.failed == 0;
            }
            rest = &rest[report.partial..];
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Counts received bytes.
    fn listen(&mut self) -> std::io::Result<()> {
        loop {
            match self.socket.recv(&mut self.answers) {
                Ok(_) => {
                    let bytes: usize = self.answers.iter_mut().map(|received| received.data.len().max(1)).sum();
                    if bytes == 0 {
                        return Ok(());
                    }
                    self.answered += bytes;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}
