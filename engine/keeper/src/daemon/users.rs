//! What local users ask, and what they are answered.

use std::rc::Rc;

use taut_base::Time;
use taut_control::Command;
use taut_netmap::{JoinToken, name_from_host};

use super::{DISK_SILENCE, Daemon, RETRY_ACCEPT, clocks};
use crate::api::{CoordinatorStatus, Failure, Request, Response, SCHEMA, State, Status};
use crate::error::failure;
use crate::server::Server;
use crate::status;

impl Daemon {
    pub(super) fn accept(&mut self) {
        self.with_server(|server, daemon| {
            if !server.accept(&daemon.poller) {
                daemon.retry_accept = Some(clocks().now + RETRY_ACCEPT);
            }
        });
    }

    pub(super) fn serve(&mut self, token: u64) {
        self.with_server(|server, daemon| {
            let poller = Rc::clone(&daemon.poller);
            server.serve(token, &poller, |request| daemon.answer(request));
        });
    }

    /// The server needs the daemon to answer: it is taken out for that long.
    fn with_server(&mut self, work: impl FnOnce(&mut Server, &mut Self)) {
        if let Some(mut server) = self.server.take() {
            work(&mut server, self);
            self.server = Some(server);
        }
    }

    fn answer(&mut self, request: Request) -> Response {
        match request {
            Request::Status => Response::Status(Box::new(self.status())),
            Request::Up { join, name } => self.up(join.as_deref(), name),
            Request::Down => {
                self.tell(Command::Down);
                self.stop_overlay();
                self.problem = None;
                if let Some(identity) = &mut self.identity {
                    identity.wanted = false;
                }
                self.ending = self.config.exit_when_down;
                Response::Done
            }
        }
    }

    fn up(&mut self, join: Option<&str>, name: Option<String>) -> Response {
        let Some(join) = join else {
            let Some(identity) = &mut self.identity else {
                let hint = "join one with `taut up --join TOKEN`; the coordinator's operator has the token";
                return Response::Failed(failure("this node is not a member of any network", hint));
            };
            identity.wanted = true;
            (self.problem, self.disk) = (None, None);
            self.tell(Command::Up);
            self.apply_map();
            return Response::Done;
        };
        match join.parse::<JoinToken>() {
            Ok(token) => {
                let name = name.unwrap_or_else(|| name_from_host(&host_name()));
                (self.problem, self.disk) = (None, None);
                self.tell(Command::Join { token: Box::new(token), name });
                Response::Done
            }
            Err(error) => Response::Failed(failure(error, "check that the whole line was copied")),
        }
    }

    fn status(&mut self) -> Status {
        let drops = status::drops(self.overlay.as_mut());
        let now = clocks().now;
        let (map, overlay) = (self.map.as_deref(), self.overlay.as_ref());
        let coordinator = self.identity.as_ref().map(|_| CoordinatorStatus {
            url: self.url.clone(),
            connected: self.connected,
            last_error: self.last_error.clone(),
            map_version: map.map_or(0, |map| map.version),
        });
        Status {
            schema: SCHEMA,
            state: self.state(),
            version: self.config.version.clone(),
            pid: std::process::id(),
            network: map.map(|map| map.network.name.clone()),
            me: map.map(|map| status::myself(map, overlay)),
            coordinator,
            problem: self.problem.clone().or_else(|| self.disk_problem(now)),
            peers: map.map_or_else(Vec::new, |map| status::peers(map, overlay, self.presence.as_ref(), now)),
            drops,
            handshakes: status::handshakes(overlay),
        }
    }

    fn disk_problem(&self, now: Time) -> Option<Failure> {
        let (problem, said) = self.disk.as_ref()?;
        (now.since(*said) < DISK_SILENCE).then(|| problem.clone())
    }

    fn state(&self) -> State {
        match &self.identity {
            None => State::NeedsJoin,
            Some(identity) if !identity.wanted => State::Stopped,
            Some(_) if self.overlay.is_some() => State::Running,
            Some(_) => State::Connecting,
        }
    }
}

/// What the host calls itself; the network gives the node a name like it.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
