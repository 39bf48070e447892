//! The client, which sends requests and measures.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, WriteError};
use serde_json::{Value, json};

use crate::arguments::End;
use crate::failure::Failure;
use crate::request::{Bulk, COUNT_LEN, Count, FIRST_BYTE, Request};
use crate::tls;

/// Time limit for a connection or a due answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// The data that is sent repeatedly, without a copy.
static BLOCK: [u8; 1 << 16] = [b'~'; 1 << 16];

/// Sends data to the server. Returns the server's count and quinn's statistics of the connection, as JSON.
pub(crate) async fn bulk(end: &End, bulk: Bulk) -> Result<Value, Failure> {
    let endpoint = socket(end.address)?;
    let connection = within(PATIENCE, "connecting", connect(&endpoint, &tls::client(end)?, end.address)).await?;
    let (mut send, mut receive) = connection.open_bi().await.map_err(Failure::of("opening a stream"))?;
    send.write_all(&Request::Bulk(bulk).encode()).await.map_err(Failure::of("asking"))?;
    let poured = async {
        tokio::select! {
            count = counted(&mut receive) => count,
            failure = pour(&mut send) => Err(failure),
        }
    };
    let count = within(bulk.whole() + PATIENCE, "sending data", poured).await?;
    let told = report(&connection, end, count);
    close(&endpoint, &connection).await;
    Ok(told)
}

/// Opens `tries` connections one after the other. Returns the time of each until the end of the handshake and until the first byte, as JSON.
pub(crate) async fn first_byte(end: &End, tries: u32) -> Result<Value, Failure> {
    let (endpoint, config) = (socket(end.address)?, tls::client(end)?);
    let (mut handshakes, mut first_bytes, mut why) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..tries {
        match within(PATIENCE, "asking for a byte", set_up(&endpoint, &config, end.address)).await {
            Ok((handshake, first_byte)) => {
                handshakes.push(milliseconds(handshake));
                first_bytes.push(milliseconds(first_byte));
            }
            Err(failure) => why.push(failure.to_string()),
        }
    }
    endpoint.wait_idle().await;
    Ok(json!({
        "schema": 1,
        "work": "first-byte",
        "tries": tries,
        "handshake_ms": handshakes,
        "first_byte_ms": first_bytes,
        "failures": why,
    }))
}

/// Opens one connection. Returns the time until the end of the handshake and until the first byte of the answer.
async fn set_up(
    endpoint: &Endpoint,
    config: &ClientConfig,
    address: SocketAddr,
) -> Result<(Duration, Duration), Failure> {
    let start = Instant::now();
    let connection = connect(endpoint, config, address).await?;
    let handshake = start.elapsed();
    let (mut send, mut receive) = connection.open_bi().await.map_err(Failure::of("opening a stream"))?;
    send.write_all(&Request::FirstByte.encode()).await.map_err(Failure::of("asking"))?;
    send.finish().map_err(Failure::of("ending a request"))?;
    let mut byte = FIRST_BYTE;
    receive.read_exact(&mut byte).await.map_err(Failure::of("waiting for the first byte"))?;
    let first_byte = start.elapsed();
    connection.close(0_u32.into(), b"done");
    Ok((handshake, first_byte))
}

/// Returns an established connection.
async fn connect(endpoint: &Endpoint, config: &ClientConfig, address: SocketAddr) -> Result<Connection, Failure> {
    let connecting =
        endpoint.connect_with(config.clone(), address, tls::NAME).map_err(Failure::of("beginning to connect"))?;
    connecting.await.map_err(Failure::of("connecting"))
}

/// Sends until the caller drops this future. Returns only if sending fails. A server that stops the stream has enough data, which is not a failure.
async fn pour(send: &mut SendStream) -> Failure {
    loop {
        match send.write_chunk(Bytes::from_static(&BLOCK)).await {
            Ok(()) => {}
            Err(WriteError::Stopped(_)) => std::future::pending().await,
            Err(why) => return Failure::of("sending data")(why),
        }
    }
}

/// Reads the server's count.
async fn counted(receive: &mut RecvStream) -> Result<Count, Failure> {
    let mut words = [0; COUNT_LEN];
    receive.read_exact(&mut words).await.map_err(Failure::of("waiting for the count"))?;
    Ok(Count::decode(words))
}

/// Returns the count and the statistics of the connection.
fn report(connection: &Connection, end: &End, count: Count) -> Value {
    let stats = connection.stats();
    json!({
        "schema": 1,
        "work": "bulk",
        "bytes": count.bytes,
        "microseconds": count.microseconds,
        "congestion_control": end.congestion.name(),
        "round_trip_ms": milliseconds(connection.rtt()),
        "sent_packets": stats.path.sent_packets,
        "lost_packets": stats.path.lost_packets,
        "congestion_events": stats.path.congestion_events,
        "datagram_bytes": stats.path.current_mtu,
        "sent_bytes": stats.udp_tx.bytes,
        "sent_datagrams": stats.udp_tx.datagrams,
        // Fewer than `sent_datagrams`, because segmentation offload sends several datagrams per system call.
        "send_calls": stats.udp_tx.ios,
    })
}

/// Returns a socket of the server's address family.
fn socket(server: SocketAddr) -> Result<Endpoint, Failure> {
    let any = if server.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    Endpoint::client(any).map_err(Failure::of("opening a socket"))
}

/// Closes the connection, and waits until the close was sent.
async fn close(endpoint: &Endpoint, connection: &Connection) {
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
}

/// Waits for `work`. If it takes longer than `time`, fails with a timeout of `doing`.
async fn within<T>(
    time: Duration,
    doing: &'static str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(time, work).await {
        Ok(done) => done,
        Err(_) => Err(Failure::of(doing)(format!("not finished within {} s", time.as_secs()))),
    }
}

/// Returns a duration in milliseconds, for JSON.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
