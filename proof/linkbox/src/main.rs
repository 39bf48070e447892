//! `linkbox`: a link between two interfaces, with delay, jitter, loss, reordering, duplicates and a rate, each drawn for **every wire packet by itself**.
//!
//! A kernel's netem draws for what the kernel hands it, and that is up to 64 KiB put together: of such a sender it loses many packets in one event, and
//! TCP takes that for one loss. Whoever sends packet by packet is treated worse on the "same" link. Here everybody is treated alike; `--superpackets`
//! shows the other way, for comparison.
//!
//! It is for the lab: both interfaces lie in a network namespace of their own, and the hosts behind them have their offloads off, so that what comes
//! is what a wire would carry. What is longer, or has no checksum yet, is refused and counted.
//!
//! A frame goes like this: `bridge` takes it in, `direction` says what becomes of it and when, `bridge` sends it. At the end `report` says what really
//! happened, so that nobody has to believe that what was asked for is what came.

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

/// Of words that cannot be read, as every command of this house.
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
    precise_timers().map_err(|error| format!("the clock's alarms could not be made precise: {error}"))?;
    let first = arguments.first && comes_first();
    let mut bridge = Bridge::new(arguments)?;
    let joined = format!("{} and {} are joined", arguments.left, arguments.right);
    // Where the report goes to standard output, nothing else does.
    if arguments.report.is_some() {
        println!("{joined}");
    } else {
        eprintln!("linkbox: {joined}");
    }
    loop {
        let pause = bridge.run()?;
        let now = Time::from_duration(boot_time());
        tell(arguments, &Report::new(arguments, &bridge, first, now))?;
        if pause == Pause::Over {
            return Ok(());
        }
        bridge.count_anew(now);
    }
}

/// Whether this thread may run before others. Without that it is only later at times, which the report tells.
fn comes_first() -> bool {
    match run_first() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("linkbox: goes on as an ordinary program, for it may not run before others: {error}");
            false
        }
    }
}

/// Whoever reads the file finds a whole report in it: it comes under another name, and then takes the place of the former one.
fn tell(arguments: &Arguments, report: &Report<'_>) -> Result<(), Box<dyn Error>> {
    let text = serde_json::to_string_pretty(report)?;
    let Some(file) = &arguments.report else {
        println!("{text}");
        return Ok(());
    };
    let fresh = file.with_added_extension("new");
    let written = fs::write(&fresh, text + "\n").and_then(|()| fs::rename(&fresh, file));
    Ok(written.map_err(|error| format!("{}: {error}", file.display()))?)
}
