//! Asks the gateway of this host for ports and writes what comes of it: what lab/tests/test_portmap.py drives.
//!
//! Reads `ports PORT…`, `look`, `check` and `report` on standard input, writes a line per event; ends with its input, and gives the ports back.
#![expect(clippy::print_stdout, reason = "its lines are what it is for")]

use std::io::{self, BufRead, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use taut_event::Waker;
use taut_gateway::{Command, Options, Portmap, PortmapEvent};

/// How long a pause between two looks for events is.
const PAUSE: Duration = Duration::from_millis(20);

fn main() -> io::Result<()> {
    let portmap = Portmap::start(Options::default(), Waker::new()?)?;
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    loop {
        while let Some(event) = portmap.try_event() {
            match event {
                PortmapEvent::Mapped(mapping) => {
                    println!("mapped {} {} {}", mapping.port, mapping.outside, mapping.protocol);
                }
                PortmapEvent::Lost { port, .. } => println!("lost {port}"),
                PortmapEvent::Answered { .. } => {}
            }
        }
        match lines.recv_timeout(PAUSE) {
            Ok(line) => obey(&portmap, &line),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        io::stdout().flush()?;
    }
    portmap.stop();
    println!("stopped");
    Ok(())
}

fn obey(portmap: &Portmap, line: &str) {
    let mut words = line.split(' ');
    match words.next() {
        Some("look") => portmap.send(Command::Look),
        Some("check") => portmap.send(Command::Check),
        Some("ports") => portmap.send(Command::Ports(words.filter_map(|word| word.parse().ok()).collect())),
        _ => {
            let report = portmap.report();
            for part in &report.protocols {
                println!("report {} {}", part.protocol, part.status.name());
            }
            println!("{report}\nreport end");
        }
    }
}
