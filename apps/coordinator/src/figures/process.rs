//! Figures of the process, under the names that all Prometheus libraries use.

use std::fs;

use super::text::Text;

/// Clock ticks per second in /proc/PID/stat: the same on every Linux (proc(5), `sysconf(_SC_CLK_TCK)`).
const TICKS: f64 = 100.0;

/// Resources of this process, as /proc shows them.
#[derive(Debug)]
pub(super) struct ProcessFigures {
    processor_seconds: f64,
    /// Since 1970, in seconds.
    start: f64,
    resident_bytes: u64,
    open_files: u64,
    most_open_files: u64,
}

impl ProcessFigures {
    /// Reads /proc; `None` where it is not mounted.
    pub(super) fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program may contain spaces; the fields after it are numbered from 3 (proc(5)).
        let fields: Vec<f64> = stat.rsplit_once(") ")?.1.split(' ').map(|field| field.parse().unwrap_or(0.0)).collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let boot = fs::read_to_string("/proc/stat").ok()?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let limits = fs::read_to_string("/proc/self/limits").ok()?;
        Some(Self {
            processor_seconds: (field(14)? + field(15)?) / TICKS,
            start: number(&boot, "btime")? as f64 + field(22)? / TICKS,
            resident_bytes: number(&status, "VmRSS:")? * 1_024,
            open_files: open_files()?,
            most_open_files: number(&limits, "Max open files")?,
        })
    }

    pub(super) fn render(&self, text: &mut Text) {
        let mut fraction = |name: &str, kind: &str, help: &str, value: f64| {
            text.head(name, kind, help);
            text.line(&format!("{name} {value:.2}"));
        };
        fraction("process_cpu_seconds_total", "counter", "processor time, in seconds", self.processor_seconds);
        fraction("process_start_time_seconds", "gauge", "start of the process, in seconds since 1970", self.start);
        text.gauge("process_resident_memory_bytes", "memory of the process", self.resident_bytes);
        text.gauge("process_open_fds", "open files of the process", self.open_files);
        text.gauge("process_max_fds", "most open files of the process", self.most_open_files);
    }
}

/// Returns the number after a name at the beginning of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Returns the number of open files. Since Linux 6.2 it is the size of the directory; before, the entries are counted.
fn open_files() -> Option<u64> {
    let folder = "/proc/self/fd";
    match fs::metadata(folder).ok()?.len() {
        0 => Some(fs::read_dir(folder).ok()?.count() as u64),
        size => Some(size),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_systems_figures_of_this_process_are_plausible() {
        let before = ProcessFigures::read().unwrap();
        let files: Vec<File> = (0..200).map(|_| File::open("/dev/null").unwrap()).collect();
        let after = ProcessFigures::read().unwrap();
        // Other tests in this process open and close files as well.
        assert!(after.open_files > before.open_files, "{before:?} {after:?}");
        assert!(after.open_files <= after.most_open_files && after.most_open_files >= 256, "{after:?}");
        assert!((1 << 20..1 << 40).contains(&after.resident_bytes), "{after:?}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        // The time since the boot counts in ticks, and the clock may have been set since.
        assert!((now - 86_400.0..now + 60.0).contains(&after.start), "{after:?} at {now}");
        assert!(after.processor_seconds >= before.processor_seconds);
        drop(files);
    }
}
