//! Processes of the host: which of those with a name may be believed. A process may call itself as it likes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::care;

/// Returns the command lines of the processes of the program `name` that run in this network namespace, as root or as user `runs_as`, from a file of root.
pub(super) fn command_lines(name: &str, runs_as: &str) -> Vec<Vec<String>> {
    let users = [Some(0), user(&care::read(Path::new("/etc/passwd")).unwrap_or_default(), runs_as)];
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let believed = processes.filter(|process| {
        read(process, "comm").trim_end() == name
            && is_run_by(&read(process, "status"), &users)
            && is_here(process)
            && is_program(process, name)
    });
    believed.map(|process| read(&process, "cmdline").split('\0').map(String::from).collect()).collect()
}

fn read(process: &Path, file: &str) -> String {
    care::read(&process.join(file)).unwrap_or_default()
}

/// Returns a user's number from the text of `/etc/passwd`.
fn user(passwd: &str, name: &str) -> Option<u32> {
    let mut lines = passwd.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| fields.next().filter(|field| *field == name).and_then(|_| fields.nth(1)?.parse().ok()))
}

/// Returns true if all four users of a process are among these (man 5 proc_pid_status). The owner of its directory says less: it is root for each process that
/// cannot be dumped.
fn is_run_by(status: &str, users: &[Option<u32>]) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut numbers = numbers.split_whitespace().map(|number| number.parse().ok()).peekable();
    numbers.peek().is_some() && numbers.all(|number: Option<u32>| number.is_some() && users.contains(&number))
}

/// Returns true if a process is in this network namespace. One that may not be known is another host's, such as a container's.
fn is_here(process: &Path) -> bool {
    let namespace = |path: PathBuf| fs::metadata(path.join("ns/net")).ok().map(|found| (found.dev(), found.ino()));
    let theirs = namespace(process.to_path_buf());
    theirs.is_some() && theirs == namespace(PathBuf::from("/proc/self"))
}

/// Returns true if a process runs a file of this name that belongs to root.
fn is_program(process: &Path, name: &str) -> bool {
    let file = process.join("exe");
    let is_named = fs::read_link(&file).is_ok_and(|path| {
        let last = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // An update replaced the file while it runs.
        last.strip_suffix(" (deleted)").unwrap_or(&last) == name
    });
    is_named && fs::metadata(&file).is_ok_and(|found| found.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_of_root_and_of_the_program_s_own_user_are_believed() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\ndnsmasq:x:980:65534::/:/usr/sbin/nologin\ndnsmasq2:x:1000:1000::/:/bin/sh\n";
        assert_eq!((user(passwd, "dnsmasq"), user(passwd, "dns")), (Some(980), None));
        let by = |line: &str| is_run_by(&format!("Name:\tdnsmasq\n{line}\nGid:\t0\t0\t0\t0\n"), &[Some(0), Some(980)]);
        assert!(by("Uid:\t0\t0\t0\t0") && by("Uid:\t980\t980\t980\t980"));
        assert!(!by("Uid:\t1000\t0\t0\t0"), "a program with the rights of root that a user started");
        assert!(!by("Uid:\t65534\t65534\t65534\t65534") && !by("Uid:") && !by(""));
        assert!(!is_run_by("Uid:\t1\t1\t1\t1\n", &[Some(0), None]) && !is_run_by("Uid:\tx\n", &[Some(0), None]));
    }

    #[test]
    fn a_process_is_told_by_its_file_and_its_namespace() {
        let this = Path::new("/proc/self");
        let name = std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        assert!(is_here(this) && !is_here(Path::new("/proc/0")));
        assert!(!is_program(this, "dnsmasq"));
        assert_eq!(is_program(this, &name), fs::metadata("/proc/self/exe").unwrap().uid() == 0);
    }
}
