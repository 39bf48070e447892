//! Messages of DNS over UDP and TCP: how a server is asked, and how a connection is read and written, each with one deadline for a whole message.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use taut_dns::is_answer;
use taut_event::{bind_to_device, connect_tcp_through};

/// Longest wait for one server's answer, 1.5 s: three servers are asked within libc's patience of 5 s (man 5 resolv.conf).
const ONE_SERVER: Duration = Duration::from_millis(1_500);

/// Asks a server over UDP, through this network device alone if one is named.
pub(crate) fn ask_by_udp(server: SocketAddr, question: &[u8], device: Option<&str>) -> io::Result<Vec<u8>> {
    let unspecified: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // The kernel draws the port, and takes datagrams of this server only.
    let socket = UdpSocket::bind((unspecified, 0))?;
    if let Some(device) = device {
        bind_to_device(socket.as_fd(), device)?;
    }
    socket.connect(server)?;
    socket.send(question)?;
    let (deadline, mut buffer) = (Instant::now() + ONE_SERVER, vec![0; usize::from(u16::MAX)]);
    loop {
        socket.set_read_timeout(Some(left(deadline)?))?;
        let length = socket.recv(&mut buffer)?;
        let answer = buffer.get(..length).unwrap_or_default();
        if is_answer(question, answer) {
            return Ok(answer.to_vec());
        }
    }
}

/// Asks a server over TCP, through this network device alone if one is named.
pub(crate) fn ask_by_tcp(server: SocketAddr, question: &[u8], device: Option<&str>) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + ONE_SERVER;
    let mut connection = match device {
        Some(device) => connect_tcp_through(device, server, ONE_SERVER)?,
        None => TcpStream::connect_timeout(&server, ONE_SERVER)?,
    };
    write_message(&mut connection, question, deadline)?;
    let answer = read_message(&mut connection, deadline)?;
    is_answer(question, &answer).then_some(answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads a whole message until the deadline: a peer that sends a byte at a time gains nothing.
pub(crate) fn read_message(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    read_exact(stream, &mut length, deadline)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    read_exact(stream, &mut message, deadline)?;
    Ok(message)
}

fn read_exact(stream: &mut TcpStream, mut rest: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !rest.is_empty() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let length = stream.read(rest)?;
        rest = rest.get_mut(length..).filter(|_| length > 0).ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    Ok(())
}

/// Writes a whole message until the deadline.
pub(crate) fn write_message(stream: &mut TcpStream, message: &[u8], deadline: Instant) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    let whole = [&length.to_be_bytes()[..], message].concat();
    let mut rest = whole.as_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        let length = stream.write(rest)?;
        rest = rest.get(length..).filter(|_| length > 0).ok_or(io::ErrorKind::WriteZero)?;
    }
    Ok(())
}

/// Returns the time until the deadline; an error when it has passed.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn fault_h5_a_client_that_sends_a_byte_at_a_time_holds_its_place_until_the_deadline_only() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let reader = thread::spawn(move || {
            let began = Instant::now();
            (read_message(&mut stream, began + Duration::from_millis(300)).is_err(), began.elapsed())
        });
        // 255 bytes are promised; at this pace they would take 5 s.
        for byte in [0, 255].into_iter().chain([1; 255]) {
            if reader.is_finished() || slow.write_all(&[byte]).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let (failed, took) = reader.join().unwrap();
        assert!(failed && took < Duration::from_secs(3), "{took:?}");
    }
}
