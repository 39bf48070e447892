//! Asks the gateway of this host for ports and prints the results; lab/tests/test_portmap.py runs it.
//!
//! Reads `ports PORT…`, `look`, `check` and `report` from standard input and prints a line per event. At the end of its input it gives the ports back
//! and exits.
#![expect(clippy::print_stdout, reason = "its lines are what it is for")]

use std::io::{self, BufRead, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use taut_event::Waker;
use taut_gateway::{Portmap, PortmapCommand, PortmapEvent, PortmapOptions};

/// Pause between two polls for events, 20 ms.
const PAUSE: Duration = Duration::from_millis(20);

fn main() -> io::Result<()> {
    let portmap = Portmap::start(PortmapOptions::default(), Waker::new()?)?;
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
        Some("look") => portmap.send(PortmapCommand::Look),
        Some("check") => portmap.send(PortmapCommand::Check),
        Some("ports") => portmap.send(PortmapCommand::Ports(words.filter_map(|word| word.parse().ok()).collect())),
        _ => {
            let report = portmap.report();
            for part in &report.protocols {
                println!("report {} {}", part.protocol, part.status.name());
            }
            println!("{report}\nreport end");
        }
    }
}
