//! Facts of the host and of the daemon's process, from files that every user may read. The environment is not included.

use std::fmt::Write;
use std::fs;
use std::path::Path;

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

/// Usual paths of `nft`.
const NFT: [&str; 4] = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft", "/usr/local/sbin/nft"];

/// Limit on the bytes of one fact, 16 KiB. A longer file is cut.
const MAX_FACT: usize = 16 * 1024;

/// Returns all facts as text. `tun`: name of the overlay's device; `pid`: process id of the daemon.
pub(super) fn facts(tun: Option<&str>, pid: Option<u32>) -> String {
    let mut text = String::new();
    for (name, path) in [("kernel", "/proc/version"), ("uptime", "/proc/uptime"), ("load", "/proc/loadavg")] {
        fact(&mut text, name, read(path));
    }
    fact(&mut text, "architecture", Some(String::from(std::env::consts::ARCH)));
    let cores = std::thread::available_parallelism().map(|count| count.to_string());
    fact(&mut text, "cores", cores.ok());
    fact(&mut text, "memory", read("/proc/meminfo").map(|all| all.lines().take(3).collect::<Vec<_>>().join(", ")));
    fact(&mut text, "distribution", read("/etc/os-release").and_then(|all| field(&all, "PRETTY_NAME=")));
    fact(&mut text, "TUN device", Some(presence("/dev/net/tun")));
    let nft = NFT.iter().find(|path| Path::new(path).exists()).copied().unwrap_or("absent");
    fact(&mut text, "nft", Some(String::from(nft)));
    fact(&mut text, "nf_tables module", Some(presence("/sys/module/nf_tables")));
    fact(&mut text, "IPv6", Some(presence("/proc/net/if_inet6")));
    section(&mut text, "settings");
    for setting in SETTINGS {
        fact(&mut text, &setting.replace('/', "."), read(&format!("/proc/sys/{setting}")));
    }
    section(&mut text, "interfaces");
    interfaces(&mut text);
    if let Some(tun) = tun {
        section(&mut text, &format!("routes to {tun}"));
        for path in ["/proc/net/route", "/proc/net/ipv6_route"] {
            let all = read(path).unwrap_or_default();
            all.lines().filter(|line| line.split_whitespace().any(|word| word == tun)).for_each(|line| {
                text.push_str(line.trim());
                text.push('\n');
            });
        }
    }
    if let Some(pid) = pid {
        section(&mut text, &format!("the daemon's process, {pid}"));
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
    let mut text = fs::read_to_string(path).ok()?;
    let mut end = text.len().min(MAX_FACT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_described_and_its_environment_is_not() {
        let text = facts(Some("lo"), Some(std::process::id()));
        for known in ["kernel: Linux", "net.core.rmem_max: ", "lo: mtu ", "Max open files", "TUN device: ", "VmRSS:"] {
            assert!(text.contains(known), "{known} is missing:\n{text}");
        }
        assert!(!text.contains("CARGO_MANIFEST_DIR") && !text.contains(env!("CARGO_MANIFEST_DIR")));
    }
}
