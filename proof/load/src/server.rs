//! The server, which answers requests.

use std::io;
use std::time::{Duration, Instant};

use quinn::{Endpoint, Incoming, RecvStream, SendStream};
use serde_json::json;
use tokio::sync::oneshot;

use crate::arguments::End;
use crate::failure::Failure;
use crate::request::{Bulk, Count, FIRST_BYTE, REQUEST_LEN, Request};
use crate::tls;

/// Prints `{"schema": 1, "listening": ADDRESS}`, then answers clients until standard input closes.
pub(crate) async fn serve(end: &End) -> Result<(), Failure> {
    let endpoint = listen(end)?;
    let address = endpoint.local_addr().map_err(Failure::of("asking for our address"))?;
    println!("{}", json!({"schema": 1, "listening": address.to_string()}));
    tokio::select! {
        () = accept(&endpoint) => {}
        _ = input_closed() => {}
    }
    endpoint.close(0_u32.into(), b"the server ends");
    endpoint.wait_idle().await;
    Ok(())
}

/// Returns a listening endpoint.
pub(crate) fn listen(end: &End) -> Result<Endpoint, Failure> {
    Endpoint::server(tls::server(end)?, end.address).map_err(Failure::of("listening"))
}

/// Answers each connection in its own task, until the endpoint closes.
pub(crate) async fn accept(endpoint: &Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Err(why) = converse(incoming).await {
                eprintln!("load: {why}");
            }
        });
    }
}

/// Returns a channel that fires when standard input ends. A thread waits for the end, because no asynchronous read works for files and terminals too.
fn input_closed() -> oneshot::Receiver<()> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        // An error ends the input too.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = tell.send(());
    });
    told
}

/// Serves one connection, stream by stream, until the client closes it.
async fn converse(incoming: Incoming) -> Result<(), Failure> {
    let connection = incoming.await.map_err(Failure::of("a client's handshake"))?;
    // An error means that the client closed the connection, as it does after its answer.
    while let Ok((send, receive)) = connection.accept_bi().await {
        answer(send, receive).await?;
    }
    Ok(())
}

/// Answers one request.
async fn answer(mut send: SendStream, mut receive: RecvStream) -> Result<(), Failure> {
    let mut words = [0; REQUEST_LEN];
    receive.read_exact(&mut words).await.map_err(Failure::of("reading a request"))?;
    match Request::decode(words) {
        None => return Err(Failure::of("reading a request")("unknown request")),
        Some(Request::FirstByte) => send.write_all(&FIRST_BYTE).await,
        Some(Request::Bulk(bulk)) => {
            let count = count(&mut receive, bulk).await?;
            // The stream may have ended already, so there may be no sender to stop.
            let _ = receive.stop(0_u32.into());
            send.write_all(&count.encode()).await
        }
    }
    .map_err(Failure::of("answering"))?;
    send.finish().map_err(Failure::of("ending an answer"))
}

/// Receives until the time is over. Counts the bytes after the omitted time.
async fn count(receive: &mut RecvStream, bulk: Bulk) -> Result<Count, Failure> {
    let start = Instant::now();
    let (from, to) = (start + bulk.omitted(), start + bulk.whole());
    let mut bytes = 0;
    loop {
        let left = to.saturating_duration_since(Instant::now());
        // The time is checked before each read, because a timer would never fire while data is always ready.
        if left == Duration::ZERO {
            break;
        }
        let Ok(read) = tokio::time::timeout(left, receive.read_chunk(usize::MAX, true)).await else { break };
        let Some(chunk) = read.map_err(Failure::of("taking data"))? else {
            return Err(Failure::of("taking data")("the stream ended too early"));
        };
        let now = Instant::now();
        if now >= from && now < to {
            bytes += u64::try_from(chunk.bytes.len()).unwrap_or(u64::MAX);
        }
    }
    let counted = u64::from(bulk.counted_ms) * 1000;
    Ok(Count { bytes, microseconds: counted })
}
