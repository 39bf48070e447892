//! A running `serve`, and its clients: an operator and nodes. A client of a program that may be killed at any moment gets `None` instead of an answer.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;
use taut_base::{PrivateKey, PublicKey, encode_base64url};
use taut_netmap::{CONTROL_PATH, Enrol, Hello, JoinToken, SCHEMA, ToCoordinator, ToNode, prologue};
use taut_noise::ik::Initiator;
use taut_noise::{Transport, public_key};
use tungstenite::{Message, WebSocket};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_taut-coordinator");

/// Timeout of an answer, 30 s; only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A running `serve`.
pub(crate) struct Serve {
    child: Child,
    pub(crate) address: String,
    pub(crate) tokens: Option<(String, String)>,
}

impl Serve {
    pub(crate) fn spawn(directory: &Path) -> Child {
        Self::spawn_by(Command::new(PROGRAM), directory)
    }

    fn spawn_by(mut command: Command, directory: &Path) -> Child {
        set_database(&mut command, directory);
        command.arg("serve").arg("--state").arg(directory).args(["--listen", "127.0.0.1:0"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    pub(crate) fn start(directory: &Path) -> Self {
        Self::start_by(Command::new(PROGRAM), directory)
    }

    /// Starts the program by a command that runs it.
    pub(crate) fn start_by(command: Command, directory: &Path) -> Self {
        let mut serve = Self { child: Self::spawn_by(command, directory), address: String::new(), tokens: None };
        let mut printed = String::new();
        for line in BufReader::new(serve.child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some(address) = line.strip_prefix("listening on ") {
                serve.address = address.to_owned();
                let kept = std::fs::read_to_string(directory.join("first-tokens"));
                // Release 0.1.0 prints them and keeps no file.
                serve.tokens = first_tokens(&kept.unwrap_or(printed));
                return serve;
            }
            printed = printed + &line + "\n";
        }
        panic!("serve does not start on {}", directory.display());
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program by SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// Has the program use a database of its own on the PostgreSQL server that tools/with_postgres started, if it did; SQLite otherwise.
pub(crate) fn set_database(command: &mut Command, directory: &Path) {
    command.env_remove("TAUT_DATABASE");
    if let Some((server, name)) = database_of(directory) {
        command.env("TAUT_DATABASE", server.replace("/postgres?", &format!("/{name}?")));
    }
}

/// Makes that database.
pub(crate) fn create_database(directory: &Path) {
    if let Some((server, name)) = database_of(directory) {
        let made = Command::new("psql").args([&server, "-qc", &format!("CREATE DATABASE {name}")]).status().unwrap();
        assert!(made.success());
    }
}

fn database_of(directory: &Path) -> Option<(String, String)> {
    let name = directory.file_name().unwrap().to_string_lossy().replace('-', "_");
    std::env::var("TAUT_TEST_POSTGRES").ok().map(|server| (server, name))
}

/// Returns the operator token and the join token of the first start.
fn first_tokens(text: &str) -> Option<(String, String)> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    value("operator-token: ").zip(value("join-token: "))
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An operator.
pub(crate) struct Operator {
    agent: ureq::Agent,
    address: String,
    token: String,
}

impl Operator {
    pub(crate) fn new(serve: &Serve, token: &str) -> Self {
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).proxy(None).timeout_global(Some(TEST_TIMEOUT));
        // Each request has a connection of its own: a kept connection may be closed at the moment at which it is used again.
        let config = config.max_idle_connections(0);
        Self { agent: config.build().into(), address: serve.address.clone(), token: token.to_owned() }
    }

    /// Sends a request. Returns the answer if it arrived completely.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}/api/v1/{path}", self.address))
            .header("authorization", format!("Bearer {}", self.token));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut response = self.agent.run(request.body(body).unwrap()).ok()?;
        let answer = response.body_mut().read_json().ok()?;
        Some((response.status().as_u16(), answer))
    }

    /// Sends a `GET` request that must succeed.
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, &Value::Null).expect("an answer");
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

/// A host's keys, and the token that it joins with.
#[derive(Clone)]
pub(crate) struct TestHost {
    machine: PrivateKey,
    pub(crate) node: PublicKey,
    pub(crate) token: JoinToken,
    pub(crate) name: String,
}

pub(crate) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).unwrap();
    bytes
}

impl TestHost {
    pub(crate) fn new(token: &JoinToken, name: String) -> Self {
        let node = public_key(&PrivateKey::from_bytes(random()));
        Self { machine: PrivateKey::from_bytes(random()), node, token: token.clone(), name }
    }

    /// Opens a channel, sends a hello, and returns the first answer. The hello always has the enrolment secret; a member is admitted without using it.
    pub(crate) fn hello(&self, address: &str, have: u64) -> Option<(TestChannel, ToNode)> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(TEST_TIMEOUT)).ok()?;
        let network: String = self.token.network.iter().map(|byte| format!("{byte:02x}")).collect();
        let url = format!("ws://{address}{CONTROL_PATH}?network={network}");
        let mut socket = tungstenite::client(url, stream).ok()?.0;
        let (initiator, first) = Initiator::start(
            &prologue(&self.token.network),
            &self.machine,
            &self.token.coordinator,
            PrivateKey::from_bytes(random()),
        )
        .unwrap();
        socket.send(Message::binary(first.to_vec())).ok()?;
        let transport = initiator.finish(&read(&mut socket)?).unwrap();
        let mut channel = TestChannel { socket, transport };
        let enrol = Some(Enrol { secret: encode_base64url(&self.token.secret), name: self.name.clone() });
        let (node_key, version) = (self.node, String::from("kill"));
        let hello = Hello { schema: SCHEMA, node_key, bind_key: None, enrol, have, version, request: None, run: 0 };
        channel.send(&ToCoordinator::Hello(hello))?;
        let answer = channel.receive()?;
        Some((channel, answer))
    }
}

/// An open control channel.
pub(crate) struct TestChannel {
    pub(crate) socket: WebSocket<TcpStream>,
    transport: Transport,
}

impl TestChannel {
    pub(crate) fn send(&mut self, message: &ToCoordinator) -> Option<()> {
        let sealed = self.transport.seal(&serde_json::to_vec(message).unwrap());
        self.socket.send(Message::binary(sealed)).ok()
    }

    pub(crate) fn receive(&mut self) -> Option<ToNode> {
        let plain = self.transport.open(read(&mut self.socket)?).unwrap();
        Some(serde_json::from_slice(&plain).unwrap())
    }
}

fn read(socket: &mut WebSocket<TcpStream>) -> Option<Vec<u8>> {
    loop {
        match socket.read() {
            Ok(Message::Binary(bytes)) => return Some(bytes.to_vec()),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}
