use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use taut_event::Events;

use super::admission::{MAX_CONNECTIONS, PER_USER};
use super::listener::ACCEPT_PAUSE;
use super::*;
use crate::api::MAX_REQUEST;

/// Processor time of one answer, on the clock of the test.
const COST: Duration = Duration::from_micros(100);

/// A server in a directory of its own, its poller, and a clock that only the test advances.
struct Rig {
    server: ApiServer,
    poller: Poller,
    path: PathBuf,
    now: Cell<Time>,
    answers: u32,
}

impl Rig {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("taut-server-{name}-{}", std::process::id())).join("taut.sock");
        let mut server = ApiServer::listen(&path).unwrap();
        let poller = Poller::new().unwrap();
        server.register(&poller, 3).unwrap();
        Self { server, poller, path, now: Cell::new(Time::from_duration(Duration::from_secs(100))), answers: 0 }
    }

    /// Creates a rig whose server trusts no user that connects.
    fn without_trusted_users(name: &str) -> Self {
        let mut rig = Self::new(name);
        rig.server.trusted = [u32::MAX; 2];
        rig
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).unwrap()
    }

    fn pass(&self, time: Duration) {
        self.now.set(self.now.get() + time);
    }

    /// Serves until no connection is ready and no work is due.
    fn serve(&mut self) {
        let mut events = Events::with_capacity(8);
        loop {
            // Both ends of the unix socket are in this process, so sent bytes are readable at once.
            self.poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
            let due = self.server.poll_timeout().is_some_and(|due| due <= self.now.get());
            if events.is_empty() && !due {
                return;
            }
            for event in events.iter() {
                match event.token {
                    3 => self.server.accept(&self.poller, self.now.get()),
                    token => self.server.serve(token, &self.poller, self.now.get(), |_| Some(ApiResponse::Done)),
                }
            }
            let (now, answers) = (&self.now, &mut self.answers);
            self.server.handle_timeout(
                &self.poller,
                || now.get(),
                |_| {
                    now.set(now.get() + COST);
                    *answers += 1;
                    Some(ApiResponse::Done)
                },
            );
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
fn complete_lines_are_answered_in_order_even_if_they_arrive_in_parts() {
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
fn a_daemon_that_ends_answers_nothing_more_and_the_connection_ends_last() {
    let mut rig = Rig::new("ends");
    let mut user = rig.connect();
    rig.serve();
    user.write_all(b"{\"command\":\"down\"}\n{\"command\":\"status\"}\n").unwrap();
    let mut answers = [Some(ApiResponse::Done), None].into_iter();
    let token = *rig.server.connections.keys().next().unwrap();
    rig.server.serve(token, &rig.poller, rig.now.get(), |_| answers.next().unwrap());
    assert!(answers.next().is_none(), "both requests were given to the daemon");
    assert_eq!(rig.server.connections.len(), 1);
    drop(rig);
    let mut all = String::new();
    user.read_to_string(&mut all).unwrap();
    assert_eq!(all, "{\"answer\":\"done\"}\n");
}

#[test]
fn an_endless_line_ends_the_connection() {
    let mut rig = Rig::new("endless");
    let mut user = rig.connect();
    user.write_all(&vec![b'x'; MAX_REQUEST + 4096]).unwrap();
    rig.serve();
    assert!(rig.server.connections.is_empty());
    assert_eq!(line(&user), "");
}

#[test]
fn a_client_that_does_not_read_its_answers_gets_no_more_of_them() {
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
    let kept: usize = rig.server.connections.values().map(UserConnection::kept).sum();
    assert!(sent > 4096 && kept < 2 * MAX_REQUEST, "{kept} bytes are kept for a user who sent {sent}");
    user.set_nonblocking(false).unwrap();
    let mut answers = BufReader::new(&user).lines();
    for _ in 0..10 {
        assert!(answers.next().unwrap().unwrap().contains("does not understand"));
        rig.serve();
    }
}

#[test]
fn fault_p4_a_user_without_permission_to_change_may_read_the_status() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let other_user = UserConnection::new(ours, false);
    let answer = |_| Some(ApiResponse::Done);
    assert!(matches!(other_user.respond(b"{\"command\":\"status\"}", answer), Some(ApiResponse::Done)));
    for command in ["down", "up", "leave"] {
        let line = format!("{{\"command\":\"{command}\"}}");
        assert!(matches!(other_user.respond(line.as_bytes(), answer), Some(ApiResponse::Failed(_))), "{command}");
    }
}

#[test]
fn a_second_daemon_is_refused_and_a_leftover_socket_is_replaced() {
    let rig = Rig::new("second");
    assert!(matches!(ApiServer::listen(&rig.path), Err(RunError::AlreadyRunning(_))));
    let path = rig.path.with_file_name("leftover.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the socket of a daemon that was killed");
    let private = private_socket(&path);
    drop(UnixListener::bind(&private).unwrap());
    let server = ApiServer::listen(&path).unwrap();
    // A daemon whose public socket was removed still answers on the private one.
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(ApiServer::listen(&path), Err(RunError::AlreadyRunning(found)) if found == private));
    drop(server);
    assert!(!path.exists() && !private.exists(), "a regular end removes both sockets");
}

#[test]
fn fault_p7_only_its_owner_may_connect_to_the_private_socket() {
    let rig = Rig::new("modes");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&private_socket(&rig.path)), mode(&rig.path)), (0o600, 0o666));
}

#[test]
fn a_path_that_is_too_long_for_a_private_socket_has_none() {
    let directory = std::env::temp_dir().join(format!("taut-server-long-{}", std::process::id()));
    let room = 107 - directory.as_os_str().len() - 1;
    let path = directory.join("x".repeat(room));
    let server = ApiServer::listen(&path).unwrap();
    assert!(path.exists() && !private_socket(&path).exists());
    drop(server);
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn fault_p7_the_private_socket_does_not_wait_behind_the_public_queue() {
    let mut rig = Rig::new("queue");
    let crowd = 10 * ACCEPTS_AT_ONCE;
    for _ in 0..crowd {
        drop(rig.connect());
    }
    let mut root = UnixStream::connect(private_socket(&rig.path)).unwrap();
    root.write_all(b"{\"command\":\"status\"}\n").unwrap();
    rig.serve();
    root.set_nonblocking(true).unwrap();
    assert!(line(&root).contains("done"));
    let accepted = rig.server.next - FIRST_CONNECTION;
    assert!(accepted < u64::from(crowd) / 2, "{accepted} of the public queue were accepted first");
}

#[test]
fn fault_p4_a_file_that_is_no_socket_is_not_removed() {
    let rig = Rig::new("file");
    let file = rig.path.with_file_name("precious");
    let link = rig.path.with_file_name("link.sock");
    std::fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link] {
        assert!(matches!(ApiServer::listen(path), Err(RunError::Socket(_, _))), "{path:?}");
        assert!(!private_socket(path).exists(), "{path:?}");
    }
    let path = rig.path.with_file_name("other.sock");
    std::os::unix::fs::symlink(&file, private_socket(&path)).unwrap();
    assert!(matches!(ApiServer::listen(&path), Err(RunError::Socket(found, _)) if found == private_socket(&path)));
    assert!(!path.exists());
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn fault_p7_idle_connections_are_evicted_for_new_ones() {
    let mut rig = Rig::new("crowd");
    let users: Vec<UnixStream> = (0..MAX_CONNECTIONS).map(|_| rig.connect()).collect();
    rig.serve();
    assert_eq!(rig.server.connections.len(), MAX_CONNECTIONS);
    for _ in 0..10 {
        rig.pass(ACCEPT_PAUSE);
        let mut newcomer = rig.connect();
        newcomer.write_all(b"{\"command\":\"status\"}\n").unwrap();
        rig.serve();
        assert!(line(&newcomer).contains("done"));
    }
    assert!((MAX_CONNECTIONS - 10..=MAX_CONNECTIONS).contains(&rig.server.connections.len()));
    drop(users);
    rig.serve();
    assert_eq!(rig.server.connections.len(), 0);
}

#[test]
fn fault_p7_connections_of_a_user_id_are_limited_in_number_and_time() {
    let mut rig = Rig::without_trusted_users("idle");
    let mut users: Vec<UnixStream> = (0..3 * PER_USER).map(|_| rig.connect()).collect();
    rig.serve();
    assert_eq!(rig.server.connections.len(), PER_USER);
    let last = users.last_mut().unwrap();
    last.write_all(b"{\"command\":\"status\"}\n").unwrap();
    rig.serve();
    assert!(line(last).contains("done"));
    rig.pass(Duration::from_secs(59));
    rig.serve();
    assert_eq!(rig.server.connections.len(), 1, "only one that was answered may still ask");
    rig.pass(Duration::from_secs(2));
    rig.serve();
    assert_eq!(rig.server.connections.len(), 0);
}

#[test]
fn fault_p7_single_bytes_and_many_requests_stay_within_the_users_share() {
    let mut rig = Rig::without_trusted_users("share");
    let mut user = rig.connect();
    user.set_nonblocking(true).unwrap();
    user.write_all(b"{\"comm").unwrap();
    rig.serve();
    user.write_all(b"and\":\"status\"}\n").unwrap();
    rig.serve();
    assert_eq!(rig.answers, 0, "the rest of a request is read after a pause");
    rig.pass(crate::basics::PART_PAUSE);
    rig.serve();
    assert_eq!(rig.answers, 1);
    let begin = rig.now.get();
    for _ in 0..1_000 {
        while user.write(&b"{\"command\":\"status\"}\n".repeat(100)).is_ok() {}
        rig.serve();
        while Read::read(&mut user, &mut [0; 4096]).is_ok() {}
        rig.pass(Duration::from_millis(1));
    }
    let passed = rig.now.get().since(begin);
    let share = (COST * rig.answers).as_secs_f64() / passed.as_secs_f64();
    assert!(share < 0.15, "{share} of the time, the burst included");
    assert!(rig.answers > 200, "{} answers", rig.answers);
}

#[test]
fn fault_p7_connections_are_accepted_at_a_bounded_rate() {
    let mut rig = Rig::without_trusted_users("rate");
    let mut accepted = 0;
    let begin = rig.now.get();
    while rig.now.get().since(begin) < Duration::from_secs(1) {
        let users: Vec<UnixStream> = (0..20).map(|_| rig.connect()).collect();
        let before = rig.server.next;
        rig.serve();
        accepted += rig.server.next - before;
        drop(users);
        rig.pass(Duration::from_millis(5));
    }
    assert!((900..1_100).contains(&accepted), "{accepted}");
}

#[test]
fn fault_p7_a_client_that_hung_up_does_not_keep_the_agent_awake() {
    let mut rig = Rig::without_trusted_users("gone");
    let mut user = rig.connect();
    user.write_all(&b"{\"command\":\"status\"}\n".repeat(3_000)[..MAX_REQUEST]).unwrap();
    drop(user);
    rig.serve();
    assert_eq!(rig.server.connections.len(), 0);
}
