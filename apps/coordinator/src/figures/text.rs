//! The text format of Prometheus (0.0.4).

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::{BOUNDS, Counter, Histogram};

/// The text of figures that is being written.
pub(super) struct Text(pub(super) String);

impl Text {
    pub(super) fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "gauge", help);
        self.line(&format!("{name} {value}"));
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.head(name, "counter", help);
        self.line(&format!("{name} {}", counter.get()));
    }

    /// Writes a gauge or a counter whose values have a label.
    pub(super) fn labelled<'a>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'a str, u64)>,
    ) {
        self.head(name, kind, help);
        for (of, value) in values {
            self.line(&format!("{name}{{{label}=\"{of}\"}} {value}"));
        }
    }

    /// Writes the lines of a histogram. `labels` ends with a comma unless it is empty.
    pub(super) fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let mut sum = 0;
        for (bound, bucket) in BOUNDS.iter().zip(&histogram.buckets) {
            sum += bucket.load(Ordering::Relaxed);
            self.line(&format!("{name}_bucket{{{labels}le=\"{bound}\"}} {sum}"));
        }
        let count = histogram.count.load(Ordering::Relaxed);
        let seconds = histogram.microseconds.load(Ordering::Relaxed) as f64 / 1e6;
        self.line(&format!("{name}_bucket{{{labels}le=\"+Inf\"}} {count}"));
        let labels = match labels.trim_end_matches(',') {
            "" => String::new(),
            labels => format!("{{{labels}}}"),
        };
        self.line(&format!("{name}_sum{labels} {seconds:.6}"));
        self.line(&format!("{name}_count{labels} {count}"));
    }
}
