//! Datagrams that choose their socket among those that share a port.

use taut_udp::{BindError, SocketChoice, Transmit, UdpConfig, UdpSocket};

use super::{CONFIG, LOOPBACKS, at, receive};

const CHOICES: [SocketChoice; 2] = [SocketChoice { first: 4, offset: 4 }, SocketChoice { first: 2, offset: 8 }];

/// Sends a datagram from a port of its own, or a run of equal ones.
fn send(to: std::net::SocketAddr, contents: &[u8], segment_size: usize) {
    let sender = UdpSocket::bind(&CONFIG).unwrap();
    let sent = sender.send(&[Transmit { destination: to, contents, segment_size, ecn: 0 }]);
    assert_eq!((sent.sent, sent.failed), (1, 0));
}

#[test]
fn each_datagram_comes_to_the_socket_that_it_names_and_any_other_to_the_first() {
    let sockets = UdpSocket::bind_chosen(&CONFIG, 3, &CHOICES).unwrap();
    let port = sockets[0].port();
    assert!(sockets.iter().all(|socket| socket.port() == port));
    let cases: [(&[u8], usize); 9] = [
        (&[4, 0, 0, 0, 0xf1, 9, 9, 9, 9], 1),
        (&[4, 0, 0, 0, 0x02], 2),
        (&[4, 0, 0, 0, 0x0c], 0),
        (&[4, 0, 0, 0, 0x4d], 1),
        (&[2, 0, 0, 0, 7, 7, 7, 7, 0xa2], 2),
        (&[2, 0, 0, 0, 7, 7, 7, 7], 0),
        (&[1, 0, 0, 0, 1, 1, 1, 1, 1], 0),
        (&[4], 0),
        (&[3, 0, 0, 0, 1, 1, 1, 1, 1], 0),
    ];
    for address in LOOPBACKS {
        for (datagram, socket) in cases {
            // Different sources have different hashes, and none of them matters.
            for _ in 0..4 {
                send(at(address, port), datagram, datagram.len());
                let received = receive(&sockets[socket], datagram.len());
                assert_eq!(received[0].1, datagram);
            }
        }
        let run = [4, 0, 0, 0, 2, 5].repeat(10);
        send(at(address, port), &run, 6);
        let received: Vec<u8> = receive(&sockets[2], run.len()).into_iter().flat_map(|(_, data, _)| data).collect();
        assert_eq!(received, run);
    }
}

#[test]
fn a_port_that_is_in_use_is_refused_and_a_single_socket_shares_nothing() {
    let group = UdpSocket::bind_chosen(&CONFIG, 2, &CHOICES).unwrap();
    let taken = UdpConfig { port: group[0].port(), ..CONFIG };
    for count in [1, 2] {
        let refused = UdpSocket::bind_chosen(&taken, count, &CHOICES);
        assert!(matches!(refused, Err(BindError::PortTaken { .. })), "{refused:?}");
    }
    let alone = UdpSocket::bind_chosen(&CONFIG, 1, &CHOICES).unwrap();
    let taken = UdpConfig { port: alone[0].port(), ..CONFIG };
    assert!(UdpSocket::bind_chosen(&taken, 2, &CHOICES).is_err());
}
