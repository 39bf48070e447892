use std::os::unix::fs::PermissionsExt;

use super::*;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("taut-events-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn log(&self) -> EventLog {
        EventLog::new(&self.0)
    }

    fn lines(&self) -> Vec<String> {
        saved_events(&self.0, 10_000).0
    }

    fn file(&self) -> PathBuf {
        self.0.join(EVENTS)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn at(seconds: u64) -> Time {
    Time::from_duration(Duration::from_secs(seconds))
}

#[test]
fn lines_survive_the_program() {
    let directory = Directory::new("survive");
    assert_eq!(directory.lines(), Vec::<String>::new());
    let mut log = directory.log();
    assert_eq!(log.append(String::from("{\"a\":1}"), at(0)), None);
    // The log is never closed, as after `kill -9`.
    std::mem::forget(log);
    assert_eq!(directory.log().append(String::from("{\"a\":2}"), at(0)), None);
    assert_eq!(directory.lines(), ["{\"a\":1}", "{\"a\":2}"]);
    assert_eq!(saved_events(&directory.0, 1).0, ["{\"a\":2}"]);
    assert_eq!(fs::metadata(directory.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn fault_p5_the_log_takes_at_most_two_files_of_256_kib() {
    let directory = Directory::new("rotate");
    let mut log = directory.log();
    let line = |number: u32| format!("{{\"number\":{number},\"text\":\"{}\"}}", "x".repeat(200));
    for number in 0..10_000 {
        assert_eq!(log.append(line(number), at(0)), None);
        if number == 6_000 {
            // The daemon restarts in the middle.
            log = directory.log();
        }
    }
    let sizes = [directory.file(), previous(&directory.file())].map(|path| fs::metadata(path).unwrap().len());
    assert!(sizes.iter().all(|size| *size <= MAX_FILE), "{sizes:?}");
    assert!(sizes[1] > MAX_FILE - 300, "{sizes:?}");
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 2);
    let lines = directory.lines();
    assert_eq!(lines.last(), Some(&line(9_999)));
    let first = 10_000 - lines.len() as u32;
    assert!((first..10_000).map(line).eq(lines.iter().cloned()), "without a gap over the rotation");
}

#[test]
fn a_crash_in_the_middle_of_a_write_spoils_one_line() {
    let directory = Directory::new("torn");
    for cut in 0..9 {
        let whole = "{\"a\":1}\n{\"b\":2}\n";
        fs::write(directory.file(), &whole[..whole.len() - cut]).unwrap();
        let before = directory.lines();
        assert_eq!(before.len(), if cut == 0 { 2 } else { 1 }, "cut by {cut}");
        assert_eq!(directory.log().append(String::from("{\"c\":3}"), at(0)), None);
        let lines = directory.lines();
        assert_eq!((&lines[0][..], &lines.last().unwrap()[..]), ("{\"a\":1}", "{\"c\":3}"), "cut by {cut}");
        assert!(lines.len() <= 3);
    }
    // A crash between the two steps of a rotation.
    fs::rename(directory.file(), previous(&directory.file())).unwrap();
    assert_eq!(directory.log().append(String::from("{\"d\":4}"), at(0)), None);
    assert_eq!(directory.lines().last().unwrap(), "{\"d\":4}");
}

#[test]
fn a_refusing_disk_is_reported_once_and_lost_lines_are_counted() {
    let directory = Directory::new("refuses");
    let mut log = directory.log();
    // A directory in the file's place makes writes fail, also for root.
    fs::create_dir(directory.file()).unwrap();
    assert!(
        matches!(log.append(String::from("1"), at(0)), Some(LogDisk::Failed(text)) if text.contains("free or repair"))
    );
    assert_eq!(log.append(String::from("2"), at(1)), None);
    assert_eq!(log.append(String::from("3"), at(31)), None, "the log tries again, and reports the failure once");
    fs::remove_dir(directory.file()).unwrap();
    assert_eq!(log.append(String::from("4"), at(32)), None, "the log does not try again before half a minute is over");
    assert_eq!(log.append(String::from("5"), at(62)), Some(LogDisk::Works { missing: 0 }));
    assert_eq!(directory.lines(), ["1", "2", "3", "4", "5"], "the lines waited in memory");
}

#[test]
fn lines_that_the_disk_refused_are_written_when_the_program_ends() {
    let directory = Directory::new("owed");
    let gap = |missing| format!("missing {missing}");
    let mut log = directory.log();
    fs::create_dir(directory.file()).unwrap();
    (0..3).for_each(|number| drop(log.append(number.to_string(), at(0))));
    fs::remove_dir(directory.file()).unwrap();
    // The disk works again, but half a minute is not over.
    log.append(String::from("last"), at(28));
    log.finish(gap);
    assert_eq!(directory.lines(), ["0", "1", "2", "last"]);
    // When more lines wait than have room, the oldest ones are lost and counted.
    let mut log = directory.log();
    fs::remove_file(directory.file()).unwrap();
    fs::create_dir(directory.file()).unwrap();
    (0..1_000).for_each(|number| drop(log.append(number.to_string(), at(0))));
    fs::remove_dir(directory.file()).unwrap();
    log.finish(gap);
    let lines = directory.lines();
    assert_eq!((lines.len(), &lines[0][..], &lines[1][..]), (MAX_OWED + 1, "missing 744", "744"));
}

#[test]
fn a_file_that_another_program_removed_or_moved_is_begun_again() {
    let directory = Directory::new("removed");
    let mut log = directory.log();
    assert_eq!(log.append(String::from("1"), at(0)), None);
    fs::remove_file(directory.file()).unwrap();
    assert_eq!(log.append(String::from("2"), at(1)), Some(LogDisk::Replaced));
    assert_eq!(log.append(String::from("3"), at(2)), None);
    assert_eq!(directory.lines(), ["2", "3"]);
    fs::rename(directory.file(), directory.0.join("moved")).unwrap();
    assert_eq!(log.append(String::from("4"), at(3)), Some(LogDisk::Replaced));
    assert_eq!(directory.lines(), ["4"]);
}

#[test]
fn each_file_is_judged_alone() {
    let directory = Directory::new("alone");
    let older = previous(&directory.file());
    fs::write(directory.file(), "{\"a\":1}\n").unwrap();
    fs::create_dir(&older).unwrap();
    let (lines, unread) = saved_events(&directory.0, 10);
    assert_eq!(lines, ["{\"a\":1}"], "the directory in the place of the older file does not hide the newer one");
    assert!(unread.unwrap().to_string().contains("events.jsonl.1: it is not a regular file"));
    fs::remove_dir(&older).unwrap();
    fs::rename(directory.file(), &older).unwrap();
    fs::create_dir(directory.file()).unwrap();
    let (lines, unread) = saved_events(&directory.0, 10);
    assert_eq!((&lines[..], unread.is_some()), (&[String::from("{\"a\":1}")][..], true));
}

#[test]
fn a_file_that_is_too_long_is_read_from_its_end() {
    let directory = Directory::new("long");
    let all: String = (0..60_000).map(|number| format!("{{\"number\":{number}}}\n")).collect();
    fs::write(directory.file(), &all).unwrap();
    let lines = saved_events(&directory.0, usize::MAX).0;
    assert_eq!(lines.last().map(|line| &line[..]), Some("{\"number\":59999}"));
    assert!(all.ends_with(&(lines.join("\n") + "\n")) && lines[0].starts_with("{\"number\":"), "{}", lines[0]);
    assert!(lines.iter().map(String::len).sum::<usize>() as u64 > MAX_FILE);
}

#[test]
fn lines_of_other_programs_are_skipped() {
    let mut lines = VecDeque::new();
    let long = [&b"x".repeat(MAX_LINE + 1)[..], b"\n"].concat();
    let bytes = [&b"\xff\xfe\n\n"[..], &long, b"{}\ncut"].concat();
    keep(&bytes, 10, &mut lines);
    assert_eq!(lines, ["{}"]);
    let directory = Directory::new("link");
    let elsewhere = directory.0.join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, directory.file()).unwrap();
    assert!(
        matches!(directory.log().append(String::from("1"), at(0)), Some(LogDisk::Failed(_))),
        "a link is not followed"
    );
    assert!(!elsewhere.exists());
}
