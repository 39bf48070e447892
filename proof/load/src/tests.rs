//! Client and server against each other over loopback, and usage errors.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;

use crate::arguments::{Command, Congestion, End, parse};
use crate::request::{Bulk, Count, REQUEST_LEN, Request};
use crate::{client, server};

fn told(words: &str) -> Result<Command, String> {
    parse(words.split_whitespace().map(str::to_owned)).map_err(|usage| usage.to_string())
}

#[test]
fn flags_say_what_to_do() {
    let end =
        End { address: "10.9.0.2:4433".parse().unwrap(), certificate: "c.der".into(), congestion: Congestion::Cubic };
    let bulk = Bulk { omitted_ms: 500, counted_ms: 2000 };
    let words = "bulk --connect 10.9.0.2:4433 --certificate c.der --milliseconds 2000 --omit-milliseconds 500";
    assert_eq!(told(words), Ok(Command::Bulk(end, bulk)));
    let Ok(Command::FirstByte(end, 7)) =
        told("first-byte --tries 7 --congestion bbr --certificate c --connect [::1]:1")
    else {
        panic!("not understood");
    };
    assert_eq!((end.congestion, end.congestion.name()), (Congestion::Bbr, "bbr"));
}

#[test]
fn what_is_wrong_with_the_words_is_said() {
    for (words, wrong) in [
        ("", "it is not said what to do"),
        ("pour", "pour is not known"),
        ("serve --listen", "--listen has no value"),
        ("serve --listen here --certificate c", "here is no value for --listen"),
        ("serve --listen 127.0.0.1:1", "--certificate is missing"),
        ("serve --connect 127.0.0.1:1", "--connect is not known to serve"),
        ("bulk --connect 127.0.0.1:1 --certificate c", "--milliseconds is missing"),
        ("bulk --congestion hope", "hope is no value for --congestion"),
        ("first-byte --connect 127.0.0.1:1 --certificate c --tries -1", "-1 is no value for --tries"),
    ] {
        let said = told(words).unwrap_err();
        assert!(said.starts_with(wrong), "{words}: {said}");
    }
}

#[test]
fn a_request_is_read_as_it_was_written() {
    for request in [Request::FirstByte, Request::Bulk(Bulk { omitted_ms: 1, counted_ms: u32::MAX })] {
        assert_eq!(Request::decode(request.encode()), Some(request));
    }
    assert_eq!(Request::decode([0; REQUEST_LEN]), None);
    let count = Count { bytes: u64::MAX - 1, microseconds: 5_000_000 };
    assert_eq!(Count::decode(count.encode()), count);
}

/// Returns the path of this test's certificate file.
fn certificate(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("taut-load-{}-{name}.der", std::process::id()))
}

/// Starts a server on a free loopback port, sends it a request, and returns the answer.
fn asked<F>(name: &str, ask: impl FnOnce(End) -> F) -> Value
where
    F: Future<Output = Value>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let file = certificate(name);
    let told = runtime.block_on(async {
        let here: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let end = |address| End { address, certificate: file.clone(), congestion: Congestion::Cubic };
        let endpoint = server::listen(&end(here)).unwrap();
        let there = endpoint.local_addr().unwrap();
        tokio::spawn(async move { server::accept(&endpoint).await });
        ask(end(there)).await
    });
    std::fs::remove_file(file).unwrap();
    told
}

#[test]
fn what_was_poured_is_counted_by_the_server() {
    let bulk = Bulk { omitted_ms: 50, counted_ms: 200 };
    let told = asked("bulk", |end| async move { client::bulk(&end, bulk).await.unwrap() });
    assert_eq!(told["schema"], 1);
    assert_eq!(told["work"], "bulk");
    assert_eq!(told["microseconds"], 200_000);
    assert!(told["bytes"].as_u64().unwrap() > 0, "{told}");
    assert!(told["sent_bytes"].as_u64() > told["bytes"].as_u64(), "data outside the counted time was sent too: {told}");
}

#[test]
fn every_connection_brings_its_first_byte() {
    let told = asked("first-byte", |end| async move { client::first_byte(&end, 3).await.unwrap() });
    let (handshakes, first_bytes) = (numbers(&told["handshake_ms"]), numbers(&told["first_byte_ms"]));
    assert_eq!((handshakes.len(), first_bytes.len(), &told["failures"]), (3, 3, &Value::Array(vec![])), "{told}");
    assert!(handshakes.iter().zip(&first_bytes).all(|(handshake, first)| handshake < first), "{told}");
}

#[test]
fn another_servers_certificate_is_not_trusted() {
    let told = asked("stranger", |end| async move {
        let other = certificate("other");
        let made = rcgen::generate_simple_self_signed([crate::tls::NAME.to_owned()]).unwrap();
        std::fs::write(&other, made.cert.der()).unwrap();
        let told = client::first_byte(&End { certificate: other.clone(), ..end }, 1).await.unwrap();
        std::fs::remove_file(other).unwrap();
        told
    });
    assert!(numbers(&told["first_byte_ms"]).is_empty(), "{told}");
    assert!(told["failures"][0].as_str().unwrap().contains("connecting failed"), "{told}");
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}
