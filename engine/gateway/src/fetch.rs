//! One HTTP request to the gateway, with limits on time and length (fault D15).

use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use taut_base::{SAFE_PACKET, SOCKET_MARK};
use taut_event::connect_tcp;
use taut_portmap::FetchError;
use taut_portmap::http::{self, Answer, HttpError};

/// Limit on connecting, 2 s: the gateway is on the local network.
const CONNECTING: Duration = Duration::from_secs(2);

/// Limit on the whole request, 5 s, however slowly the answer arrives.
const WHOLE: Duration = Duration::from_secs(5);

/// Connects, sends the request, and reads the whole answer.
///
/// # Errors
/// [`FetchError`] if no connection is made, the answer takes too long, or it is not valid.
pub(crate) fn fetch(place: SocketAddrV4, request: &[u8]) -> Result<Answer, FetchError> {
    let end = Instant::now() + WHOLE;
    let mut stream = connect_tcp(SocketAddr::V4(place), SAFE_PACKET, CONNECTING, SOCKET_MARK)
        .map_err(|_| FetchError::NoConnection)?;
    stream
        .set_write_timeout(Some(CONNECTING))
        .and_then(|()| stream.write_all(request))
        .map_err(|_| FetchError::TooSlow)?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(FetchError::TooSlow);
        }
        let length = match stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut piece)) {
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                return Err(FetchError::TooSlow);
            }
            // A connection that was reset has ended.
            Err(_) => 0,
        };
        bytes.extend_from_slice(&piece[..length]);
        if let Some(answer) = http::read(&bytes, length == 0).map_err(FetchError::Http)? {
            return Ok(answer);
        }
        if length == 0 {
            return Err(FetchError::Http(HttpError::Short));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// Returns the answer fetched from a gateway that reads the start of the request and then runs `behaves`.
    fn from_one_that(behaves: impl FnOnce(&mut TcpStream) + Send + 'static) -> Result<Answer, FetchError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(place) = listener.local_addr().unwrap() else { panic!("not IPv4") };
        let gateway = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 512]);
            behaves(&mut stream);
        });
        let answer = fetch(place, &http::get(place, "/"));
        gateway.join().unwrap();
        answer
    }

    #[test]
    fn an_answer_is_read_to_its_end() {
        let answer = from_one_that(|stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap();
            stream.write_all(b"ngth: 2\r\n\r\nhi").unwrap();
            // The connection stays open: the length says where the answer ends.
            let _ = stream.read(&mut [0; 1]);
        });
        assert_eq!(answer, Ok(Answer { status: 200, body: b"hi".to_vec() }));
    }

    #[test]
    fn fault_d15_a_page_without_end_and_one_that_never_comes_are_given_up() {
        let endless = from_one_that(|stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        });
        assert_eq!(endless, Err(FetchError::Http(HttpError::TooLong)));
        let slow = from_one_that(|stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        assert_eq!(slow, Err(FetchError::TooSlow));
        assert_eq!(from_one_that(|_| {}), Err(FetchError::Http(HttpError::Short)));
        assert_eq!(fetch("127.0.0.1:1".parse().unwrap(), b"GET"), Err(FetchError::NoConnection));
    }
}
