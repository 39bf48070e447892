use std::thread;

use taut_wire::stun::{self, MAX_ANSWER_LEN};

use super::*;

/// Starts a STUN server on two loopback ports. It answers from the port that the request asks for. With `mute` it ignores requests for an answer from the
/// other port.
fn serve(mute: bool) -> (SocketAddr, thread::JoinHandle<()>) {
    let open = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        socket
    };
    let sockets = [open(), open()];
    let address = sockets[0].local_addr().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let thread = thread::spawn(move || {
        let (mut bytes, mut quiet) = ([0; 2048], 0);
        // The server ends after a few seconds without requests.
        while quiet < 60 && Instant::now() < end {
            for (number, socket) in sockets.iter().enumerate() {
                let Ok((length, source)) = socket.recv_from(&mut bytes) else {
                    quiet += 1;
                    continue;
                };
                quiet = 0;
                let other = sockets[1 - number].local_addr().unwrap();
                let Ok((answer, change)) = stun::answer(&bytes[..length], source, Some(other)) else { continue };
                let mut out = [0; MAX_ANSWER_LEN];
                let length = answer.write(&mut out);
                let from = if change { &sockets[1 - number] } else { socket };
                if !(change && mute) {
                    from.send_to(&out[..length], source).unwrap();
                }
            }
        }
    });
    (address, thread)
}

fn ask(endpoints: &[SocketAddr]) -> Survey {
    run(&[StunServer { name: String::from("r"), endpoints: endpoints.to_vec() }]).unwrap()
}

#[test]
fn a_server_on_the_same_host_sees_the_sockets_own_address() {
    let (address, thread) = serve(false);
    let survey = ask(&[address]);
    thread.join().unwrap();
    let found = &survey.ipv4;
    assert_eq!(found.answers.len(), 2, "both ports answered: {found:?}");
    assert!(found.answers.iter().all(|seen| Some(seen.mapped) == found.local), "{found:?}");
    assert_eq!((found.other_port_answered, found.hairpin), (Some(true), None));
    assert!(!survey.ipv6.asked);
}

#[test]
fn a_filtered_answer_is_distinguished_from_a_lost_one() {
    let (address, thread) = serve(true);
    let found = ask(&[address]).ipv4;
    thread.join().unwrap();
    assert_eq!((found.answers.len(), found.other_port_answered), (2, Some(false)));
}

#[test]
fn the_survey_ends_without_answers() {
    // A server that receives requests and never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let found = ask(&[silent.local_addr().unwrap()]).ipv4;
    assert!(found.asked && found.answers.is_empty() && found.local.is_some());
    assert_eq!((found.other_port_answered, found.hairpin), (None, None));
}

#[test]
fn answers_of_other_servers_and_late_answers_are_recognised() {
    let now = Instant::now();
    let sent = [Some(now), Some(now + Duration::from_millis(250)), None];
    let question = Question {
        from: Purpose::Main,
        to: "127.0.0.1:1".parse().unwrap(),
        change_port: false,
        begin: now,
        base: [7; 11],
        tries: 2,
        answered: false,
        sent,
    };
    let later = now + Duration::from_millis(300);
    assert_eq!(question.time(&question.transaction(0), later), Some(Duration::from_millis(300)));
    assert_eq!(question.time(&question.transaction(1), later), Some(Duration::from_millis(50)));
    assert_eq!(question.time(&question.transaction(2), later), None, "the third request was not sent yet");
    assert_eq!(question.time(&[8; 12], later), None);
}
