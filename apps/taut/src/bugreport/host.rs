//! Facts of the host and of the daemon's process, from files that every user may read. The environment is not included.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use taut_base::format_time;

use super::routes;

/// Kernel settings that affect the forwarding and the speed of packets.
const SETTINGS: [&str; 18] = [
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/rmem_default",
    "net/core/netdev_max_backlog",
    "net/core/default_qdisc",
    "net/core/bpf_jit_enable",
    "net/ipv4/ip_forward",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/default/rp_filter",
    "net/ipv6/conf/all/disable_ipv6",
    "net/ipv6/conf/default/disable_ipv6",
    "net/ipv6/conf/all/forwarding",
    "net/netfilter/nf_conntrack_max",
    "kernel/unprivileged_bpf_disabled",
    "fs/nr_open",
];

/// Usual directories of `nft` and `ip`. The user's own search path is not used, because it may lead to other programs.
const PROGRAMS: [&str; 5] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];

/// Limit on the bytes of one fact, 16 KiB. A longer file is cut.
const MAX_FACT: usize = 16 * 1024;

/// Returns what a program prints, up to 16 KiB per call.
///
/// # Errors
/// The reason why nothing is known, such as a missing program.
pub(super) fn output(program: &str, calls: &[&[&str]]) -> Result<String, String> {
    let path = PROGRAMS.iter().map(|directory| Path::new(directory).join(program)).find(|path| path.exists());
    let path = path.ok_or_else(|| format!("`{program}` is not installed"))?;
    let mut text = String::new();
    for words in calls {
        let done = Command::new(&path).args(*words).stdin(Stdio::null()).output();
        let done = done.map_err(|error| format!("{}: {error}", path.display()))?;
        let errors = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() && calls.len() == 1 {
            return Err(format!("`{program}` failed: {}", errors.trim()));
        }
        let _ = writeln!(
            text,
            "## {program} {}\n{}{errors}",
            words.join(" "),
            cut(String::from_utf8_lossy(&done.stdout).into_owned())
        );
    }
    Ok(text)
}

/// Returns the end of the output of the daemons that `taut up` started, without words that could be keys or tokens.
pub(super) fn daemon_log(state: &Path) -> Result<String, String> {
    let path = state.join("daemon.log");
    let unread = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let is_file = fs::symlink_metadata(&path).map_err(|error| unread(&error))?.is_file();
    let bytes = if is_file {
        fs::read(&path).map_err(|error| unread(&error))?
    } else {
        return Err(unread(&"it is not a file"));
    };
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(MAX_FACT)..]).into_owned();
    Ok(without_secrets(&text))
}

/// Replaces words of 40 characters and more that could be a key, a token or a ticket in hex or base64.
pub(super) fn without_secrets(text: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+/_=-".contains(letter);
    let mut clean = String::with_capacity(text.len());
    for piece in text.split_inclusive(|letter| !is_part(letter)) {
        let word = piece.trim_end_matches(|letter| !is_part(letter));
        clean.push_str(if word.len() >= 40 { "(removed)" } else { word });
        clean.push_str(&piece[word.len()..]);
    }
    clean
}

/// Returns all facts as text. `tun`: name of the overlay's device; `pid`: process id of the daemon.
pub(super) fn facts(tun: Option<&str>, pid: Option<u32>) -> String {
    let mut text = String::new();
    for (name, path) in [("kernel", "/proc/version"), ("uptime", "/proc/uptime"), ("load", "/proc/loadavg")] {
        fact(&mut text, name, read(path));
    }
    fact(&mut text, "wall clock", Some(format_time(taut_event::wall_clock())));
    let zone = fs::read_link("/etc/localtime").ok().map(|path| path.display().to_string());
    fact(&mut text, "time zone", zone.or_else(|| read("/etc/timezone")));
    fact(&mut text, "architecture", Some(String::from(std::env::consts::ARCH)));
    let cores = std::thread::available_parallelism().map(|count| count.to_string());
    fact(&mut text, "cores", cores.ok());
    fact(&mut text, "memory", read("/proc/meminfo").map(|all| all.lines().take(3).collect::<Vec<_>>().join(", ")));
    fact(&mut text, "distribution", read("/etc/os-release").and_then(|all| field(&all, "PRETTY_NAME=")));
    fact(&mut text, "TUN device", Some(presence("/dev/net/tun")));
    let is_module = Path::new("/sys/module/nf_tables").exists();
    let nf_tables = if is_module { "loaded" } else { "not loaded as a module; it may be built into the kernel" };
    fact(&mut text, "nf_tables", Some(String::from(nf_tables)));
    fact(&mut text, "IPv6", Some(presence("/proc/net/if_inet6")));
    section(&mut text, "settings");
    for setting in SETTINGS {
        fact(&mut text, &setting.replace('/', "."), read(&format!("/proc/sys/{setting}")));
    }
    section(&mut text, "interfaces");
    interfaces(&mut text);
    section(&mut text, &format!("default routes, and routes to {}", tun.unwrap_or("the overlay (down)")));
    let [ipv4, ipv6] = ["/proc/net/route", "/proc/net/ipv6_route"].map(|path| read(path).unwrap_or_default());
    text.push_str(&routes::shown(&ipv4, &ipv6, tun));
    if let Some(pid) = pid {
        section(&mut text, &format!("the daemon's process, {pid}"));
        // The number may belong to another program if the daemon runs in another PID namespace.
        let command = read(&format!("/proc/{pid}/cmdline")).map(|all| all.replace('\0', " "));
        let is_daemon = |command: &String| command.split(' ').nth(1) == Some("daemon");
        fact(&mut text, "command", command.filter(is_daemon).map(|command| without_secrets(&command)));
        let status = read(&format!("/proc/{pid}/status")).unwrap_or_default();
        let wanted = ["Uid:", "Threads:", "VmRSS:", "VmHWM:", "VmLck:", "CapEff:", "Seccomp:", "NoNewPrivs:"];
        status.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name))).for_each(|line| {
            text.push_str(line);
            text.push('\n');
        });
        fact(&mut text, "open files", fs::read_dir(format!("/proc/{pid}/fd")).ok().map(|all| all.count().to_string()));
        text.push_str(&read(&format!("/proc/{pid}/limits")).unwrap_or_default());
    }
    text
}

fn interfaces(text: &mut String) {
    let Ok(all) = fs::read_dir("/sys/class/net") else { return };
    let mut names: Vec<String> = all.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    for name in names {
        let of = |what: &str| {
            let value = read(&format!("/sys/class/net/{name}/{what}")).unwrap_or_default();
            String::from(value.trim())
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name}: mtu {}, state {}, queue length {}, dropped {} received and {} sent",
            of("mtu"),
            of("operstate"),
            of("tx_queue_len"),
            of("statistics/rx_dropped"),
            of("statistics/tx_dropped")
        );
    }
}

fn section(text: &mut String, title: &str) {
    let _ = write!(text, "\n## {title}\n");
}

fn fact(text: &mut String, name: &str, value: Option<String>) {
    let value = value.unwrap_or_else(|| String::from("not known"));
    let _ = writeln!(text, "{name}: {}", value.trim());
}

fn presence(path: &str) -> String {
    String::from(if Path::new(path).exists() { "present" } else { "absent" })
}

fn field(all: &str, name: &str) -> Option<String> {
    all.lines().find_map(|line| line.strip_prefix(name)).map(|value| String::from(value.trim_matches('"')))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(cut)
}

fn cut(mut text: String) -> String {
    let mut end = text.len().min(MAX_FACT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_that_could_be_secrets_are_removed() {
        let key = "A".repeat(43);
        let text = format!("taut: the token taut1-{key} is wrong\n{key}=\n  /var/lib/taut: é\n");
        assert_eq!(without_secrets(&text), "taut: the token (removed) is wrong\n(removed)\n  /var/lib/taut: é\n");
        assert_eq!(without_secrets(&key), "(removed)");
    }

    #[test]
    fn a_missing_program_is_named() {
        assert_eq!(output("nosuch", &[]).unwrap_err(), "`nosuch` is not installed");
    }

    #[test]
    fn the_host_is_described_and_its_environment_is_not() {
        let text = facts(Some("lo"), Some(std::process::id()));
        for known in [
            "kernel: Linux",
            "net.core.rmem_max: ",
            "lo: mtu ",
            "Max open files",
            "TUN device: ",
            "VmRSS:",
            "wall clock: 20",
            "nf_tables: ",
        ] {
            assert!(text.contains(known), "{known} is missing:\n{text}");
        }
        assert!(!text.contains("CARGO_MANIFEST_DIR") && !text.contains(env!("CARGO_MANIFEST_DIR")));
    }
}
