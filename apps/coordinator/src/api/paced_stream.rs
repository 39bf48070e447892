//! A TCP stream with a write timeout and a read rate: an answer that the client does not read is dropped after a while, and a flood of requests or WebSocket
//! frames waits in its own connection (fault E11).

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use taut_relay_server::UNTRUSTED_PROXY;
use taut_relay_server::log::UNAUTHENTICATED;
use taut_wire::proxy;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::log;

/// Timeout of a write, 30 s: the time within which the other side must read something.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Read rate of one connection, 64 KiB per second: a node sends a few hundred bytes per minute, and a request to the operator's API has 64 KiB at most. The
/// smallest WebSocket frames, of 6 bytes, cost a few percent of a core at this rate.
const RATE: u32 = 64 * 1024;
/// Bytes that may be read at once before the rate applies: four requests of the largest size.
const BURST: u32 = 4 * RATE;

/// The stream.
pub(super) struct PacedStream {
    stream: TcpStream,
    /// Time up to which the rate is used up.
    paid: Instant,
    /// Timer of a read that the rate delays.
    pausing: Option<Pin<Box<Sleep>>>,
    /// Bytes that were read in search of a PROXY header; they are returned first.
    ahead: Vec<u8>,
    /// Timeout of a write that waits.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Address of a client that is no trusted proxy, until its first bytes are read; otherwise `None`.
    distrusted: Option<IpAddr>,
}

impl PacedStream {
    pub(super) fn new(stream: TcpStream, ahead: Vec<u8>) -> Self {
        Self { stream, paid: Instant::now(), pausing: None, ahead, waiting: None, distrusted: None }
    }

    /// Makes the stream log a PROXY header at its beginning, because this client is no trusted proxy.
    pub(super) fn distrust(mut self, client: IpAddr) -> Self {
        self.distrusted = Some(client);
        self
    }

    /// Waits for the first bytes, and returns a copy of them. Returns no bytes if the client closed the connection.
    pub(super) async fn peek<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let length = match self.ahead.len().min(buffer.len()) {
            0 => self.stream.peek(buffer).await?,
            length => {
                buffer[..length].copy_from_slice(&self.ahead[..length]);
                length
            }
        };
        Ok(&buffer[..length])
    }

    /// Returns the TCP stream, and the bytes of `ahead` that were not returned yet.
    pub(super) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.ahead)
    }

    /// Waits until the rate allows another read.
    fn paced(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = self.paid.checked_sub(Duration::from_secs(1) * BURST / RATE).unwrap_or(self.paid);
        if due > Instant::now() {
            let pausing = self.pausing.get_or_insert_with(|| Box::pin(sleep_until(due)));
            std::task::ready!(pausing.as_mut().poll(context));
        }
        self.pausing = None;
        Poll::Ready(())
    }

    fn patiently<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.waiting = None;
            return done;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            std::task::ready!(self.paced(context));
            let before = to.filled().len();
            let done = Pin::new(&mut self.stream).poll_read(context, to);
            if let Some(client) = self.distrusted.take_if(|_| to.filled().len() > before) {
                warn_of_proxy_header(&to.filled()[before..], client);
            }
            let read = u32::try_from(to.filled().len() - before).unwrap_or(u32::MAX);
            self.paid = self.paid.max(Instant::now()) + Duration::from_secs(1) * read / RATE;
            return done;
        }
        let length = self.ahead.len().min(to.remaining());
        to.put_slice(&self.ahead[..length]);
        self.ahead.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, from);
        self.patiently(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, from);
        self.patiently(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Logs a PROXY header in the first bytes of a client that is no trusted proxy. Its connection fails, because the header is no HTTP.
fn warn_of_proxy_header(first: &[u8], client: IpAddr) {
    if proxy::is_header(first) {
        let (address, hint) = (client, UNTRUSTED_PROXY);
        tracing::warn!(target: log::API, limited = UNAUTHENTICATED, event = "untrusted-proxy-header", %address, hint);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn fault_e11_a_flood_waits_in_its_own_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let flood = tokio::spawn(async move { while sender.write_all(&[0; 4096]).await.is_ok() {} });
        let (stream, _) = listener.accept().await.unwrap();
        let mut paced_stream = PacedStream::new(stream, b"ahead".to_vec());
        let began = Instant::now();
        let (mut piece, mut read) = ([1; 4096], paced_stream.read(&mut [0; 9]).await.unwrap());
        assert_eq!(read, 5, "what was read before comes first");
        while read < (BURST + 2 * RATE) as usize {
            read += paced_stream.read(&mut piece).await.unwrap();
        }
        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
        flood.abort();
    }
}
