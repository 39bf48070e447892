#[cfg(feature = "userspace")]
use super::userspace::{RAN_USERSPACE, take_device_away, with_userspace};
use super::*;

/// A state directory that is removed in the end, and flags for a daemon there without a configuration file.
struct Node(DaemonFlags);

impl Node {
    fn new(name: &str) -> Self {
        let mut flags = DaemonFlags::from_environment();
        flags.state = std::env::temp_dir().join(format!("taut-launch-{name}-{}", std::process::id()));
        flags.config = Some(PathBuf::from("/dev/null"));
        fs::create_dir(&flags.state).unwrap();
        Self(flags)
    }

    #[cfg(feature = "userspace")]
    fn with(&self, given: &[(&str, &str)]) -> DaemonFlags {
        let mut flags = self.0.clone();
        for (name, value) in given {
            flags.give(name, value).unwrap();
        }
        flags
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0.state);
    }
}

#[test]
fn capabilities_as_the_kernel_writes_them() {
    assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t0000000000001000\n"), Some(1 << CAP_NET_ADMIN));
    assert_eq!(effective_capabilities("Name:\tx\n"), None);
    let own = fs::read_to_string("/proc/self/status").unwrap();
    assert!(effective_capabilities(&own).is_some());
}

#[cfg(feature = "userspace")]
#[test]
fn a_daemon_that_leaves_without_a_device_has_nothing_that_needs_one() {
    let node = Node::new("leave");
    let needs = [
        ("exit-node", "nas"),
        ("kill-switch", "true"),
        ("advertise-exit-node", "true"),
        ("advertise-routes", "10.0.0.0/24"),
    ];
    for given in needs {
        let mut flags = node.with(&[given]);
        assert!(with_userspace(&flags).unwrap().is_none(), "{given:?} does not go with a recalled userspace network");
        take_device_away(&mut flags).unwrap();
        let config = flags.resolve().unwrap().config;
        assert!(config.is_userspace() && taut_agent::conflict(&config).is_none(), "{given:?}");
    }
    let recalled = with_userspace(&node.with(&[("socks5", "1080")])).unwrap().unwrap();
    assert!(recalled.resolve().unwrap().config.is_userspace());
}

#[cfg(feature = "userspace")]
#[test]
fn the_note_of_a_userspace_network_goes_with_a_daemon_that_has_a_device() {
    let node = Node::new("note");
    let note = node.0.state.join(RAN_USERSPACE);
    let (userspace, device) = (node.with(&[("tun", "userspace")]), node.with(&[("tun", "taut7")]));
    note_userspace(&device);
    assert!(!note.exists());
    for _ in 0..2 {
        note_userspace(&userspace);
        assert!(note.exists());
    }
    note_userspace(&device);
    assert!(!note.exists());
}

#[test]
fn the_log_is_no_link_of_another_user_and_no_pipe() {
    let node = Node::new("log");
    let (state, path) = (&node.0.state, node.0.state.join(LOG));
    let (log, _, begin) = open_log(state).unwrap();
    assert!(begin == 0 && !is_full(&log));
    fs::write(&path, "\ntaut: why it ended\n").unwrap();
    assert_eq!(output_since(&log, 1), "why it ended");
    assert_eq!(open_log(state).unwrap().2, 20, "new output begins behind the old one");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(state.join("led"), &path).unwrap();
    assert!(open_log(state).is_err() && !state.join("led").exists());
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(open_log(state).is_err(), "and it waits for no reader");
}
