//! Client and server against each other over loopback, and usage errors.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;

use crate::arguments::{Command, Congestion, End, parse};
use crate::request::{Bulk, Count, REQUEST_LEN, Request};
use crate::{client, server};

fn parse_words(words: &str) -> Result<Command, String> {
    parse(words.split_whitespace().map(str::to_owned)).map_err(|usage| usage.to_string())
}

#[test]
fn flags_are_parsed_into_a_command() {
    let end =
        End { address: "10.9.0.2:4433".parse().unwrap(), certificate: "c.der".into(), congestion: Congestion::Cubic };
    let bulk = Bulk { omitted_ms: 500, counted_ms: 2000 };
    let words = "bulk --connect 10.9.0.2:4433 --certificate c.der --milliseconds 2000 --omit-milliseconds 500";
    assert_eq!(parse_words(words), Ok(Command::Bulk(end, bulk)));
    let Ok(Command::FirstByte(end, 7)) =
        parse_words("first-byte --tries 7 --congestion bbr --certificate c --connect [::1]:1")
    else {
        panic!("the command was not parsed as first-byte");
    };
    assert_eq!((end.congestion, end.congestion.name()), (Congestion::Bbr, "bbr"));
}

#[test]
fn a_usage_error_names_the_wrong_flag() {
    for (words, wrong) in [
        ("", "a command is missing"),
        ("pour", "unknown command pour"),
        ("serve --listen", "--listen has no value"),
        ("serve --listen here --certificate c", "invalid value for --listen: here"),
        ("serve --listen 127.0.0.1:1", "--certificate is missing"),
        ("serve --connect 127.0.0.1:1", "serve has no flag --connect"),
        ("bulk --connect 127.0.0.1:1 --certificate c", "--milliseconds is missing"),
        ("bulk --congestion hope", "invalid value for --congestion: hope"),
        ("first-byte --connect 127.0.0.1:1 --certificate c --tries -1", "invalid value for --tries: -1"),
    ] {
        let said = parse_words(words).unwrap_err();
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
    let report = runtime.block_on(async {
        let here: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let end = |address| End { address, certificate: file.clone(), congestion: Congestion::Cubic };
        let endpoint = server::listen(&end(here)).unwrap();
        let there = endpoint.local_addr().unwrap();
        tokio::spawn(async move { server::accept(&endpoint).await });
        ask(end(there)).await
    });
    std::fs::remove_file(file).unwrap();
    report
}

#[test]
fn sent_data_is_counted_by_the_server() {
    let bulk = Bulk { omitted_ms: 50, counted_ms: 200 };
    let report = asked("bulk", |end| async move { client::bulk(&end, bulk).await.unwrap() });
    assert_eq!(report["schema"], 1);
    assert_eq!(report["work"], "bulk");
    assert_eq!(report["microseconds"], 200_000);
    assert!(report["bytes"].as_u64().unwrap() > 0, "{report}");
    assert!(
        report["sent_bytes"].as_u64() > report["bytes"].as_u64(),
        "data outside the counted time was sent too: {report}"
    );
}

#[test]
fn every_connection_receives_its_first_byte() {
    let report = asked("first-byte", |end| async move { client::first_byte(&end, 3).await.unwrap() });
    let (handshakes, first_bytes) = (numbers(&report["handshake_ms"]), numbers(&report["first_byte_ms"]));
    assert_eq!((handshakes.len(), first_bytes.len(), &report["failures"]), (3, 3, &Value::Array(vec![])), "{report}");
    assert!(handshakes.iter().zip(&first_bytes).all(|(handshake, first)| handshake < first), "{report}");
}

#[test]
fn another_servers_certificate_is_not_trusted() {
    let report = asked("stranger", |end| async move {
        let other = certificate("other");
        let made = rcgen::generate_simple_self_signed([crate::tls::NAME.to_owned()]).unwrap();
        std::fs::write(&other, made.cert.der()).unwrap();
        let report = client::first_byte(&End { certificate: other.clone(), ..end }, 1).await.unwrap();
        std::fs::remove_file(other).unwrap();
        report
    });
    assert!(numbers(&report["first_byte_ms"]).is_empty(), "{report}");
    assert!(report["failures"][0].as_str().unwrap().contains("connecting failed"), "{report}");
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}
