//! Prints what the table of flows costs at one node: bytes of memory with 100,000 open flows, new flows per second, and what a packet of a known flow costs.
//!
//!     cargo run --release -p taut-filter --example flow_cost
//!
//! A second is measured by one thread, and by two that add flows to one table, as two lanes do. All flows of a run are new: half of them replace others once the table is full.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use taut_base::PeerId;
use taut_filter::{Answer, FlowClass, FlowKey, FlowTable, MOST_FLOWS, Remembered};

/// Flows of the first measurement.
const OPEN: u32 = 100_000;
/// Flows that each thread adds in the second: four times what the table holds, so that it is full for most of the run.
const ADDED: u32 = 4 * MOST_FLOWS as u32;
/// Peers that the flows lead to.
const PEERS: u32 = 100;
/// Runs; the median counts.
const RUNS: usize = 9;

fn main() {
    let table = FlowTable::new([7; 16]);
    let empty = table.bytes();
    let new = (0..OPEN).filter(|number| add(&table, *number) == Remembered::New).count();
    println!(
        "flows: {new} of {OPEN} added, {} in the table, {} bytes ({empty} without flows)",
        table.len(),
        table.bytes()
    );
    println!("look-up of a known flow: {:.0} ns", median(|| look_up(&table)) * 1e9);
    for threads in [1, 2] {
        let per_second = f64::from(ADDED * threads) / median(|| fill(threads));
        println!("new flows per second, {threads} thread(s): {per_second:.0}");
    }
}

/// Returns the flow with this number, of TCP.
fn flow(number: u32) -> FlowKey {
    let peer = number % PEERS;
    FlowKey {
        peer: PeerId(peer),
        protocol: taut_filter::TCP,
        local: IpAddr::V4(Ipv4Addr::new(100, 64, 0, 1)),
        remote: IpAddr::V4(Ipv4Addr::from(0x6440_1000 + peer)),
        local_port: 32_768 + (number % 28_000) as u16,
        remote_port: (number / 28_000) as u16,
    }
}

fn add(table: &FlowTable, number: u32) -> Remembered {
    table.remember(&flow(number), FlowClass::Opening, 1)
}

/// Returns the seconds that one look-up of a flow in the full table took.
fn look_up(table: &FlowTable) -> f64 {
    let start = Instant::now();
    for number in 0..OPEN {
        black_box(table.is_answer(&flow(number), Answer::Continues, 2));
    }
    start.elapsed().as_secs_f64() / f64::from(OPEN)
}

/// Returns the seconds in which so many threads add their flows to a new table.
fn fill(threads: u32) -> f64 {
    let table = FlowTable::new([7; 16]);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let table = &table;
            scope.spawn(move || (0..ADDED).for_each(|number| _ = black_box(add(table, thread * ADDED + number))));
        }
    });
    start.elapsed().as_secs_f64()
}

fn median(measure: impl Fn() -> f64) -> f64 {
    let mut runs: Vec<f64> = (0..RUNS).map(|_| measure()).collect();
    runs.sort_by(f64::total_cmp);
    runs[RUNS / 2]
}
