//! Helpers of the tests: a coordinator in this process, and a node on a control channel.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;
use taut_base::{NodeId, PrivateKey, PublicKey, WhenFull, encode_base64url};
use taut_netmap::{
    CONTROL_PATH, Enrol, Hello, JoinToken, NetworkMap, Problem, ProblemCode, SCHEMA, ToCoordinator, ToNode, Waiting,
    prologue,
};
use taut_noise::ik::Initiator;
use taut_noise::{Transport, public_key};
use taut_relay_server::{AdmissionTable, ConnectionAdmission};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use crate::api;
use crate::oidc::{OidcOptions, Provider};
use crate::state::{Expiry, FirstStart, StartOptions, State, TICKET_LIFE, random};
use crate::store::{Location, NetworkId, Party, Writing, forget_database, location_for_test, view};
use crate::webhooks::Sender;

/// Timeout of every wait, 20 s; only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A directory that is removed after its test.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("taut-coordinator-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    /// Returns where the test's database is.
    pub(crate) fn database(&self) -> Location {
        Runtime::new().unwrap().block_on(location_for_test(&self.0))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        Runtime::new().unwrap().block_on(forget_database(&self.0));
    }
}

/// Returns all rows of a database.
pub(super) fn dump(database: &Location) -> Vec<String> {
    Runtime::new()
        .unwrap()
        .block_on(async { view(database).await.unwrap().expect("tables of this release").dump().await })
}

/// A running coordinator.
pub(super) struct TestCoordinator {
    pub(super) address: SocketAddr,
    pub(super) state: Arc<State>,
    pub(super) first: Option<FirstStart>,
    runtime: Runtime,
    /// Set to true: the coordinator is about to stop.
    pub(super) leave: watch::Sender<bool>,
    stop: watch::Sender<bool>,
    server: Option<tokio::task::JoinHandle<()>>,
}

impl TestCoordinator {
    pub(super) fn start(directory: &Directory) -> Self {
        Self::start_with(&directory.0, "100.64.0.0/10")
    }

    /// Starts a coordinator whose tickets are valid for this number of seconds.
    pub(super) fn start_with_tickets(directory: &Directory, ticket_life: u32) -> Self {
        Self::open(&directory.0, "100.64.0.0/10", ticket_life, 1_024)
    }

    /// Starts a coordinator with this limit on control channels.
    pub(super) fn start_with_channels(directory: &Directory, channels: usize) -> Self {
        Self::open(&directory.0, "100.64.0.0/10", TICKET_LIFE, channels)
    }

    pub(super) fn start_with(directory: &Path, ipv4: &str) -> Self {
        Self::open(directory, ipv4, TICKET_LIFE, 1_024)
    }

    /// Starts a coordinator with a database that it may share with others.
    pub(super) fn start_on(directory: &Directory, database: &Location) -> Self {
        Self::begin(&directory.0, database.clone(), "100.64.0.0/10", TICKET_LIFE, 1_024)
    }

    fn open(directory: &Path, ipv4: &str, ticket_life: u32, channels: usize) -> Self {
        let database = Runtime::new().unwrap().block_on(location_for_test(directory));
        Self::begin(directory, database, ipv4, ticket_life, channels)
    }

    /// Returns why a coordinator does not start.
    pub(super) fn refusal(directory: &Directory, database: &Location) -> String {
        let options = Self::options(&directory.0, database.clone(), "100.64.0.0/10", TICKET_LIFE);
        Runtime::new().unwrap().block_on(State::open(options)).err().unwrap().to_string()
    }

    fn options(directory: &Path, database: Location, ipv4: &str, ticket_life: u32) -> StartOptions {
        StartOptions {
            directory: directory.to_path_buf(),
            database,
            urls: vec![String::from("http://127.0.0.1:8288")],
            network: String::from("default"),
            ipv4: ipv4.parse().unwrap(),
            ticket_life,
            audit_days: 365,
            provider: None,
            sender: Sender::new(false),
        }
    }

    /// Starts a coordinator at whose OpenID provider people can sign in.
    pub(super) fn start_with_provider(directory: &Directory, oidc: OidcOptions) -> Self {
        let database = Runtime::new().unwrap().block_on(location_for_test(&directory.0));
        Self::start_with_provider_on(directory, &database, oidc)
    }

    /// The same, with a database that it may share with others.
    pub(super) fn start_with_provider_on(directory: &Directory, database: &Location, oidc: OidcOptions) -> Self {
        let options = Self::options(&directory.0, database.clone(), "100.64.0.0/10", TICKET_LIFE);
        let provider = Some(Arc::new(Provider::new(oidc).unwrap()));
        Self::run(StartOptions { provider, ..options }, 1_024)
    }

    /// Starts a coordinator whose webhooks may be at private addresses.
    pub(super) fn start_with_webhooks(directory: &Directory, database: &Location) -> Self {
        let options = Self::options(&directory.0, database.clone(), "100.64.0.0/10", TICKET_LIFE);
        Self::run(StartOptions { sender: Sender::new(true), ..options }, 1_024)
    }

    fn begin(directory: &Path, database: Location, ipv4: &str, ticket_life: u32, channels: usize) -> Self {
        Self::run(Self::options(directory, database, ipv4, ticket_life), channels)
    }

    fn run(options: StartOptions, channels: usize) -> Self {
        let runtime = Runtime::new().unwrap();
        let (state, first) = runtime.block_on(State::open(options)).unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let state = Arc::new(state);
        let admission = ConnectionAdmission::new(1_024, vec!["127.0.0.1/32".parse().unwrap()]);
        let channels = AdmissionTable::new(channels, WhenFull::Balance);
        let (leave, leaving) = watch::channel(false);
        let front = api::Front { relay: None, admission, channels, tls: None, leaving };
        let server = Some(runtime.spawn(api::serve(Arc::clone(&state), front, vec![Arc::new(listener)], stopped)));
        Self { address, state, first, runtime, leave, stop, server }
    }

    /// Returns what a node with version `have` of its map is sent.
    pub(super) fn update_for(&self, network: NetworkId, node: NodeId, have: u64) -> ToNode {
        let update = self.wait(self.state.update_for(network, node, have)).unwrap();
        serde_json::from_slice(&update.message.expect("a node that takes part")).unwrap()
    }

    /// Begins the end of the coordinator, as the time to drain is over.
    pub(super) fn begin_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns true if the coordinator has ended.
    pub(super) fn has_stopped(&self) -> bool {
        self.server.as_ref().is_none_or(tokio::task::JoinHandle::is_finished)
    }

    /// Ends the coordinator as a signal that cannot be handled does: nobody is told.
    pub(super) fn kill(mut self) {
        drop(self.server.take());
        let runtime = std::mem::replace(&mut self.runtime, Runtime::new().unwrap());
        runtime.shutdown_background();
    }

    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(super) fn token(&self) -> JoinToken {
        self.first.as_ref().unwrap().join_token.parse().unwrap()
    }

    /// Keeps the one writer busy until the value is dropped.
    pub(super) fn hold_writer(&self) -> HeldWriter<'_> {
        HeldWriter { turn: Some(self.wait(self.state.store().write(Party::Coordinator)).unwrap()), coordinator: self }
    }

    /// Returns the number of the first network.
    pub(super) fn network(&self) -> NetworkId {
        self.wait(self.state.networks()).unwrap()[0].row.id
    }

    pub(super) fn operator_token(&self) -> &str {
        &self.first.as_ref().unwrap().operator_token
    }

    pub(super) fn key(&self, reusable: bool, expiry: Expiry) -> (i64, JoinToken) {
        let (_, row, token) = self.wait(self.state.create_key(None, reusable, expiry)).unwrap();
        (row.id, token.parse().unwrap())
    }

    /// Joins a new host, which tries again while the database is busy, as nodes do.
    pub(super) fn join(&self, name: &str) -> TestNode {
        let (host, begin) = (TestHost::new(), Instant::now());
        loop {
            match host.join(self, &self.token(), name) {
                Err(problem) if problem.code == ProblemCode::Unavailable && begin.elapsed() < TEST_TIMEOUT => {}
                other => return other.unwrap(),
            }
        }
    }

    /// Sends a request to the operator's API, and checks the answer against the OpenAPI document.
    pub(super) fn ask(&self, method: &str, path: &str, token: Option<&str>, body: Option<&str>) -> (u16, Value) {
        let (status, answer) = self.ask_unchecked(method, path, token, body);
        super::document::check_answer(method, path, status, &answer);
        (status, answer)
    }

    /// Sends a request with the operator token. Returns the answer as a type of the contract.
    pub(super) fn ask_for<A: DeserializeOwned>(&self, method: &str, path: &str, body: Option<&str>) -> A {
        let (status, answer) = self.ask(method, path, Some(self.operator_token()), body);
        serde_json::from_value(answer.clone())
            .unwrap_or_else(|error| panic!("{method} {path}: {status} {answer}: {error}"))
    }

    /// Sends a request. The answer is not checked against the OpenAPI document.
    pub(super) fn ask_unchecked(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&str>,
    ) -> (u16, Value) {
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).proxy(None).timeout_global(Some(TEST_TIMEOUT));
        let agent: ureq::Agent = config.allow_non_standard_methods(true).build().into();
        let mut request = ureq::http::Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = body.unwrap_or_default().to_owned();
        let mut response = agent.run(request.body(body).unwrap()).unwrap();
        (response.status().as_u16(), response.body_mut().read_json().unwrap_or(Value::Null))
    }
}

impl Drop for TestCoordinator {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(server) = self.server.take() {
            let _ = self.runtime.block_on(server);
        }
    }
}

/// Guard that occupies the coordinator's one writer. A transaction must be dropped within its runtime.
pub(super) struct HeldWriter<'a> {
    turn: Option<Writing>,
    coordinator: &'a TestCoordinator,
}

impl Drop for HeldWriter<'_> {
    fn drop(&mut self) {
        let _runtime = self.coordinator.runtime.enter();
        drop(self.turn.take());
    }
}

/// A host's keys.
#[derive(Clone)]
pub(super) struct TestHost {
    pub(super) machine: PrivateKey,
    pub(super) node: PublicKey,
    /// The random number of this start of its program.
    pub(super) run: u64,
}

impl TestHost {
    pub(super) fn new() -> Self {
        let [machine, node] = [random(), random()].map(PrivateKey::from_bytes);
        Self { machine, node: public_key(&node), run: 1 }
    }

    pub(super) fn join(
        &self,
        coordinator: &TestCoordinator,
        token: &JoinToken,
        name: &str,
    ) -> Result<TestNode, Problem> {
        let enrol = Enrol { secret: encode_base64url(&token.secret), name: String::from(name) };
        TestNode::begin(self, coordinator, token, Some(enrol), None)
    }

    /// Reconnects with an earlier map.
    pub(super) fn resume(
        &self,
        coordinator: &TestCoordinator,
        token: &JoinToken,
        map: Option<NetworkMap>,
    ) -> Result<TestNode, Problem> {
        TestNode::begin(self, coordinator, token, None, map)
    }

    pub(super) fn hello(&self, enrol: Option<Enrol>, have: u64) -> ToCoordinator {
        ToCoordinator::Hello(Hello {
            schema: SCHEMA,
            node_key: self.node,
            bind_key: None,
            enrol,
            have,
            version: String::from("test"),
            request: None,
            run: self.run,
        })
    }
}

/// A control channel on which no hello was sent.
pub(super) struct TestChannel {
    pub(super) socket: WebSocket<TcpStream>,
    pub(super) transport: Transport,
}

impl TestChannel {
    /// Opens a channel and performs the handshake; `None` if the coordinator closes the connection.
    pub(super) fn open(address: SocketAddr, token: &JoinToken, machine: &PrivateKey) -> Option<Self> {
        Self::begin(Self::socket(address, &token.network), token, machine)
    }

    /// Performs the handshake on an open WebSocket.
    pub(super) fn begin(mut socket: WebSocket<TcpStream>, token: &JoinToken, machine: &PrivateKey) -> Option<Self> {
        let ephemeral = PrivateKey::from_bytes(random());
        let (initiator, first) =
            Initiator::start(&prologue(&token.network), machine, &token.coordinator, ephemeral).unwrap();
        socket.send(Message::binary(first.to_vec())).unwrap();
        let second = read(&mut socket)?;
        Some(Self { socket, transport: initiator.finish(&second).unwrap() })
    }

    pub(super) fn socket(address: SocketAddr, network: &[u8; 16]) -> WebSocket<TcpStream> {
        Self::socket_by(address, network, None).expect("an open WebSocket")
    }

    /// Opens a WebSocket as a proxy does for this client; `None` when the coordinator closes it.
    pub(super) fn socket_by(
        address: SocketAddr,
        network: &[u8; 16],
        client: Option<&str>,
    ) -> Option<WebSocket<TcpStream>> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let network: String = network.iter().map(|byte| format!("{byte:02x}")).collect();
        let url = format!("ws://{address}{CONTROL_PATH}?network={network}");
        let mut request = url.into_client_request().unwrap();
        if let Some(client) = client {
            request.headers_mut().insert("x-forwarded-for", client.parse().unwrap());
        }
        tungstenite::client(request, stream).ok().map(|(socket, _)| socket)
    }

    pub(super) fn send(&mut self, message: &ToCoordinator) {
        let sealed = self.transport.seal(&serde_json::to_vec(message).unwrap());
        self.socket.send(Message::binary(sealed)).unwrap();
    }

    /// Sends a message unless the connection is closed, which the next [`Self::receive`] tells.
    pub(super) fn send_or_end(&mut self, message: &ToCoordinator) {
        let sealed = self.transport.seal(&serde_json::to_vec(message).unwrap());
        let _ = self.socket.send(Message::binary(sealed));
    }

    /// Receives the next message; `None` if the coordinator closed the connection.
    pub(super) fn receive(&mut self) -> Option<ToNode> {
        let plain = self.transport.open(read(&mut self.socket)?).unwrap();
        Some(serde_json::from_slice(&plain).unwrap())
    }
}

/// Receives the next binary message; `None` if the other side closed the connection. Panics after [`TEST_TIMEOUT`].
pub(super) fn read(socket: &mut WebSocket<TcpStream>) -> Option<Vec<u8>> {
    loop {
        match socket.read() {
            Ok(Message::Binary(bytes)) => return Some(bytes.to_vec()),
            Ok(Message::Close(_)) => return None,
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("nothing came in {TEST_TIMEOUT:?}")
            }
            Err(_) => return None,
        }
    }
}

/// A member with its map, as a node keeps it.
pub(super) struct TestNode {
    pub(super) host: TestHost,
    pub(super) network: NetworkId,
    pub(super) channel: TestChannel,
    pub(super) map: NetworkMap,
    pub(super) online: std::collections::BTreeSet<NodeId>,
    /// The last message about another host with its keys.
    pub(super) twin: Option<Problem>,
    /// The last message about what the node waits for; a map clears it.
    pub(super) waiting: Option<Waiting>,
    /// Seconds until its membership expires, as it was told last.
    pub(super) expires_in: Option<u64>,
    /// Number of full maps that arrived.
    pub(super) wholes: u32,
    /// Number of map changes that arrived.
    pub(super) deltas: u32,
}

impl TestNode {
    fn begin(
        host: &TestHost,
        coordinator: &TestCoordinator,
        token: &JoinToken,
        enrol: Option<Enrol>,
        map: Option<NetworkMap>,
    ) -> Result<Self, Problem> {
        let mut channel = TestChannel::open(coordinator.address, token, &host.machine).expect("an open channel");
        channel.send(&host.hello(enrol, map.as_ref().map_or(0, |map| map.version)));
        let (map, wholes) = match channel.receive().expect("an answer") {
            ToNode::Map(map) => (map, 1),
            ToNode::Delta(delta) => (map.expect("a delta only for a node with a map").apply(&delta).unwrap(), 0),
            ToNode::Refused(problem) => return Err(problem),
            other => panic!("{other:?} is no answer to a hello"),
        };
        map.check().unwrap();
        let mut node = Self {
            host: host.clone(),
            network: NetworkId(token.network),
            channel,
            map,
            online: Default::default(),
            twin: None,
            waiting: None,
            expires_in: None,
            wholes,
            deltas: 1 - wholes,
        };
        node.hear();
        Ok(node)
    }

    pub(super) fn id(&self) -> NodeId {
        self.map.me.id
    }

    /// Receives and applies the next message.
    pub(super) fn hear(&mut self) {
        let message = self.channel.receive().expect("a message");
        self.handle(message);
    }

    /// Applies a message.
    pub(super) fn handle(&mut self, message: ToNode) {
        match message {
            ToNode::Map(map) => {
                map.check().unwrap();
                self.wholes += 1;
                self.waiting = None;
                self.map = map;
            }
            ToNode::Delta(delta) => {
                self.deltas += 1;
                self.map = self.map.apply(&delta).unwrap();
            }
            ToNode::Presence { whole, nodes } => {
                if whole {
                    self.online.clear();
                }
                for (node, online) in nodes {
                    if online {
                        self.online.insert(node)
                    } else {
                        self.online.remove(&node)
                    };
                }
            }
            ToNode::Twin { problem } => self.twin = problem,
            ToNode::Ticket { .. } | ToNode::Pong | ToNode::Decision(_) => {}
            ToNode::Waiting(waiting) => self.waiting = Some(waiting),
            ToNode::Expiry { left } => self.expires_in = left,
            ToNode::Welcome { .. } => panic!("a welcome on a member's channel"),
            ToNode::Refused(problem) => panic!("refused: {problem}"),
        }
    }

    /// Applies messages until `reached` returns true.
    pub(super) fn hear_until(&mut self, reached: impl Fn(&Self) -> bool) {
        while !reached(self) {
            self.hear();
        }
    }

    /// Returns the map that this node would get now without one; `None` if it takes no part.
    pub(super) fn fresh(&self, coordinator: &TestCoordinator) -> Option<NetworkMap> {
        let update = coordinator.wait(coordinator.state.update_for(self.network, self.id(), 0)).unwrap();
        update.message.map(|message| match serde_json::from_slice(&message).unwrap() {
            ToNode::Map(map) => map,
            other => panic!("{other:?} for a node without a map"),
        })
    }

    /// Returns the full map that a node without a map would get now.
    pub(super) fn fresh_map(&self, coordinator: &TestCoordinator) -> NetworkMap {
        match coordinator.update_for(self.network, self.id(), 0) {
            ToNode::Map(map) => map,
            other => panic!("{other:?} for a node without a map"),
        }
    }
}
