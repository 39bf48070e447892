use std::net::Shutdown;

use taut_event::Events;

use super::*;

/// A responder with its poller, in virtual time.
struct Bench {
    poller: Poller,
    responder: MetricsServer,
    now: Time,
}

impl Bench {
    fn new() -> Self {
        let poller = Poller::new().unwrap();
        let responder = MetricsServer::listen("127.0.0.1:0".parse().unwrap(), &poller).unwrap();
        Self { poller, responder, now: Time(5) }
    }

    /// Serves events until `done` returns true; panics if it does not within 2,000 waits.
    fn serve_until(&mut self, mut done: impl FnMut(&MetricsServer) -> bool) {
        let mut events = Events::with_capacity(8);
        for _ in 0..2000 {
            if done(&self.responder) {
                return;
            }
            self.poller.wait(&mut events, Some(Duration::from_millis(10))).unwrap();
            for event in events.iter() {
                self.responder.serve(event.token, &self.poller, self.now, || String::from("taut_up 1\n"));
            }
        }
        panic!("the test did not finish within 2,000 waits");
    }

    /// Sends a request, and returns the answer.
    fn ask(&mut self, request: &[u8]) -> String {
        let mut client = TcpStream::connect(self.responder.address()).unwrap();
        client.write_all(request).unwrap();
        let mut seen = false;
        self.serve_until(|responder| {
            seen |= !responder.connections.is_empty();
            seen && responder.connections.is_empty()
        });
        let mut text = String::new();
        // If the responder closes with bytes unread, the kernel sends a reset after the answer, so reading may fail.
        let _ = client.read_to_string(&mut text);
        text
    }
}

#[test]
fn prometheus_gets_the_metrics() {
    let mut bench = Bench::new();
    let text = bench.ask(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("\r\nContent-Length: 10\r\n") && text.ends_with("\r\n\r\ntaut_up 1\n"), "{text}");
    let text = bench.ask(b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(text.contains("\r\nContent-Length: 10\r\n") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn other_requests_are_refused_with_one_line() {
    let mut bench = Bench::new();
    let long = [b"GET /metrics HTTP/1.1\r\nA: ".as_slice(), &[b'x'; MAX_HEAD]].concat();
    for (request, status) in [
        (b"GET / HTTP/1.1\r\n\r\n".as_slice(), "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"GET /metrics HTTP/2\r\n\r\n", "505"),
        (b"\xff\x00\n\n", "400"),
        (&long, "431"),
    ] {
        let text = bench.ask(request);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
        assert!(!text.contains("taut_up"), "{text}");
    }
}

#[test]
fn a_silent_connection_is_closed_after_its_timeout() {
    let mut bench = Bench::new();
    let silent = TcpStream::connect(bench.responder.address()).unwrap();
    bench.serve_until(|responder| responder.connections.len() == 1);
    assert_eq!(bench.responder.poll_timeout(), Some(bench.now + CONNECTION_TIMEOUT));
    bench.responder.handle_timeout(&bench.poller, Time(6), String::new);
    assert_eq!(bench.responder.connections.len(), 1);
    bench.responder.handle_timeout(&bench.poller, bench.now + CONNECTION_TIMEOUT, String::new);
    assert!(bench.responder.connections.is_empty());
    drop(silent);
}

#[test]
fn fault_p7_a_connection_without_a_request_is_evicted_for_one_with_a_request() {
    let mut bench = Bench::new();
    let address = bench.responder.address();
    let silent: Vec<TcpStream> = (0..4 * MAX_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    client.set_nonblocking(true).unwrap();
    let mut text = Vec::new();
    bench.serve_until(|responder| {
        assert!(responder.connections.len() <= MAX_CONNECTIONS);
        let mut chunk = [0; 512];
        match client.read(&mut chunk) {
            Ok(length) => text.extend_from_slice(&chunk[..length]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "closed without an answer"),
        }
        text.ends_with(b"taut_up 1\n")
    });
    drop(silent);
    bench.serve_until(|responder| responder.connections.is_empty());
}

#[test]
fn fault_p7_a_page_is_made_ten_times_a_second_at_most() {
    let mut bench = Bench::new();
    let mut made = 0;
    for (passed, expected) in [(Duration::ZERO, 1), (FRESH - Duration::from_nanos(1), 1), (FRESH, 2)] {
        let mut client = TcpStream::connect(bench.responder.address()).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let (mut events, mut text) = (Events::with_capacity(8), String::new());
        while bench.responder.connections.is_empty() {
            bench.poller.wait(&mut events, None).unwrap();
            bench.responder.serve(FIRST_TOKEN, &bench.poller, bench.now, || unreachable!("no request was read yet"));
        }
        while !bench.responder.connections.is_empty() {
            bench.poller.wait(&mut events, None).unwrap();
            for event in events.iter() {
                bench.responder.serve(event.token, &bench.poller, Time(5) + passed, || {
                    made += 1;
                    String::from("taut_up 1\n")
                });
            }
        }
        client.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("taut_up 1\n"), "{text}");
        assert_eq!(made, expected, "after {passed:?}");
    }
}

#[test]
fn fault_p7_clients_of_the_metrics_port_stay_within_their_share() {
    let mut bench = Bench::new();
    let cost = Duration::from_millis(50);
    let begin = bench.now;
    let mut served = 0_u32;
    let mut events = Events::with_capacity(8);
    let mut clients = Vec::new();
    while bench.now.since(begin) < Duration::from_secs(10) {
        if clients.len() < 100 {
            let mut client = TcpStream::connect(bench.responder.address()).unwrap();
            client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            clients.push(client);
        }
        bench.poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        for event in events.iter() {
            let asks = event.token != FIRST_TOKEN;
            bench.responder.serve(event.token, &bench.poller, bench.now, || String::from("taut_up 1\n"));
            if asks {
                served += 1;
                clients.pop();
                bench.responder.charge(cost, bench.now);
                bench.now = bench.now + cost;
            }
        }
        bench.now = bench.now + Duration::from_millis(1);
        bench.responder.handle_timeout(&bench.poller, bench.now, String::new);
    }
    let used = cost * served;
    // Connections that are already open are served in any case.
    assert!(used < Duration::from_secs(4), "{used:?} of 10 s");
    assert!(used > Duration::from_secs(1), "{used:?} of 10 s");
}

#[test]
fn fault_p7_a_request_in_single_bytes_is_read_only_after_pauses() {
    let mut bench = Bench::new();
    let mut client = TcpStream::connect(bench.responder.address()).unwrap();
    let request = b"GET /metrics HTTP/1.1\r\n\r\n";
    client.write_all(&request[..3]).unwrap();
    bench.serve_until(|responder| responder.connections.values().any(|one| one.part.is_some()));
    client.write_all(&request[3..]).unwrap();
    let mut events = Events::with_capacity(8);
    bench.poller.wait(&mut events, Some(Duration::from_millis(50))).unwrap();
    assert!(events.is_empty(), "an incomplete request wakes no thread");
    assert_eq!(bench.responder.poll_timeout(), Some(bench.now + PART_PAUSE));
    bench.now = bench.now + PART_PAUSE;
    bench.responder.handle_timeout(&bench.poller, bench.now, || String::from("taut_up 1\n"));
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("taut_up 1\n"), "{text}");

    let mut client = TcpStream::connect(bench.responder.address()).unwrap();
    client.write_all(b"GET").unwrap();
    bench.serve_until(|responder| responder.connections.values().any(|one| one.part.is_some()));
    client.shutdown(Shutdown::Both).unwrap();
    bench.now = bench.now + PART_PAUSE;
    bench.serve_until(|responder| {
        responder.connections.is_empty() || responder.connections.values().all(|one| one.part.is_some())
    });
    bench.responder.handle_timeout(&bench.poller, bench.now, String::new);
    assert!(bench.responder.connections.is_empty());
}

#[test]
fn a_client_that_disconnects_early_leaves_no_connection() {
    let mut bench = Bench::new();
    let mut client = TcpStream::connect(bench.responder.address()).unwrap();
    client.write_all(b"GET /met").unwrap();
    bench.serve_until(|responder| responder.connections.values().any(|one| one.head.len() == 8));
    client.shutdown(Shutdown::Both).unwrap();
    bench.now = bench.now + PART_PAUSE;
    bench.responder.handle_timeout(&bench.poller, bench.now, String::new);
    bench.serve_until(|responder| responder.connections.is_empty());
}
