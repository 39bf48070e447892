//! The figures of docs/paths.md that virtual time gives, as JSON on standard output: the 99th percentile over many seeds each (`make paths-sim`).
//!
//! `cargo run --release -p taut-sim --example paths -- [RUNS [NAME …]]` (default: 1000 runs of all)
//!
//! Exit status 1 if a figure misses its limit.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use taut_sim::nat::{Figure, FigureResult};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runs = words.first().and_then(|word| word.parse().ok()).unwrap_or(1_000_u64);
    let named = |figure: &Figure| words.len() < 2 || words[1..].iter().any(|name| name == figure.name());
    let rows: Vec<Row> = Figure::ALL.into_iter().filter(named).map(|figure| Row::measure(figure, runs)).collect();
    let lines: Vec<String> = rows.iter().map(Row::json).collect();
    println!("{{\"schema\": 1, \"runs\": {runs}, \"figures\": [\n{}\n]}}", lines.join(",\n"));
    if rows.iter().all(Row::reached) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Row {
    figure: Figure,
    /// Values, smallest first.
    values: Vec<f64>,
    /// Seeds for which the event did not happen.
    never: Vec<u64>,
    lost: usize,
    overtaken: usize,
}

impl Row {
    fn measure(figure: Figure, runs: u64) -> Self {
        let all = measure_all(figure, runs);
        let mut values: Vec<f64> = all.iter().filter_map(|(_, measured)| measured.value).collect();
        values.sort_by(f64::total_cmp);
        let never = all.iter().filter(|(_, measured)| measured.value.is_none()).map(|(seed, _)| *seed).collect();
        let lost = all.iter().map(|(_, measured)| measured.lost).sum();
        let overtaken = all.iter().map(|(_, measured)| measured.overtaken).sum();
        let row = Self { figure, values, never, lost, overtaken };
        eprintln!("paths-sim: {}", row.text());
        if let Some((seed, worst)) =
            all.iter().max_by(|one, two| one.1.value.unwrap_or(f64::MAX).total_cmp(&two.1.value.unwrap_or(f64::MAX)))
        {
            eprintln!("paths-sim: worst with seed {seed}: {worst:?}");
        }
        for (seed, wrong) in all.iter().filter(|(_, measured)| measured.lost + measured.overtaken > 0) {
            eprintln!("paths-sim: not in order or not whole with seed {seed}: {wrong:?}");
        }
        row
    }

    /// Returns the value that at least `percent` percent of the values do not exceed.
    fn percentile(&self, percent: usize) -> Option<f64> {
        let all = self.values.len() + self.never.len();
        self.values.get((all * percent).div_ceil(100).saturating_sub(1)).copied()
    }

    fn reached(&self) -> bool {
        let soon = self.percentile(99).is_some_and(|value| value <= self.figure.limit());
        soon && self.never.is_empty() && self.lost == 0 && self.overtaken == 0
    }

    fn text(&self) -> String {
        let [median, p99, most] = [50, 99, 100].map(|percent| number(self.percentile(percent)));
        let (name, unit, reached) = (self.figure.name(), self.figure.unit(), if self.reached() { "yes" } else { "NO" });
        format!(
            "{name:11} median {median} {unit}, p99 {p99}, most {most}; never {}, lost {}, overtaken {}; reached: {reached}",
            self.never.len(),
            self.lost,
            self.overtaken
        )
    }

    fn json(&self) -> String {
        let [median, p99, most] = [50, 99, 100].map(|percent| number(self.percentile(percent)));
        let (name, unit) = (self.figure.name(), self.figure.unit());
        let values = format!(
            "\"name\": \"{name}\", \"unit\": \"{unit}\", \"median\": {median}, \"p99\": {p99}, \"max\": {most}"
        );
        let (never, lost, overtaken, reached) = (&self.never, self.lost, self.overtaken, self.reached());
        format!(
            "  {{{values}, \"never\": {never:?}, \"lost\": {lost}, \"overtaken\": {overtaken}, \"reached\": {reached}}}"
        )
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("null".into(), |value| format!("{value:.2}"))
}

/// Measures every seed once, on all cores.
fn measure_all(figure: Figure, runs: u64) -> Vec<(u64, FigureResult)> {
    let next = AtomicU64::new(0);
    let work = || {
        let seeds = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < runs));
        seeds.map(|seed| (seed, figure.measure(seed))).collect::<Vec<_>>()
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a figure's own checks hold")).collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all
}
