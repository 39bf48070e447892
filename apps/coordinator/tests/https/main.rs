//! https: the operator's commands against untrusted servers, with the bytes on the network and the messages for the user (fault E22), and the coordinator's own
//! https.
//!
//! The PEM files beside this one were made for these tests: an authority (`ca.pem`) with three certificates for one key, valid until 2120 except for the
//! expired one; another authority; and a self-signed certificate.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]

mod serving;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const TOKEN: &str = "tautop-AAAA";

/// Timeout of the command's request; only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Answer of a coordinator without nodes.
const NO_NODES: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 23\r\n\r\n{\"schema\":1,\"nodes\":[]}";

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/https").join(name)
}

/// Returns the command `nodes list` for `url`.
fn list(url: &str, options: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taut-coordinator"));
    command.args(["nodes", "list", "--api", url, "--token", TOKEN]).args(options);
    for name in ["TAUT_API", "TAUT_CA", "TAUT_OPERATOR_TOKEN", "SSL_CERT_FILE", "SSL_CERT_DIR"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns a listener on loopback, and its port.
fn listener(address: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A server that answers one request.
struct Server {
    thread: JoinHandle<String>,
    /// True if the command has ended, so that no further request arrives.
    ended: Arc<AtomicBool>,
}

impl Server {
    fn start(listener: TcpListener, answer: String, tls: Option<Arc<ServerConfig>>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let Some(stream) = accept(&listener, &is_over) else { return String::new() };
            stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
            match tls {
                Some(config) => converse(StreamOwned::new(ServerConnection::new(config).unwrap(), stream), &answer),
                None => converse(stream, &answer),
            }
        });
        Self { thread, ended }
    }

    /// Returns all received bytes, decrypted, after the end of the command.
    fn seen(self) -> String {
        self.ended.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

/// Accepts a connection; `None` if the command ends without one.
fn accept(listener: &TcpListener, is_over: &AtomicBool) -> Option<TcpStream> {
    listener.set_nonblocking(true).unwrap();
    loop {
        let last = is_over.load(Ordering::Acquire);
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return Some(stream);
            }
            Err(_) if last => return None,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn converse(mut stream: impl Read + Write, answer: &str) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !seen.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return String::from_utf8_lossy(&seen).into_owned(),
            Ok(length) => seen.extend_from_slice(&buffer[..length]),
        }
    }
    let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
    String::from_utf8_lossy(&seen).into_owned()
}

fn tls(certificate: &str) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(file(certificate)).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap())
}

/// Runs the command against a TLS server with this certificate. Returns the command's output, and the bytes that the server read.
fn ask(certificate: &str, host: &str, options: &[&str], variables: &[(&str, &str)]) -> (Output, String) {
    let (listener, port) = listener("127.0.0.1");
    let server = Server::start(listener, String::from(NO_NODES), Some(tls(certificate)));
    let output = list(&format!("https://{host}:{port}"), options, variables);
    (output, server.seen())
}

#[test]
fn fault_e22_a_certificate_of_a_trusted_authority_is_good() {
    let (ca, store) = (file("ca.pem"), file("ca.pem"));
    let (ca, store) = (ca.to_str().unwrap(), store.to_str().unwrap());
    // The authority is given on the command line, by the variable, or in the system's store.
    for (host, options, variables) in [
        ("127.0.0.1", vec!["--ca", ca], vec![]),
        ("localhost", vec![], vec![("TAUT_CA", ca)]),
        ("127.0.0.1", vec![], vec![("SSL_CERT_FILE", store)]),
    ] {
        let (output, seen) = ask("good.pem", host, &options, &variables);
        assert_eq!(output.status.code(), Some(0), "{host} {options:?} {variables:?}: {}", printed(&output));
        assert!(seen.contains(&format!("Bearer {TOKEN}\r\n")), "{seen}");
    }
}

#[test]
fn fault_e22_a_server_with_an_invalid_certificate_gets_no_token() {
    let (ca, other, own) = (file("ca.pem"), file("other.pem"), file("self-ca.pem"));
    for (certificate, ca, words) in [
        ("wrong-name.pem", &ca, "is for another name"),
        ("expired.pem", &ca, "has expired"),
        ("good.pem", &other, "authority that is not trusted"),
        ("self-ca.pem", &own, "CA:FALSE"),
    ] {
        let (output, seen) = ask(certificate, "127.0.0.1", &["--ca", ca.to_str().unwrap()], &[]);
        assert_eq!(output.status.code(), Some(1), "{certificate}");
        assert!(printed(&output).contains(words), "{certificate}: {}", printed(&output));
        assert_eq!(seen, "", "{certificate}");
    }
    // A file of authorities replaces the system's store.
    let (output, seen) =
        ask("good.pem", "127.0.0.1", &["--ca", other.to_str().unwrap()], &[("SSL_CERT_FILE", ca.to_str().unwrap())]);
    assert_eq!((output.status.code(), seen.as_str()), (Some(1), ""));
}

#[test]
fn fault_e22_unusable_files_of_authorities_are_named() {
    for (file, words) in [("server.key", "no certificate"), ("none.pem", "No such file")] {
        let output = list("https://127.0.0.1:1", &["--ca", self::file(file).to_str().unwrap()], &[]);
        assert!(printed(&output).contains(words), "{}", printed(&output));
        assert_eq!(output.status.code(), Some(1));
    }
    let empty = [("SSL_CERT_FILE", "/nonexistent"), ("SSL_CERT_DIR", "/nonexistent")];
    let output = list("https://127.0.0.1:1", &[], &empty);
    assert!(printed(&output).contains("ca-certificates"), "{}", printed(&output));
}

#[test]
fn fault_e22_another_host_gets_no_token_over_http() {
    // An address of this host outside loopback, at which a token would arrive if it were sent.
    let (listener, port) = listener("0.0.0.0");
    let url = format!("http://0.0.0.0:{port}");
    let refused = list(&url, &[], &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        printed(&refused).contains("--insecure") && printed(&refused).contains("https://"),
        "{}",
        printed(&refused)
    );
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().map(drop).unwrap_err().kind(), ErrorKind::WouldBlock, "nobody even connected");
    let server = Server::start(listener, String::from(NO_NODES), None);
    let output = list(&url, &["--insecure"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(server.seen().contains(TOKEN));
}

#[test]
fn fault_e22_loopback_and_localhost_need_no_certificate() {
    for host in ["127.0.0.1", "localhost"] {
        let (listener, port) = listener("127.0.0.1");
        let server = Server::start(listener, String::from(NO_NODES), None);
        let output = list(&format!("http://{host}:{port}"), &[], &[]);
        assert_eq!(output.status.code(), Some(0), "{host}: {}", printed(&output));
        assert!(server.seen().contains(TOKEN), "{host}");
    }
}

#[test]
fn fault_e22_neither_a_redirect_nor_a_proxy_gets_the_token() {
    let (elsewhere, other) = listener("127.0.0.1");
    elsewhere.set_nonblocking(true).unwrap();
    let place = format!("http://127.0.0.1:{other}");
    let (front, port) = listener("127.0.0.1");
    let answer = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {place}/\r\ncontent-length: 0\r\n\r\n");
    let server = Server::start(front, answer, None);
    let proxies = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    let output = list(&format!("http://127.0.0.1:{port}"), &[], &proxies.map(|name| (name, place.as_str())));
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains("redirects to") && printed(&output).contains(&place), "{}", printed(&output));
    assert!(server.seen().contains(TOKEN), "the server itself was asked, not a proxy");
    assert_eq!(elsewhere.accept().map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn fault_e22_only_operator_tokens_are_sent() {
    let (listener, port) = listener("127.0.0.1");
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://127.0.0.1:{port}");
    for (token, words) in [("taut1-AAAA", "this is a join token"), ("secret", "not an operator token")] {
        let command = ["nodes", "list", "--api", &url, "--token", token];
        let output = Command::new(env!("CARGO_BIN_EXE_taut-coordinator")).args(command).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(printed(&output).contains(words) && !printed(&output).contains(token), "{}", printed(&output));
    }
    assert_eq!(listener.accept().map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// The user is told that the server does not speak TLS.
#[test]
fn a_server_without_tls_is_named() {
    let (listener, port) = listener("127.0.0.1");
    let server = std::thread::spawn(move || {
        let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let output = list(&format!("https://127.0.0.1:{port}"), &["--ca", file("ca.pem").to_str().unwrap()], &[]);
    assert!(printed(&output).contains("does not speak TLS"), "{}", printed(&output));
    // A token may not travel over plain HTTP.
    assert!(!printed(&output).contains("http://"), "{}", printed(&output));
    server.join().unwrap();
}
