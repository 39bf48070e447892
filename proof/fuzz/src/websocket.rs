//! What a server sends to the client's end of a WebSocket.

use std::io::{self, ErrorKind, Read, Write};

use taut_dial::{Message, WebSocket, WebSocketLimits};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Error, Message as Theirs};

/// Longest message: short, so that inputs reach the limit.
const MOST: usize = 300;

const LIMITS: WebSocketLimits = WebSocketLimits { read: 64, message: MOST, waiting: 500 };

/// A server whose bytes come in pieces, after each of which none are there at present. It takes all bytes, or none.
struct Server<'a> {
    bytes: &'a [u8],
    piece: usize,
    pauses: bool,
    paused: bool,
    is_deaf: bool,
}

impl Read for Server<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.paused = self.pauses && !self.paused;
        if self.paused {
            return Err(ErrorKind::WouldBlock.into());
        }
        let most = buffer.len().min(self.piece);
        self.bytes.read(&mut buffer[..most])
    }
}

impl Write for Server<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_deaf { Err(ErrorKind::WouldBlock.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the input as frames, and as the answer to the opening: no panic, bounded memory, the same result whether bytes come at once or in pieces, and the
/// messages that another WebSocket reads.
pub(crate) fn server(input: &[u8]) {
    let (piece, bytes) = input.split_first().map_or((1, input), |(first, rest)| (usize::from(*first) % 80 + 1, rest));
    let server = |piece, pauses, is_deaf| Server { bytes, piece, pauses, paused: false, is_deaf };
    let whole = messages(server(usize::MAX, false, false));
    for (piece, is_deaf) in [(piece, false), (piece, true), (1, false)] {
        assert_eq!(messages(server(piece, true, is_deaf)), whole, "pieces of {piece} bytes");
    }
    compare(&whole, server(usize::MAX, false, false));
    let opening = |piece| match WebSocket::open(server(piece, false, false), "host:1", "/", false, LIMITS) {
        Ok(_) => unreachable!("an answer to a key that it cannot know"),
        Err(error) => format!("{error:?}"),
    };
    assert_eq!(opening(usize::MAX), opening(piece), "the answer to the opening");
}

/// Returns the messages, and the reason of the end.
fn messages(server: Server<'_>) -> (Vec<Message>, String) {
    let mut socket = WebSocket::opened(server, Vec::new(), LIMITS);
    let mut found = Vec::new();
    loop {
        match socket.read() {
            Ok(Some(message)) => {
                if let Message::Binary(bytes) = &message {
                    assert!(bytes.len() <= MOST && bytes.capacity() <= MOST);
                }
                found.push(message);
            }
            Ok(None) => {}
            Err(error) => return (found, format!("{error:?}")),
        }
        // One pong and one close frame at most: a deaf server takes nothing.
        assert!(socket.waiting() <= 2 * 131, "{} bytes wait", socket.waiting());
    }
}

/// Compares with the library. It accepts lengths in more bytes than they need, those of control frames included, and refuses a text before its end.
fn compare(ours: &(Vec<Message>, String), server: Server<'_>) {
    let config = WebSocketConfig::default().max_message_size(Some(MOST)).max_frame_size(Some(MOST));
    let mut socket = tungstenite::WebSocket::from_raw_socket(server, Role::Client, Some(config));
    let (mut theirs, mut refused_text) = (Vec::new(), false);
    loop {
        let message = match socket.read() {
            Ok(Theirs::Binary(bytes)) => Message::Binary(bytes.to_vec()),
            Ok(Theirs::Text(_)) => Message::Text,
            Ok(Theirs::Ping(_) | Theirs::Pong(_) | Theirs::Frame(_)) => Message::Control,
            // It replaces the reason where the code is one that nobody may send.
            Ok(Theirs::Close(_)) => {
                theirs.push(Message::Close(String::new()));
                break;
            }
            Err(error) => {
                refused_text = matches!(error, Error::Utf8(_));
                break;
            }
        };
        theirs.push(message);
    }
    let (ours, end) = ours;
    let ours: Vec<Message> = ours
        .iter()
        .map(|message| match message {
            Message::Close(_) => Message::Close(String::new()),
            other => other.clone(),
        })
        .collect();
    if end.contains("LongForm") || end.contains("LongControl") {
        assert!(theirs.starts_with(&ours), "{ours:?} and {theirs:?}");
    } else if refused_text {
        assert!(ours.starts_with(&theirs), "{ours:?} and {theirs:?}");
    } else {
        assert_eq!(ours, theirs, "{end}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let long =
        |opcode: u8, length: u16| [&[opcode, 126][..], &length.to_be_bytes(), &vec![7; usize::from(length)]].concat();
    let frames = |frames: &[&[u8]]| [&[4][..], &frames.concat()].concat();
    vec![
        frames(&[b"\x82\x03abc", b"\x82\x00", b"\x81\x02hi", b"\x89\x01?", b"\x8a\x01!", b"\x88\x05\x03\xe8bye"]),
        frames(&[b"\x02\x01a", b"\x89\x00", b"\x00\x00", b"\x80\x01b", b"\x82\x01c"]),
        frames(&[&long(0x82, 300), &long(0x02, 200), b"\x80\x64", &[1; 100], &long(0x82, 301)]),
        frames(&[b"\x01\x02\xc3\xa4", b"\x00\x01\xc3", b"\x80\x01\xa4", b"\x88\x00"]),
        frames(&[b"\x82\x7f\0\0\0\0\0\x01\0\0", b"\x82\x83\x01\x02\x03\x04abc"]),
        frames(&[b"\x89\x04ping", b"\x89\x05again", b"\x88\x02\x03\xed", b"\x82\x01x"]),
        [&[9][..], b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x82\x01a"].concat(),
        [&[3][..], b"HTTP/1.0 302 Found\r\nLocation: http://a/\r\nContent-Length: 0\r\n\r\n"].concat(),
    ]
}
