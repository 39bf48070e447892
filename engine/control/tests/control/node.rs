//! A control thread as the agent uses it, with a state directory that is removed at the end of the test.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use taut_control::{Command, Control, ControlEvent, MemberIdentity, Options};
use taut_event::{Events, Interest, Poller, Waker};
use taut_netmap::{JoinToken, NetworkMap};

use crate::coordinator::TEST_TIMEOUT;

pub(crate) struct StateDir(PathBuf);

impl StateDir {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("taut-control-{}-{number}", std::process::id())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Node {
    control: Option<Control>,
    poller: Poller,
    waker: Waker,
}

impl Node {
    pub(crate) fn start(state: &StateDir) -> Self {
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        poller.add(waker.as_fd(), 0, Interest::READ).unwrap();
        let options = Options {
            state_dir: state.path().to_path_buf(),
            version: String::from("test"),
            log_gap: |missing| missing.to_string(),
        };
        let control = Control::start(options, waker.clone(), || {}).unwrap();
        Self { control: Some(control), poller, waker }
    }

    pub(crate) fn send(&self, command: Command) {
        self.control.as_ref().unwrap().send(command);
    }

    pub(crate) fn join(&self, token: Box<JoinToken>) {
        self.send(Command::Join { token, name: String::from("a") });
    }

    pub(crate) fn event(&self) -> ControlEvent {
        let mut ready = Events::with_capacity(1);
        loop {
            self.waker.drain();
            if let Some(event) = self.control.as_ref().unwrap().try_event() {
                return event;
            }
            self.poller.wait(&mut ready, Some(TEST_TIMEOUT)).unwrap();
            assert!(!ready.is_empty(), "no event came");
        }
    }

    /// Returns the next event if one is queued, without waiting.
    pub(crate) fn event_at_once(&self) -> Option<ControlEvent> {
        self.control.as_ref().unwrap().try_event()
    }

    /// Returns the result of `pick` for the next event for which it returns `Some`. Skips all other events.
    pub(crate) fn expect<T>(&self, mut pick: impl FnMut(ControlEvent) -> Option<T>) -> T {
        loop {
            if let Some(found) = pick(self.event()) {
                return found;
            }
        }
    }

    pub(crate) fn identity(&self) -> Box<MemberIdentity> {
        self.expect(|event| if let ControlEvent::Identity(identity) = event { Some(identity) } else { None })
    }

    pub(crate) fn map(&self) -> Arc<NetworkMap> {
        self.expect(|event| if let ControlEvent::Map(map) = event { Some(map) } else { None })
    }

    pub(crate) fn disconnected(&self) -> String {
        self.expect(|event| if let ControlEvent::Disconnected { why, .. } = event { Some(why) } else { None })
    }

    pub(crate) fn connected(&self) -> String {
        self.expect(|event| if let ControlEvent::Connected { url, .. } = event { Some(url) } else { None })
    }

    pub(crate) fn stop(mut self) {
        if let Some(control) = self.control.take() {
            control.stop();
        }
    }
}
