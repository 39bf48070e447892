use super::*;

fn clocks(seconds: u64) -> Clocks {
    let now = Duration::from_secs(1_000 + seconds);
    Clocks { now: Time::from_duration(now), wall: Duration::from_secs(1_795_489_927) + now }
}

fn log(levels: &str) -> Log {
    Log::new(LogOptions { levels: levels.parse().unwrap(), stderr: StderrFormat::None })
}

fn events(log: &Log) -> Vec<String> {
    log.read(None).lines.iter().map(|line| Entry::parse(line).unwrap().event).collect()
}

fn name(name: &str) -> [Value; 1] {
    [Value::text(name)]
}

#[test]
fn levels_choose_what_is_recorded_and_may_change() {
    let mut log = log("info,session=debug");
    log.record(&kind::PEER_ONLINE, Party::Peer(1), &name("a"), clocks(0));
    log.record(&kind::SESSION_EXPIRED, Party::Peer(1), &name("a"), clocks(0));
    log.record(&kind::PEER_ADDED, Party::Peer(1), &name("a"), clocks(0));
    assert_eq!(events(&log), ["session-expired", "peer-added"]);
    assert_eq!(log.poll_line().map(|line| line.contains("peer-added")), Some(true), "the disk has info and above");
    assert_eq!(log.poll_line(), None);
    log.set_levels("warn".parse().unwrap(), clocks(1));
    log.record(&kind::PEER_ADDED, Party::Peer(1), &name("b"), clocks(2));
    assert_eq!(events(&log).len(), 2, "the change itself is of level info");
    log.set_levels("debug".parse().unwrap(), clocks(3));
    assert_eq!(events(&log).last().unwrap(), "levels-changed");
}

#[test]
fn a_restart_begins_with_the_story_of_the_last_run() {
    let mut first = log("info");
    assert_eq!(first.resume(&[]), None);
    first.record(&kind::PEER_ADDED, Party::Peer(1), &name("a"), clocks(0));
    let mut lines: Vec<String> = std::iter::from_fn(|| first.poll_line()).collect();
    lines.push(String::from("{\"cut off"));
    let mut second = log("info");
    assert_eq!(second.resume(&lines), Some("cut-off"));
    second.record(&kind::DAEMON_STOPPING, Party::Node, &[Value::Word("signal")], clocks(1));
    assert_eq!(events(&second), ["peer-added", "daemon-stopping"]);
    lines.extend(std::iter::from_fn(|| second.poll_line()));
    assert_eq!(log("info").resume(&lines), Some("stopped"));
}

#[test]
fn fault_p5_what_was_left_out_is_said_once_a_minute() {
    let mut log = log("info");
    let mut flap = |second| log.record(&kind::PEER_ANSWERS, Party::Peer(7), &name("nas"), clocks(second));
    (0..600).for_each(|tenth| flap(tenth / 10));
    flap(60);
    let lines = log.read(None).lines;
    assert_eq!(lines.len(), 6 + 1 + 1);
    let told = Entry::parse(&lines[6]).unwrap();
    let field = |name| told.field(name).map(String::from);
    assert_eq!(
        (&told.event[..], field("of"), field("peer")),
        ("events-suppressed", Some("peer-answers".into()), Some("nas".into()))
    );
    assert_eq!(field("count").as_deref(), Some("594"));
    // Without a further event, too, by the timer.
    (0..10).for_each(|_| log.record(&kind::PEER_ANSWERS, Party::Peer(7), &name("nas"), clocks(61)));
    let due = log.poll_timeout(false).unwrap();
    assert_eq!(due, clocks(120).now);
    log.handle_timeout(clocks(120));
    assert_eq!((log.poll_timeout(false), events(&log).last().unwrap().as_str()), (None, "events-suppressed"));
}

#[test]
fn a_clock_that_was_set_is_told_and_one_that_drifts_is_not() {
    let mut log = log("info");
    let mut at = |seconds: u64, ahead: i64| {
        let mut clocks = clocks(seconds);
        clocks.wall = clocks.wall.saturating_add_signed(ahead);
        log.look_at_clocks(clocks);
    };
    at(0, 0);
    (0..1_000).for_each(|minute| at(60 * minute, minute as i64 * 30));
    at(60_000, 30_000 - 3_600_000);
    at(60_060, 30_000 - 3_600_000);
    let lines = log.read(None).lines;
    assert_eq!(lines.len(), 1, "{lines:?}");
    let entry = Entry::parse(&lines[0]).unwrap();
    assert_eq!((entry.field("direction"), &entry.event[..]), (Some("back"), "clock-jumped"));
}

trait Signed {
    fn saturating_add_signed(self, milliseconds: i64) -> Self;
}

impl Signed for Duration {
    fn saturating_add_signed(self, milliseconds: i64) -> Self {
        let by = Self::from_millis(milliseconds.unsigned_abs());
        if milliseconds < 0 { self.saturating_sub(by) } else { self + by }
    }
}
