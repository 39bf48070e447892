use std::io::{BufRead, BufReader};
use std::time::Duration;

use taut_event::Events;

use super::*;

/// A server in a directory of its own, and a poller that it works with.
struct Rig {
    server: Server,
    poller: Poller,
    path: PathBuf,
}

impl Rig {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("taut-server-{name}-{}", std::process::id())).join("taut.sock");
        let mut server = Server::listen(&path).unwrap();
        let poller = Poller::new().unwrap();
        server.register(&poller, 3).unwrap();
        Self { server, poller, path }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).unwrap()
    }

    /// Serves until nothing has been ready for a while.
    fn serve(&mut self) {
        let mut events = Events::with_capacity(8);
        loop {
            self.poller.wait(&mut events, Some(Duration::from_millis(50))).unwrap();
            if events.is_empty() {
                return;
            }
            for event in events.iter() {
                match event.token {
                    3 => assert!(self.server.accept(&self.poller)),
                    token => self.server.serve(token, &self.poller, |_| Response::Done),
                }
            }
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.path.parent().map(std::fs::remove_dir_all);
    }
}

fn line(stream: &UnixStream) -> String {
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn answers_whole_lines_in_order_however_they_come() {
    let mut rig = Rig::new("lines");
    let mut user = rig.connect();
    user.write_all(b"{\"command\":\"status\"}\n{\"command\":").unwrap();
    rig.serve();
    user.write_all(b"\"down\"}\nnonsense\n").unwrap();
    rig.serve();
    let mut answers = BufReader::new(&user).lines();
    assert_eq!(answers.next().unwrap().unwrap(), r#"{"answer":"done"}"#);
    assert_eq!(answers.next().unwrap().unwrap(), r#"{"answer":"done"}"#);
    assert!(answers.next().unwrap().unwrap().contains("does not understand"));
}

#[test]
fn a_line_without_end_is_cut_off() {
    let mut rig = Rig::new("endless");
    let mut user = rig.connect();
    user.write_all(&vec![b'x'; MAX_REQUEST + 4096]).unwrap();
    rig.serve();
    assert!(rig.server.connections.is_empty());
    assert_eq!(line(&user), "");
}

#[test]
fn whoever_does_not_read_answers_gets_no_more_of_them() {
    let mut rig = Rig::new("deaf");
    let mut user = rig.connect();
    user.set_nonblocking(true).unwrap();
    let mut sent = 0;
    for _ in 0..40 {
        while let Ok(length) = user.write(&[b'\n'; 4096]) {
            sent += length;
        }
        rig.serve();
    }
    let kept: usize = rig.server.connections.values().map(Connection::kept).sum();
    assert!(sent > 4096 && kept < 2 * MAX_REQUEST, "{kept} bytes are kept for a user who sent {sent}");
    user.set_nonblocking(false).unwrap();
    let mut answers = BufReader::new(&user).lines();
    for _ in 0..10 {
        assert!(answers.next().unwrap().unwrap().contains("does not understand"));
        rig.serve();
    }
}

#[test]
fn fault_p4_who_may_not_change_may_still_look() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let stranger = Connection::new(ours, false);
    let mut answer = |_| Response::Done;
    assert!(matches!(stranger.respond(b"{\"command\":\"status\"}", &mut answer), Response::Done));
    assert!(matches!(stranger.respond(b"{\"command\":\"down\"}", &mut answer), Response::Failed(_)));
    assert!(matches!(stranger.respond(b"{\"command\":\"up\"}", &mut answer), Response::Failed(_)));
}

#[test]
fn a_second_daemon_is_refused_and_a_leftover_replaced() {
    let rig = Rig::new("second");
    assert!(matches!(Server::listen(&rig.path), Err(RunError::AlreadyRunning(_))));
    let path = rig.path.with_file_name("leftover.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the socket of a daemon that was killed");
    let server = Server::listen(&path).unwrap();
    drop(server);
    assert!(!path.exists(), "an orderly end leaves none");
}

#[test]
fn fault_p4_what_is_no_socket_is_left_alone() {
    let rig = Rig::new("file");
    let file = rig.path.with_file_name("precious");
    let link = rig.path.with_file_name("link.sock");
    std::fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link] {
        assert!(matches!(Server::listen(path), Err(RunError::Socket(_, _))), "{path:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn more_users_than_places_wait_for_their_turn() {
    let mut rig = Rig::new("crowd");
    let mut users: Vec<UnixStream> = (0..MAX_CONNECTIONS + 5).map(|_| rig.connect()).collect();
    rig.serve();
    assert_eq!(rig.server.connections.len(), MAX_CONNECTIONS);
    users.drain(..10);
    rig.serve();
    for user in &mut users {
        user.write_all(b"{\"command\":\"status\"}\n").unwrap();
    }
    rig.serve();
    assert!(users.iter().all(|user| line(user).contains("done")));
}
