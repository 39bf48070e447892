use std::cell::Cell;
use std::net::TcpListener;
use std::thread;

use tungstenite::protocol::Role;

use super::*;
use crate::web::stream::Socket;

#[test]
fn fault_f5_a_client_that_reads_fast_gets_no_more_than_its_share_of_a_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let stream = Stream::new(Socket::new(listener.accept().unwrap().0).unwrap(), None).unwrap();
    stream.tcp().set_nonblocking(false).unwrap();
    let mut socket = WebSocket::from_raw_socket(stream, Role::Server, Some(opening::config()));
    let reader = thread::spawn(move || io::copy(&mut peer, &mut io::sink()));
    let waiting = Cell::new(9_999);
    let mut next = || {
        let left = waiting.get();
        waiting.set(left.max(1) - 1);
        (left > 0).then(|| vec![7; 100])
    };
    assert!(write(&mut socket, &mut next).unwrap(), "messages are still waiting after one turn");
    assert_eq!(waiting.get(), 9_999 - 64);
    while write(&mut socket, &mut next).unwrap() {}
    drop(socket);
    // Each message has a header of two bytes.
    assert_eq!(reader.join().unwrap().unwrap(), 9_999 * 102);
}
