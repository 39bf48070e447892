//! `taut daemon`: the node itself, in the foreground.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use taut_agent::log::StderrFormat;
use taut_event::ServiceManager;

use crate::fault::Fault;
use crate::flags::{DaemonFlags, Resolved, Word, Words, unexpected};
use crate::version::VERSION;
use crate::{launch, output};

pub(crate) const ARGUMENTS: &str =
    "[--state DIR] [--socket PATH] [--port N] [--tun NAME] [--mtu N] [--no-tun-offload] …";

pub(crate) const DETAILS: &str = "\
    Runs until SIGTERM, SIGINT or, with --ephemeral, `taut down`. It connects at once if it was connected when it last ended.\n\
     Events go to standard error (with journald's priorities under systemd), to memory and to the state directory: `taut log` shows them.\n\n\
     --ephemeral        detach from the terminal and end with `taut down`; `taut up` starts a daemon this way\n";

/// Environment variable for tests: age in seconds at which a session is rekeyed. Tests set less than WireGuard's 120 s to observe several rekeys.
const TEST_REKEY: &str = "TAUT_TEST_REKEY_AFTER_S";

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut flags, mut ephemeral) = (DaemonFlags::from_environment(), false);
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flag == "--ephemeral" => ephemeral = true,
            Word::Flag(flag) if flags.take(flag, &mut words)? => {}
            other => return Err(unexpected(other)),
        }
    }
    if ephemeral {
        // This fails only for a process that already leads its group, for example one started by hand from a shell. It needs no new session.
        let _ = taut_event::new_session();
    }
    let Resolved { mut config, notes, .. } = flags.resolve()?;
    launch::check_host(&config)?;
    for note in notes {
        output::complain(&format!("taut: {note}"));
    }
    config.exit_when_down = ephemeral;
    config.rekey_after = std::env::var(TEST_REKEY).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    config.program = std::env::current_exe().ok();
    config.log.stderr = stderr_format(ephemeral);
    if !ephemeral {
        config.service = service_manager();
    }
    config.version = String::from(VERSION);
    taut_agent::run(config).map_err(|error| Fault::failed(error.to_string(), ""))
}

/// Returns the service manager that started this process. A daemon that `taut up` started has none: that of its parent waits for messages of another program.
fn service_manager() -> Option<Arc<ServiceManager>> {
    match ServiceManager::connect(|name| std::env::var_os(name)) {
        Ok(manager) => manager.map(Arc::new),
        Err(error) => {
            output::complain(&format!("taut: the service manager cannot be told that the daemon is ready: {error}"));
            None
        }
    }
}

/// Returns the format of events on standard error. A daemon that `taut up` started prints no events: its standard error is a file that is never rotated. That file
/// gets only the error of a daemon that cannot start; the events are in the state directory.
fn stderr_format(ephemeral: bool) -> StderrFormat {
    if ephemeral {
        return StderrFormat::None;
    }
    let stderr =
        std::io::stderr().as_fd().try_clone_to_owned().map(std::fs::File::from).and_then(|file| file.metadata());
    let journal = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    match stderr {
        Ok(found) if journal == format!("{}:{}", found.dev(), found.ino()) => StderrFormat::Journal,
        _ => StderrFormat::Text,
    }
}
