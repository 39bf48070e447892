//! A control thread as the agent sees it, with a state directory that is gone at the end.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use taut_control::{Command, Control, Event, Identity, Options};
use taut_event::{Events, Interest, Poller, Waker};
use taut_netmap::{JoinToken, NetworkMap};

use crate::coordinator::PATIENCE;

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
        let options = Options { state_dir: state.path().to_path_buf(), version: String::from("test") };
        let control = Control::start(options, waker.clone()).unwrap();
        Self { control: Some(control), poller, waker }
    }

    pub(crate) fn send(&self, command: Command) {
        self.control.as_ref().unwrap().send(command);
    }

    pub(crate) fn join(&self, token: Box<JoinToken>) {
        self.send(Command::Join { token, name: String::from("a") });
    }

    pub(crate) fn event(&self) -> Event {
        let mut ready = Events::with_capacity(1);
        loop {
            self.waker.drain();
            if let Some(event) = self.control.as_ref().unwrap().try_event() {
                return event;
            }
            self.poller.wait(&mut ready, Some(PATIENCE)).unwrap();
            assert!(!ready.is_empty(), "no event came");
        }
    }

    /// The next event, if it is there already.
    pub(crate) fn event_at_once(&self) -> Option<Event> {
        self.control.as_ref().unwrap().try_event()
    }

    /// The next event that `pick` wants; others are passed over.
    pub(crate) fn expect<T>(&self, mut pick: impl FnMut(Event) -> Option<T>) -> T {
        loop {
            if let Some(found) = pick(self.event()) {
                return found;
            }
        }
    }

    pub(crate) fn identity(&self) -> Box<Identity> {
        self.expect(|event| if let Event::Identity(identity) = event { Some(identity) } else { None })
    }

    pub(crate) fn map(&self) -> Arc<NetworkMap> {
        self.expect(|event| if let Event::Map(map) = event { Some(map) } else { None })
    }

    pub(crate) fn disconnected(&self) -> String {
        self.expect(|event| if let Event::Disconnected { why, .. } = event { Some(why) } else { None })
    }

    pub(crate) fn connected(&self) -> String {
        self.expect(|event| if let Event::Connected { url } = event { Some(url) } else { None })
    }

    pub(crate) fn stop(mut self) {
        if let Some(control) = self.control.take() {
            control.stop();
        }
    }
}
