//! Requests of local users, and the responses.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use taut_base::{Prefix, SortedSet, Time};
use taut_control::{Command, OtherPrefixes, Place};
use taut_event::Poller;
use taut_netmap::{JoinToken, WaitingFor, fingerprint, name_from_host};

use super::Daemon;
use super::news::EXPIRES_SOON;
use crate::api::{
    ApiRequest, ApiResponse, CoordinatorPlace, CoordinatorStatus, Failure, NodeState, PeerStatus, SCHEMA, Status,
    WaitingStatus,
};
use crate::basics::clocks;
use crate::kill_switch::LONGEST_PAUSE;
use crate::log::{Value, kind};
use crate::metrics;
use crate::metrics::http::MetricsServer;
use crate::overlay::Overlay;
use crate::server::ApiServer;
use crate::status;
use crate::status::why::{self, Evidence};

impl Daemon {
    /// Accepts connections of local users.
    pub(super) fn accept(&mut self) {
        self.with_server(|server, daemon| server.accept(&daemon.poller, clocks().now));
    }

    /// Serves a connection of a local user.
    pub(super) fn serve(&mut self, token: u64) {
        self.with_server(|server, daemon| {
            let poller = Rc::clone(&daemon.poller);
            server.serve(token, &poller, clocks().now, |request| daemon.reply(request));
        });
    }

    /// Does the work that is due for local users.
    pub(super) fn turn_server(&mut self) {
        self.with_server(|server, daemon| {
            let poller = Rc::clone(&daemon.poller);
            server.handle_timeout(&poller, || clocks().now, |request| daemon.reply(request));
        });
    }

    /// Serves a client of the metrics port.
    pub(super) fn serve_metrics(&mut self, token: u64) {
        self.with_metrics(|responder, poller, now, daemon| {
            responder.serve(token, poller, now, || metrics::render(&daemon.status()));
        });
    }

    /// Does the work that is due at the metrics port.
    pub(super) fn turn_metrics(&mut self, now: Time) {
        if self.metrics.as_ref().and_then(MetricsServer::poll_timeout).is_some_and(|due| due <= now) {
            self.with_metrics(|responder, poller, now, daemon| {
                responder.handle_timeout(poller, now, || metrics::render(&daemon.status()));
            });
        }
    }

    /// Calls `work` with the responder, which is taken out of the daemon meanwhile, because it needs the daemon to make a page. The time is charged to its clients.
    fn with_metrics(&mut self, work: impl FnOnce(&mut MetricsServer, &Poller, Time, &mut Self)) {
        if let Some(mut responder) = self.metrics.take() {
            let (poller, now) = (Rc::clone(&self.poller), clocks().now);
            work(&mut responder, &poller, now, self);
            responder.charge(clocks().now.since(now), now);
            self.metrics = Some(responder);
        }
    }

    /// Calls `work` with the server, which is taken out of the daemon meanwhile, because it needs the daemon to answer.
    fn with_server(&mut self, work: impl FnOnce(&mut ApiServer, &mut Self)) {
        if let Some(mut server) = self.server.take() {
            work(&mut server, self);
            self.server = Some(server);
        }
    }

    /// Answers a request, unless the daemon is ending: a client that learned of `down` waits until its connection ends, and an answer in between would let the next
    /// `taut up` reach the daemon that ends.
    fn reply(&mut self, request: ApiRequest) -> Option<ApiResponse> {
        self.ending.is_none().then(|| self.answer(request))
    }

    fn answer(&mut self, request: ApiRequest) -> ApiResponse {
        if let Some(command) = name(&request) {
            // `taut leave` and a failed `taut up --join` end a daemon that has no membership with the request of `taut down`.
            let is_cleanup = command == "down" && !self.member.exists;
            let kind = if is_cleanup { &kind::COMMAND_CLEANUP } else { &kind::USER_COMMAND };
            self.note(kind, &[Value::Word(command)]);
        }
        match request {
            ApiRequest::Status => ApiResponse::Status(Box::new(self.status())),
            ApiRequest::Why { peer } => self.why(&peer),
            ApiRequest::Reach(connection) => self.reach(connection),
            ApiRequest::Metrics => ApiResponse::Metrics { text: metrics::render(&self.status()) },
            ApiRequest::Up { join, name, coordinator } => {
                self.guard.is_down = false;
                match (join, coordinator) {
                    (None, Some(place)) => self.ask(Some(place), name),
                    (join, _) => self.up(join.as_deref(), name),
                }
            }
            ApiRequest::RotateKey => self.rotate_key(),
            ApiRequest::AcceptPrefixes { prefixes } => self.accept_prefixes(&prefixes),
            ApiRequest::Down => {
                self.tell(Command::Down);
                self.guard.is_down = true;
                self.stop_overlay("user-down");
                (self.problems.network, self.problems.duplicate) = (None, None);
                // The control thread closes the connection. A later `up` must report only its own attempt.
                (self.coordinator.connected, self.coordinator.presence) = (false, None);
                (self.coordinator.last_error, self.coordinator.retry_at) = (None, None);
                self.coordinator.lost = None;
                if let Some(identity) = &mut self.member.identity {
                    identity.wanted = false;
                }
                self.end_exit(clocks().now);
                if self.config.exit_when_down {
                    self.ending = self.ending.or(Some("user-down"));
                }
                ApiResponse::Done
            }
            ApiRequest::Leave => self.leave(),
            ApiRequest::Log { from } => self.read_log(from),
            ApiRequest::LogLevel { levels } => self.set_levels(&levels),
            ApiRequest::PauseExit { seconds } => {
                self.pause_exit(Duration::from_secs(seconds).min(LONGEST_PAUSE), clocks());
                ApiResponse::Done
            }
            ApiRequest::Settings => self.settings(),
            ApiRequest::Set { changes, session } => self.set(&changes, session),
        }
    }

    fn up(&mut self, join: Option<&str>, name: Option<String>) -> ApiResponse {
        if self.is_leaving() {
            let message = "this node is leaving its network at the moment";
            return ApiResponse::Failed(Failure::new(
                message,
                "try again in some seconds; `taut status` shows when it has left",
            ));
        }
        let token = match join.map(str::parse::<JoinToken>).transpose() {
            Ok(token) => token,
            Err(error) => return ApiResponse::Failed(Failure::new(error, "copy the whole line of the token")),
        };
        if let Some(refusal) = self.refusal(token.as_ref(), name.as_deref()) {
            return ApiResponse::Failed(refusal);
        }
        let waits = self.coordinator.waiting.as_ref().map(|(waiting, _)| waiting.reason);
        let Some(token) = token else {
            let was_member = self.member.identity.is_none() && self.member.exists;
            if was_member || waits == Some(WaitingFor::Renewal) || waits == Some(WaitingFor::Approval) {
                // The coordinator is known: a person approves this node, again or for the first time.
                return self.ask(None, name);
            }
            let Some(identity) = &mut self.member.identity else {
                let hint = "join one with `taut up --join TOKEN`, or ask a coordinator with `taut up --coordinator URL`; the operator has both";
                return ApiResponse::Failed(Failure::new("this node is not a member of any network", hint));
            };
            identity.wanted = true;
            (self.problems.network, self.problems.disk) = (None, None);
            self.tell(Command::Up);
            self.apply_map();
            return ApiResponse::Done;
        };
        // The name that a member requested when it joined is kept: see `refusal`.
        let asked_before = self.member.identity.as_ref().map(|identity| identity.name.clone());
        let given = if self.member.map.is_some() { asked_before.or(name) } else { name.or(asked_before) };
        let name = given.unwrap_or_else(|| name_from_host(&host_name()));
        (self.problems.network, self.problems.disk, self.leave) = (None, None, None);
        self.tell(Command::Join { token: Box::new(token), name });
        ApiResponse::Done
    }

    fn rotate_key(&mut self) -> ApiResponse {
        if self.member.map.is_none() || !self.coordinator.connected {
            let message =
                "the key is not rotated, because this node is not connected to the coordinator of its network";
            return ApiResponse::Failed(Failure::new(
                message,
                "`taut status` shows why; try again once it is connected",
            ));
        }
        self.problems.network = None;
        self.tell(Command::RotateKey);
        ApiResponse::Done
    }

    /// Asks a person to let this node in, or to renew its membership.
    fn ask(&mut self, place: Option<CoordinatorPlace>, name: Option<String>) -> ApiResponse {
        if self.is_leaving() {
            let message = "this node is leaving its network at the moment";
            return ApiResponse::Failed(Failure::new(message, "try again in some seconds"));
        }
        if let Some(refusal) = self.refusal(None, name.as_deref()) {
            return ApiResponse::Failed(refusal);
        }
        let asked_before = self.member.identity.as_ref().map(|identity| identity.name.clone());
        let name = name.or(asked_before).unwrap_or_else(|| name_from_host(&host_name()));
        (self.problems.network, self.problems.disk, self.leave) = (None, None, None);
        let is_waiting = self.coordinator.waiting.as_ref().is_some_and(|(waiting, _)| waiting.code.is_some());
        if place.is_none() && is_waiting {
            return ApiResponse::Done;
        }
        let place = place.map(|CoordinatorPlace { url, key }| Place { url, key });
        self.tell(Command::Ask { place, name });
        ApiResponse::Done
    }

    /// Returns the reason why a member cannot carry out `taut up`: it is in another network, or has another name. The name that it requested when it joined counts as
    /// its own, so the same command line works at every start.
    fn refusal(&self, token: Option<&JoinToken>, name: Option<&str>) -> Option<Failure> {
        let (identity, map) = (self.member.identity.as_ref()?, self.member.map.as_ref()?);
        let (network, own) = (&map.network.name, &map.me.name);
        if token.is_some_and(|token| token.network != identity.network) {
            let message =
                format!("this node is a member of network {network} already, and the join token is for another one");
            let hint = "join it beside this one with `taut up --network NAME --join TOKEN`, or leave this one with `taut leave` first";
            return Some(Failure::new(message, hint));
        }
        let name = name_from_host(name?);
        if name == *own || name == name_from_host(&identity.name) {
            return None;
        }
        let message =
            format!("this node is a member of network {network} already, as {own}; --hostname does not rename it");
        Some(Failure::new(message, format!("the operator renames it: `taut-coordinator nodes rename {own} {name}`")))
    }

    /// Carries out the user's consent to the prefixes that the coordinator wants. The user has to name all prefixes that change, which shows that they were read.
    fn accept_prefixes(&self, prefixes: &[Prefix]) -> ApiResponse {
        let Some(OtherPrefixes { pinned, wanted }) = self.coordinator.other_prefixes else {
            let message = "the coordinator does not ask for other overlay prefixes than those in force";
            return ApiResponse::Failed(Failure::new(message, "`taut status` names them if it does"));
        };
        let changed = pinned.changed(&wanted);
        let (given, asked): (SortedSet<_>, SortedSet<_>) = (prefixes.iter().collect(), changed.iter().collect());
        if given != asked {
            let message = format!("these are not the prefixes that the coordinator asks for: {}", listed(&changed));
            return ApiResponse::Failed(Failure::new(message, "name all of them, and no others"));
        }
        self.tell(Command::AcceptPrefixes(wanted));
        ApiResponse::Done
    }

    fn prefix_problem(&self) -> Option<Failure> {
        let OtherPrefixes { pinned, wanted } = self.coordinator.other_prefixes?;
        let changed = listed(&pinned.changed(&wanted));
        Some(Failure::new(
            format!(
                "the coordinator wants other addresses for the overlay ({wanted}) than those in force on this host ({pinned}); \
                 the last network map with these stays in force"
            ),
            format!(
                "ask the operator whether that is meant: a coordinator that was broken into can draw addresses of your local network into the overlay this \
                 way. To consent, run `taut accept {changed}` as root"
            ),
        ))
    }

    fn status(&mut self) -> Status {
        let drops = status::drops(self.overlay.as_mut());
        let kill_switch = self.kill_switch_status();
        let now = clocks().now;
        let (map, overlay) = (self.member.map.as_deref(), self.overlay.as_ref());
        let coordinator = self.member.identity.as_ref().map(|_| CoordinatorStatus {
            url: self.coordinator.url.clone(),
            connected: self.coordinator.connected,
            last_error: self.coordinator.last_error.clone(),
            disconnected_s: self.coordinator.lost.map(|lost| status::seconds(now.since(lost))),
            retry_in_s: self.coordinator.retry_at.map(|next| status::seconds(next.since(now))),
            map_version: map.map_or(0, |map| map.version),
        });
        let exit = map.map(|map| status::exit(map, &self.config.routes, overlay, self.exit_paused(now)));
        Status {
            schema: SCHEMA,
            state: self.state(),
            version: self.config.version.clone(),
            pid: std::process::id(),
            network: map.map(|map| map.network.name.clone()),
            me: map.map(|map| status::myself(map, overlay, self.names_status(map))),
            coordinator,
            problem: self
                .problems
                .network
                .clone()
                .or_else(|| self.prefix_problem())
                .or_else(|| overlay.and_then(Overlay::problem))
                .or_else(|| self.problems.duplicate.clone())
                .or_else(|| self.problems.disk(now)),
            waiting: self.coordinator.waiting.as_ref().map(|(waiting, end)| WaitingStatus {
                reason: waiting.reason,
                problem: Failure { message: waiting.message.clone(), hint: waiting.hint.clone() },
                code: waiting.code.clone(),
                page: waiting.page.clone(),
                expires_in_s: end.map(|end| status::seconds(end.since(now))),
                machine: self.member.identity.as_ref().map(|own| fingerprint(&own.machine)).unwrap_or_default(),
            }),
            expires_in_s: self.coordinator.expires.map(|end| status::seconds(end.since(now))),
            warnings: self
                .expiry_warning(now)
                .into_iter()
                .chain(self.outside_warning())
                .chain(self.kill_switch_warning())
                .chain(self.exit_warnings())
                .chain(overlay.map_or_else(Vec::new, Overlay::warnings))
                .chain(map.map_or_else(Vec::new, |map| self.names_warnings(map)))
                .chain(exit.as_ref().and_then(|exit| exit.problem.clone()))
                .chain(status::exit_warning(&self.config.routes))
                .collect(),
            peers: map
                .map_or_else(Vec::new, |map| status::peers(map, overlay, self.coordinator.presence.as_ref(), now)),
            drops,
            handshakes: status::handshakes(overlay),
            nat: overlay.map(|overlay| status::nat(&overlay.node().nat_report(), self.coordinator.connected)),
            relays: map.map_or_else(Vec::new, |map| status::relays(map, overlay)),
            routes: map.map(|map| status::routes(map, &self.config.routes, overlay)),
            kill_switch,
            exit,
            port_mapping: self.mapped.status(),
            leave: self.leave.clone(),
            sandbox: self.sandbox.clone(),
            #[cfg(feature = "userspace")]
            userspace: overlay.and_then(Overlay::userspace).map(|userspace| userspace.report().clone()),
        }
    }

    /// Returns a warning if the membership expires soon.
    fn expiry_warning(&self, now: Time) -> Option<Failure> {
        let left = self.coordinator.expires?.since(now);
        (left <= EXPIRES_SOON && self.coordinator.waiting.is_none()).then(|| {
            let (days, hours) = (left.as_secs() / 86_400, left.as_secs() / 3600);
            let time = if days > 1 { format!("{days} days") } else { format!("{hours} h") };
            let message = format!("this node's membership expires in {time}; it then loses all peers");
            Failure::new(
                message,
                "ask the operator (`taut-coordinator devices approve NAME`), or renew it with `taut up --join TOKEN`",
            )
        })
    }

    /// Explains the path to a peer.
    fn why(&mut self, who: &str) -> ApiResponse {
        let status = self.status();
        let address: Option<IpAddr> = who.parse().ok();
        let is_meant = |peer: &&PeerStatus| match address {
            Some(address) => peer.addresses.contains(&address),
            None => peer.name.eq_ignore_ascii_case(who),
        };
        let Some(peer) = status.peers.iter().find(is_meant) else {
            let message = format!("there is no peer `{who}` in the network");
            return ApiResponse::Failed(Failure::new(message, "`taut status` lists all peers"));
        };
        let node = self.overlay.as_ref().map(Overlay::node);
        let view = node.and_then(|node| node.peers().find(|view| view.node.0 == peer.id));
        let report = node.zip(view.as_ref()).and_then(|(node, view)| node.report(view.id, clocks().now));
        let lately = |time| clocks().now.since(time) < why::RECENT_TRAFFIC;
        let wanted = view.is_some_and(|view| view.trying || view.wanted.is_some_and(lately));
        let (ours, connected) = (status.nat.clone(), self.coordinator.connected);
        let others = node.is_some_and(|node| {
            let mut others = node.peers().filter(|view| view.node.0 != peer.id);
            others.any(|view| node.report(view.id, clocks().now).is_some_and(|report| why::answers(&report)))
        });
        let evidence = Evidence { peer, report, wanted, connected, others, ours, relays: &status.relays };
        ApiResponse::Why(Box::new(why::explain(evidence)))
    }

    /// Returns what this node does.
    pub(super) fn state(&self) -> NodeState {
        match &self.member.identity {
            None => NodeState::NeedsJoin,
            Some(identity) if !identity.wanted => NodeState::Stopped,
            Some(_) if self.overlay.is_some() => NodeState::Running,
            Some(_) => NodeState::Connecting,
        }
    }
}

/// Returns the name of a request that changes something, as its verb; what a join token holds is not in it.
fn name(request: &ApiRequest) -> Option<&'static str> {
    match request {
        ApiRequest::Up { join: None, coordinator: Some(_), .. } => Some("up --coordinator"),
        ApiRequest::Up { join: None, .. } => Some("up"),
        ApiRequest::Up { join: Some(_), .. } => Some("up --join"),
        ApiRequest::RotateKey => Some("rotate-key"),
        ApiRequest::Down => Some("down"),
        ApiRequest::Leave => Some("leave"),
        ApiRequest::AcceptPrefixes { .. } => Some("accept"),
        // They have events of their own.
        ApiRequest::LogLevel { .. } | ApiRequest::Set { .. } | ApiRequest::PauseExit { .. } => None,
        ApiRequest::Status
        | ApiRequest::Why { .. }
        | ApiRequest::Reach(_)
        | ApiRequest::Metrics
        | ApiRequest::Settings
        | ApiRequest::Log { .. } => None,
    }
}

/// Returns prefixes as arguments of a command.
fn listed(prefixes: &[Prefix]) -> String {
    prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns the host name, after which the network names the node.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
