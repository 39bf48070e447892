//! This end against the library of others as the server, over a pair of sockets.

use std::io::Cursor;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::{Message as Theirs, WebSocket as Server};

use super::*;

const LIMITS: WebSocketLimits = WebSocketLimits { read: 64, message: 100_000, waiting: 200_000 };

/// Returns a client and a server that are connected. Neither waits longer than any machine needs.
fn pair() -> (WebSocket<UnixStream>, Server<UnixStream>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    for end in [&ours, &theirs] {
        end.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        end.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    }
    let server = thread::spawn(|| tungstenite::accept(theirs).unwrap());
    let client = WebSocket::open(ours, "localhost:1", "/x", false, LIMITS).unwrap();
    (client, server.join().unwrap())
}

fn part(kind: Data, payload: &[u8], is_final: bool) -> Theirs {
    Theirs::Frame(Frame::message(payload.to_vec(), OpCode::Data(kind), is_final))
}

fn next(client: &mut WebSocket<impl Read + Write>) -> Message {
    client.read().unwrap().unwrap()
}

/// A stream that has these bytes, and takes none.
fn fed(bytes: &[u8]) -> WebSocket<Cursor<Vec<u8>>> {
    WebSocket::opened(Cursor::new(bytes.to_vec()), Vec::new(), LIMITS)
}

#[test]
fn messages_of_every_length_arrive_in_both_directions() {
    let (mut client, mut server) = pair();
    for length in [0, 1, 125, 126, 127, 65_535, 65_536, 100_000] {
        let bytes: Vec<u8> = (0..length).map(|index: u32| index.to_le_bytes()[0]).collect();
        assert!(client.queue(&bytes).unwrap());
        // More than the kernel buffers, so one end reads while the other writes.
        let reader = thread::spawn(move || (server.read().unwrap(), server));
        client.flush().unwrap();
        assert!(!client.is_blocked() && client.waiting() == 0);
        let (read, back) = reader.join().unwrap();
        server = back;
        assert_eq!(read, Theirs::binary(bytes.clone()), "{length}");
        let copy = bytes.clone();
        let writer = thread::spawn(move || {
            server.send(Theirs::binary(copy)).unwrap();
            server
        });
        assert_eq!(next(&mut client), Message::Binary(bytes), "{length}");
        server = writer.join().unwrap();
    }
    let too_long = thread::spawn(move || server.send(Theirs::binary(vec![0; 100_001])));
    assert!(matches!(client.read(), Err(WebSocketError::Frame(BadFrame::TooLong))));
    assert!(matches!(client.read(), Err(WebSocketError::Closed)), "nothing comes after an error");
    drop(client);
    let _ = too_long.join().unwrap();
}

#[test]
fn a_message_in_parts_is_joined_and_pings_between_them_are_answered() {
    let (mut client, mut server) = pair();
    server.write(part(Data::Binary, b"one ", false)).unwrap();
    server.write(Theirs::Ping(b"are you there".to_vec().into())).unwrap();
    server.write(part(Data::Continue, b"", false)).unwrap();
    server.write(part(Data::Continue, b"two", true)).unwrap();
    server.write(Theirs::text("ignored")).unwrap();
    server.write(Theirs::Pong(b"late".to_vec().into())).unwrap();
    server.write(Theirs::binary(b"three".to_vec())).unwrap();
    server.flush().unwrap();
    assert_eq!(next(&mut client), Message::Control);
    assert_eq!(server.read().unwrap(), Theirs::Pong(b"are you there".to_vec().into()), "at once");
    assert_eq!(next(&mut client), Message::Binary(b"one two".to_vec()));
    assert_eq!(next(&mut client), Message::Text);
    assert_eq!(next(&mut client), Message::Control);
    assert_eq!(next(&mut client), Message::Binary(b"three".to_vec()));
}

#[test]
fn the_parts_of_a_message_have_one_limit() {
    let frames = |last: usize| {
        let mut bytes = vec![0x02, 126];
        bytes.extend_from_slice(&50_000_u16.to_be_bytes());
        bytes.extend_from_slice(&[7; 50_000]);
        bytes.extend_from_slice(&[0x80, 126]);
        bytes.extend_from_slice(&u16::try_from(last).unwrap().to_be_bytes());
        bytes.extend(vec![8; last]);
        bytes
    };
    assert!(matches!(next(&mut fed(&frames(50_000))), Message::Binary(bytes) if bytes.len() == 100_000));
    assert!(matches!(fed(&frames(50_001)).read(), Err(WebSocketError::Frame(BadFrame::TooLong))));
    // A length alone takes no memory beyond the limit.
    let claim = [0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert!(matches!(fed(&claim).read(), Err(WebSocketError::Frame(BadFrame::TooLong))));
}

#[test]
fn frames_out_of_order_end_the_connection() {
    for (bytes, why) in [
        (&[0x80, 0][..], BadFrame::NoMessage),
        (&[0x02, 0, 0x82, 0], BadFrame::InsideMessage),
        (&[0x02, 0, 0x01, 0], BadFrame::InsideMessage),
        (&[0x82, 0x80, 1, 2, 3, 4], BadFrame::Masked),
        (&[0x81, 1, 0xff], BadFrame::NotText),
        (&[0x88, 1, 3], BadFrame::HalfCode),
        (&[0x88, 3, 3, 0xe8, 0xff], BadFrame::NotText),
    ] {
        let refused = fed(bytes).read();
        assert!(matches!(&refused, Err(WebSocketError::Frame(found)) if *found == why), "{bytes:?}: {refused:?}");
    }
    assert!(matches!(fed(&[0x82, 5, 1]).read(), Err(WebSocketError::Closed)), "the stream ended inside a frame");
}

#[test]
fn the_server_closes() {
    let (mut client, mut server) = pair();
    let frame = CloseFrame { code: CloseCode::Away, reason: "bye".into() };
    server.close(Some(frame)).unwrap();
    assert_eq!(next(&mut client), Message::Close(String::from("bye")));
    assert!(matches!(server.read(), Ok(Theirs::Close(None))), "answered");
    assert!(matches!(client.read(), Err(WebSocketError::Closed)));
    assert!(matches!(client.queue(b"late"), Err(WebSocketError::Closed)));
}

#[test]
fn this_end_closes() {
    let (mut client, mut server) = pair();
    client.queue(b"last").unwrap();
    client.close().unwrap();
    client.close().unwrap();
    assert!(matches!(client.queue(b"late"), Err(WebSocketError::Closed)));
    server.write(Theirs::Ping(b"x".to_vec().into())).unwrap();
    server.write(Theirs::binary(b"on its way".to_vec())).unwrap();
    server.flush().unwrap();
    assert_eq!(server.read().unwrap(), Theirs::binary(b"last".to_vec()));
    assert_eq!(server.read().unwrap(), Theirs::Close(None));
    assert_eq!(next(&mut client), Message::Control);
    assert_eq!(next(&mut client), Message::Binary(b"on its way".to_vec()));
    assert!(matches!(server.read(), Err(tungstenite::Error::ConnectionClosed)));
    assert_eq!(next(&mut client), Message::Close(String::new()));
    server.get_ref().set_nonblocking(true).unwrap();
    let more = server.get_mut().read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(more, Err(ErrorKind::WouldBlock), "no second close frame, and no pong after the first");
}

/// A stream that gives and takes `piece` bytes, and then nothing once, as a slow connection does.
struct Slow<S> {
    stream: S,
    piece: usize,
    may_read: bool,
    may_write: bool,
}

impl<S: Read> Read for Slow<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.may_read = !self.may_read;
        if !self.may_read {
            return Err(ErrorKind::WouldBlock.into());
        }
        let most = buffer.len().min(self.piece);
        self.stream.read(&mut buffer[..most])
    }
}

impl<S: Write> Write for Slow<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.may_write = !self.may_write;
        if !self.may_write {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.stream.write(&bytes[..bytes.len().min(self.piece)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[test]
fn a_slow_stream_loses_nothing_in_either_direction() {
    for piece in [1, 2, 5, 63] {
        let (client, mut server) = pair();
        let WebSocket { stream, .. } = client;
        let stream = Slow { stream, piece, may_read: false, may_write: false };
        let mut client = WebSocket::opened(stream, Vec::new(), LIMITS);
        let long: Vec<u8> = (0..300_u32).map(|index| index.to_le_bytes()[0]).collect();
        assert!(client.queue(&long).unwrap() && client.queue(b"second").unwrap());
        client.flush().unwrap();
        assert!(client.is_blocked() && client.waiting() > 0);
        server.write(part(Data::Binary, &long, false)).unwrap();
        server.write(Theirs::Ping(vec![7; 125].into())).unwrap();
        server.write(part(Data::Continue, &long, true)).unwrap();
        server.flush().unwrap();
        // The kernel buffers some hundred single bytes only.
        let reader = thread::spawn(move || (0..3).map(|_| server.read().unwrap()).collect::<Vec<Theirs>>());
        let mut received = Vec::new();
        while received.len() < 2 {
            received.extend(client.read().unwrap());
        }
        assert_eq!(received, [Message::Control, Message::Binary(long.repeat(2))]);
        while client.is_blocked() {
            client.flush().unwrap();
        }
        assert_eq!(client.waiting(), 0);
        let pong = Theirs::Pong(vec![7; 125].into());
        assert_eq!(reader.join().unwrap(), [Theirs::binary(long), Theirs::binary(b"second".to_vec()), pong], "{piece}");
    }
}

/// A stream that takes nothing at present, and has bytes to read.
struct Deaf<'b>(&'b [u8]);

impl Read for Deaf<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Deaf<'_> {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn fault_f18_pings_without_end_to_an_end_that_cannot_answer_take_no_more_memory() {
    let mut pings = Vec::new();
    for number in 0..1_000_u32 {
        pings.extend_from_slice(&[0x89, 4]);
        pings.extend_from_slice(&number.to_be_bytes());
    }
    let mut client = WebSocket::opened(Deaf(&pings), Vec::new(), LIMITS);
    for _ in 0..1_000 {
        assert_eq!(next(&mut client), Message::Control);
    }
    assert!(client.is_blocked());
    assert_eq!(client.waiting(), 2 + 4 + 4, "one pong");
    assert!(matches!(client.read(), Err(WebSocketError::Closed)));
    // The first and the newest ping are answered.
    let WebSocket { mut outgoing, .. } = client;
    let mut sent = Vec::new();
    outgoing.send(&mut sent).unwrap();
    let mut server = Server::from_raw_socket(Cursor::new(sent), tungstenite::protocol::Role::Server, None);
    for number in [0, 999_u32] {
        assert_eq!(server.read().unwrap(), Theirs::Pong(number.to_be_bytes().to_vec().into()));
    }
    assert!(server.read().is_err());
}

#[test]
fn a_message_that_finds_no_room_is_dropped_whole() {
    let mut client = WebSocket::opened(Deaf(&[]), Vec::new(), LIMITS);
    assert!(client.queue(&[1; 100_000]).unwrap());
    assert!(!client.queue(&[2; 100_000]).unwrap());
    assert!(client.queue(&[3; 90_000]).unwrap());
    assert_eq!(client.waiting(), 100_000 + 14 + 90_000 + 14);
    client.flush().unwrap();
    assert!(client.is_blocked());
}

#[test]
fn every_message_has_a_mask_of_its_own() {
    let (mut client, mut server) = pair();
    let mut masks = std::collections::BTreeSet::new();
    for _ in 0..200 {
        client.queue(&[0; 4]).unwrap();
        let bytes = client.outgoing.bytes();
        masks.insert(bytes[bytes.len() - 4..].to_vec());
        assert_eq!(bytes[bytes.len() - 8..bytes.len() - 4], bytes[bytes.len() - 4..], "zeros show the mask");
    }
    assert!(masks.len() > 190, "{}", masks.len());
    client.flush().unwrap();
    for _ in 0..200 {
        assert_eq!(server.read().unwrap(), Theirs::binary(vec![0; 4]));
    }
}

#[test]
fn bytes_behind_the_answer_belong_to_the_first_frame() {
    let mut client = WebSocket::opened(Cursor::new(b"lo".to_vec()), b"\x82\x02hi\x82\x05hel".to_vec(), LIMITS);
    assert_eq!(next(&mut client), Message::Binary(b"hi".to_vec()));
    assert_eq!(next(&mut client), Message::Binary(b"hello".to_vec()));
}
