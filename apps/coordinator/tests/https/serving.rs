//! `serve` that speaks https itself: its answers, its deadlines, and a certificate that is replaced while connections are open.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{TEST_TIMEOUT, file};

type Https = StreamOwned<ClientConnection, TcpStream>;

/// A running coordinator with its certificate and its log.
struct Serving {
    child: Child,
    address: String,
    directory: PathBuf,
}

impl Serving {
    fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("taut-https-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        let [certificate, key] = ["good.pem", "server.key"].map(|name| {
            fs::copy(file(name), directory.join(name)).unwrap();
            directory.join(name)
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_taut-coordinator"));
        command.args(["serve", "--config", "/dev/null", "--listen", "127.0.0.1:0", "--no-relay", "--state"]);
        command.arg(directory.join("state")).arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
        let log = fs::File::create(directory.join("log")).unwrap();
        let mut child = command.env_remove("TAUT_DATABASE").stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.find_map(|line| line.strip_prefix("listening on ").map(String::from)).unwrap();
        Self { child, address, directory }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream
    }

    /// Connects as a client that trusts the authority in this file.
    fn https(&self, authority: &str) -> Https {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file(authority)).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(config, name).unwrap(), self.connect())
    }

    /// Sends SIGHUP, and waits for a line with `event`.
    fn hang_up(&self, event: &str) {
        let signal = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status().unwrap();
        assert!(signal.success());
        let start = Instant::now();
        let log = || fs::read_to_string(self.directory.join("log")).unwrap();
        while !log().contains(event) {
            assert!(start.elapsed() < TEST_TIMEOUT, "no {event} in\n{}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Sends a request on an open connection, and returns the answer up to the end of its body.
fn get(stream: &mut (impl Read + Write)) -> String {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    while !answer.ends_with(b"}") {
        let length = stream.read(&mut piece).unwrap();
        assert_ne!(length, 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..length]);
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn https_is_spoken_and_plain_http_is_told_so() {
    let serving = Serving::start();
    let answer = get(&mut serving.https("ca.pem"));
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("\r\nstrict-transport-security: max-age="),
        "{answer}"
    );
    let mut plain = serving.connect();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("write https://"), "{answer}");
    let tokens = fs::read_to_string(serving.directory.join("state/first-tokens")).unwrap();
    assert!(tokens.contains("set-up: https://127.0.0.1:"), "links are https");
}

#[test]
fn fault_e11_a_handshake_that_does_not_end_is_closed_after_ten_seconds() {
    let serving = Serving::start();
    let (start, mut silent, mut half) = (Instant::now(), serving.connect(), serving.connect());
    // The header of a record whose content never comes.
    half.write_all(&[22, 3, 1, 2, 0]).unwrap();
    for stream in [&mut silent, &mut half] {
        let _ = stream.read_to_end(&mut Vec::new());
        assert!((9..20).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    }
    get(&mut serving.https("ca.pem"));
}

#[test]
fn a_certificate_is_replaced_while_connections_are_open_and_a_bad_one_is_not_taken() {
    let serving = Serving::start();
    let mut open = serving.https("ca.pem");
    get(&mut open);
    fs::copy(file("other.pem"), serving.directory.join("good.pem")).unwrap();
    serving.hang_up("event=certificate-not-replaced");
    get(&mut open);
    get(&mut serving.https("ca.pem"));
    fs::copy(file("expired.pem"), serving.directory.join("good.pem")).unwrap();
    serving.hang_up("event=certificate-ended");
    get(&mut open);
    let refused = serving.https("ca.pem").write_all(b"x").unwrap_err();
    assert!(refused.to_string().contains("certificate expired"), "{refused}");
}
