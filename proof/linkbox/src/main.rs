//! `linkbox`: a link between two interfaces, with delay, jitter, loss, reordering, duplicates and a rate, each drawn for **every packet of the wire**.
//!
//! A kernel's netem draws for each buffer that the kernel passes to it, which holds up to 64 KiB of packets: a sender of superpackets loses many packets in
//! one event, and TCP counts that as one loss. A sender of single packets is treated worse on the same link. linkbox treats all senders alike;
//! `--superpackets` shows netem's behaviour, for comparison.
//!
//! It is for the lab: both interfaces are in a network namespace of their own, and the hosts behind them have their offloads off, so that frames are those of
//! a wire. Frames that are longer than the MTU, or lack a checksum, are refused and counted.
//!
//! `bridge` receives a frame, `direction` decides whether and when it leaves, and `bridge` sends it. At the end `report` shows what really happened, next to
//! what was configured.

mod arguments;
mod bottleneck;
mod bridge;
mod chance;
mod codel;
mod direction;
mod line;
mod link;
mod load;
mod measure;
mod packet;
mod report;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

use taut_base::Time;
use taut_event::{boot_time, precise_timers, run_first};

use arguments::{Arguments, USAGE};
use bridge::{Bridge, Pause};
use report::Report;

/// Exit status after a usage error, as for every program of Taut.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::parse(words.into_iter()) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("linkbox: {why}");
            return ExitCode::from(USAGE_ERROR);
        }
    };
    let Err(why) = run(&arguments) else { return ExitCode::SUCCESS };
    eprintln!("linkbox: {why}");
    ExitCode::FAILURE
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    precise_timers().map_err(|error| format!("the timers cannot be made precise: {error}"))?;
    let first = arguments.first && raise_priority();
    let mut bridge = Bridge::new(arguments)?;
    let joined = format!("{} and {} are joined", arguments.left, arguments.right);
    // If standard output gets the report, it gets nothing else.
    if arguments.report.is_some() {
        println!("{joined}");
    } else {
        eprintln!("linkbox: {joined}");
    }
    loop {
        let pause = bridge.run()?;
        let now = Time::from_duration(boot_time());
        write_report(arguments, &Report::new(arguments, &bridge, first, now))?;
        if pause == Pause::Over {
            return Ok(());
        }
        bridge.reset_counts(now);
    }
}

/// Raises the priority of this thread above ordinary programs. Returns false if that is not permitted: some frames then leave later, as the report shows.
fn raise_priority() -> bool {
    match run_first() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("linkbox: runs with ordinary priority, because raising it failed: {error}");
            false
        }
    }
}

/// Writes the report to its file or to standard output. The file is replaced at once, so that a reader never finds a part of a report.
fn write_report(arguments: &Arguments, report: &Report<'_>) -> Result<(), Box<dyn Error>> {
    let text = serde_json::to_string_pretty(report)?;
    let Some(file) = &arguments.report else {
        println!("{text}");
        return Ok(());
    };
    let fresh = file.with_added_extension("new");
    let written = fs::write(&fresh, text + "\n").and_then(|()| fs::rename(&fresh, file));
    Ok(written.map_err(|error| format!("{}: {error}", file.display()))?)
}
