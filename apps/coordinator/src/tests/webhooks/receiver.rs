//! A server that gets webhooks.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Timeout of every wait, 20 s; only a failing test reaches it.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) signature: String,
    pub(super) text: String,
}

impl Received {
    pub(super) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// Returns action and object of each entry.
    pub(super) fn events(&self) -> Vec<String> {
        let text =
            |entry: &Value| format!("{} {}", entry["action"].as_str().unwrap(), entry["object"].as_str().unwrap());
        self.body()["events"].as_array().unwrap().iter().map(text).collect()
    }
}

/// The server. It answers 204 unless the test has set other answers.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    answers: Arc<Mutex<VecDeque<String>>>,
}

impl Receiver {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (received, answers) = (Arc::default(), Arc::<Mutex<VecDeque<String>>>::default());
        let server = Self { address, received: Arc::clone(&received), answers: Arc::clone(&answers) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let request = read(&stream);
                let answer = answers.lock().unwrap().pop_front().unwrap_or_else(|| String::from("204 No Content"));
                received.lock().unwrap().push(request);
                let _ = write!(&stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        server
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Sets the next answers: status line and further headers.
    pub(super) fn answer(&self, answers: &[&str]) {
        self.answers.lock().unwrap().extend(answers.iter().map(|answer| String::from(*answer)));
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Waits until the requests are as wanted, and returns them.
    pub(super) fn wait(&self, reached: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        let begin = Instant::now();
        loop {
            let received = self.received();
            if reached(&received) {
                return received;
            }
            assert!(begin.elapsed() < TIMEOUT, "{received:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn read(stream: &TcpStream) -> Received {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (mut reader, mut signature, mut length) = (BufReader::new(stream), String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "taut-signature" => signature = String::from(value),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text).unwrap();
    Received { signature, text: String::from_utf8(text).unwrap() }
}
