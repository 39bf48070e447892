//! The program on a full or read-only disk: a small disk in a mount namespace of its own.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const PROGRAM: &str = env!("CARGO_BIN_EXE_taut-coordinator");

/// A running `serve` on a disk that only it sees. Dropping this value ends the program and removes the disk.
struct OnDisk {
    child: Child,
    directory: PathBuf,
}

impl OnDisk {
    /// Mounts the disk and starts `serve` on it. Returns `None` if this host does not allow mounts.
    fn start(size: &str, then: &str) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("taut-disk-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        let mount = |options: &str| format!("mount -t tmpfs -o {options} tmpfs {}", directory.display());
        let may =
            Command::new("unshare").args(["--mount", "sh", "-c", &mount("size=64k")]).stderr(Stdio::null()).status();
        if !may.is_ok_and(|status| status.success()) {
            println!("skipped: needs root and mounts");
            fs::remove_dir(&directory).unwrap();
            return None;
        }
        let script = format!(
            "{} && {then} exec {PROGRAM} serve --state {} --listen 127.0.0.1:0",
            mount(&format!("size={size}")),
            directory.display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).env("DISK", &directory);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Some(Self { child, directory })
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir(&self.directory);
    }
}

#[test]
fn fault_o3_a_full_disk_stops_only_writes() {
    let Some(mut serve) = OnDisk::start("2m", "") else { return };
    let mut address = String::new();
    for line in BufReader::new(serve.child.stdout.as_mut().unwrap()).lines() {
        if let Some(listening) = line.unwrap().strip_prefix("listening on ") {
            address = listening.to_owned();
            break;
        }
    }
    let disk =
        PathBuf::from(format!("/proc/{}/root", serve.child.id())).join(serve.directory.strip_prefix("/").unwrap());
    let tokens = fs::read_to_string(disk.join("first-tokens")).unwrap();
    let token = tokens.lines().find_map(|line| line.strip_prefix("operator-token: ")).unwrap();
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let ask = |method: &str, body: &str| {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{address}/api/v1/keys"))
            .header("authorization", format!("Bearer {token}"));
        let mut response = agent.run(request.body(body.to_owned()).unwrap()).unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    };
    assert_eq!(ask("POST", "{}").0, 201);
    let fill = disk.join("fill");
    let mut file = File::create(&fill).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let mut made = 1;
    let refused = loop {
        match ask("POST", "{}") {
            (201, _) => made += 1,
            refused => break refused,
        }
        assert!(made < 500, "the disk is full");
    };
    assert_eq!(refused.0, 503, "{}", refused.1);
    // The message is the coordinator's own: that of SQLite speaks of "database or disk".
    assert!(refused.1.contains("\"the disk is full ("), "{}", refused.1);
    let count = |body: &str| body.matches("\"created_at\"").count();
    let (status, listed) = ask("GET", "");
    assert_eq!((status, count(&listed)), (200, made + 1), "reads go on, with what was acknowledged");
    drop(file);
    fs::remove_file(&fill).unwrap();
    let (status, answer) = ask("POST", "{}");
    assert_eq!(status, 201, "it goes on by itself: {answer}");
    assert_eq!(count(&ask("GET", "").1), made + 2);
}

#[test]
fn fault_o3_a_read_only_disk_is_named_at_the_start() {
    let Some(mut serve) = OnDisk::start("2m", "mount -o remount,ro \"$DISK\" &&") else { return };
    let mut complaint = String::new();
    serve.child.stderr.as_mut().unwrap().read_to_string(&mut complaint).unwrap();
    assert_eq!(serve.child.wait().unwrap().code(), Some(1));
    assert!(complaint.contains("Read-only file system"), "{complaint}");
}
