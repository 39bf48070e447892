//! What injected code would try from inside of a program, for tests of a sandbox. Each attempt does real harm to its target where nothing refuses it, so no program may
//! contain this crate: `tools/arrows.py` lets only `proof/` use it.
//!
//! It promises: nothing is harmed but the [`Target`] and the calling process.
//!
//! It refuses: attempts whose success would harm the host, such as loading a module that the kernel accepts.
#![expect(unsafe_code, reason = "attacks are made of plain system calls")]

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

/// What an attempt is aimed at: the files and the process belong to the test.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Another process.
    pub process: libc::pid_t,
    /// A directory outside of the sandbox, with a file `secret`.
    pub directory: &'a Path,
}

type Attempt = fn(Target<'_>) -> io::Result<()>;

/// All attempts by name. `Ok` means that the attempt succeeded.
pub static ATTEMPTS: &[(&str, Attempt)] = &[
    ("execve", |_| execute()),
    ("fork", |_| fork()),
    ("ptrace", |target| {
        call(libc::SYS_ptrace, [libc::c_long::from(libc::PTRACE_SEIZE), target.process.into(), 0, 0, 0])
    }),
    ("process-vm-readv", |target| call(libc::SYS_process_vm_readv, [target.process.into(), 0, 0, 0, 0])),
    ("init-module", |_| call(libc::SYS_init_module, [0; 5])),
    ("kill", |target| call(libc::SYS_kill, [target.process.into(), libc::SIGTERM.into(), 0, 0, 0])),
    ("tgkill", |target| {
        call(libc::SYS_tgkill, [target.process.into(), target.process.into(), libc::SIGTERM.into(), 0, 0])
    }),
    ("pidfd", |target| descriptor(libc::SYS_pidfd_open, [target.process.into(), 0, 0, 0, 0])),
    ("memory-of-another", |target| read(&format!("/proc/{}/mem", target.process))),
    ("environment-of-another", |target| read(&format!("/proc/{}/environ", target.process))),
    ("read-shadow", |_| read("/etc/shadow")),
    ("read-outside", |target| std::fs::read(target.directory.join("secret")).map(drop)),
    ("write-outside", |target| std::fs::write(target.directory.join("new"), "x")),
    ("remove-outside", |target| std::fs::remove_file(target.directory.join("secret"))),
    ("write-sysctl", |_| std::fs::write("/proc/sys/kernel/domainname", "x")),
    ("packet-socket", |_| socket(libc::AF_PACKET, libc::SOCK_RAW)),
    ("raw-socket", |_| {
        descriptor(libc::SYS_socket, [libc::AF_INET.into(), libc::SOCK_RAW.into(), libc::IPPROTO_ICMP.into(), 0, 0])
    }),
    ("unix-socket", |_| socket(libc::AF_UNIX, libc::SOCK_STREAM)),
    ("unix-pair", |_| std::os::unix::net::UnixDatagram::pair().map(drop)),
    ("vsock", |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM)),
    ("audit-socket", |_| netlink(9)),
    ("bpf-map", |_| bpf_map()),
    ("mount", |target| mount(target.directory)),
    ("unshare", |_| call(libc::SYS_unshare, [libc::CLONE_NEWNS.into(), 0, 0, 0, 0])),
    ("chroot", |target| change_root(target.directory)),
    ("keyctl", |_| call(libc::SYS_keyctl, [0, -3, 0, 0, 0])),
    ("io-uring", |_| io_uring()),
    ("perf-event", |_| call(libc::SYS_perf_event_open, [0, 0, -1, -1, 0])),
    ("userfaultfd", |_| descriptor(libc::SYS_userfaultfd, [1, 0, 0, 0, 0])),
    ("executable-memory", |_| executable_memory()),
];

/// Returns the error in `errno` if a call returned a negative number.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes a system call whose arguments are numbers, or are refused by the kernel without a look at what they point to.
fn call(number: libc::c_long, arguments: [libc::c_long; 5]) -> io::Result<()> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: no argument points to memory of this process.
    checked(unsafe { libc::syscall(number, a, b, c, d, e) }).map(drop)
}

fn descriptor(number: libc::c_long, arguments: [libc::c_long; 5]) -> io::Result<()> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: no argument points to memory of this process.
    let made = checked(unsafe { libc::syscall(number, a, b, c, d, e) })?;
    // SAFETY: a new descriptor that nothing else owns.
    drop(unsafe { OwnedFd::from_raw_fd(made as libc::c_int) });
    Ok(())
}

fn execute() -> io::Result<()> {
    let words = [c"true".as_ptr(), null()];
    // SAFETY: the path and both lists end as execve expects.
    checked(unsafe { libc::execve(c"/bin/true".as_ptr(), words.as_ptr(), words[1..].as_ptr()) }.into()).map(drop)
}

fn fork() -> io::Result<()> {
    // SAFETY: the child does nothing but end.
    match checked(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) })? {
        // SAFETY: ends the child without running anything of this process.
        0 => unsafe { libc::_exit(0) },
        _ => Ok(()),
    }
}

fn read(path: &str) -> io::Result<()> {
    std::fs::File::open(path).map(drop)
}

fn socket(domain: libc::c_int, kind: libc::c_int) -> io::Result<()> {
    descriptor(libc::SYS_socket, [domain.into(), kind.into(), 0, 0, 0])
}

fn netlink(protocol: libc::c_long) -> io::Result<()> {
    descriptor(libc::SYS_socket, [libc::AF_NETLINK.into(), libc::SOCK_RAW.into(), protocol, 0, 0])
}

/// Makes a map of eBPF: an array (2) with one value.
fn bpf_map() -> io::Result<()> {
    let attributes: [u32; 32] = std::array::from_fn(|place| [2, 4, 4, 1].get(place).copied().unwrap_or_default());
    // SAFETY: the attributes live across the call, and the size is their own.
    let made = checked(unsafe { libc::syscall(libc::SYS_bpf, 0, attributes.as_ptr(), size_of_val(&attributes)) })?;
    // SAFETY: a new descriptor that nothing else owns.
    drop(unsafe { OwnedFd::from_raw_fd(made as libc::c_int) });
    Ok(())
}

fn mount(directory: &Path) -> io::Result<()> {
    let place = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: all texts end with 0 and live across the call.
    checked(unsafe { libc::mount(c"tmpfs".as_ptr(), place.as_ptr(), c"tmpfs".as_ptr(), 0, null()) }.into()).map(drop)
}

fn change_root(directory: &Path) -> io::Result<()> {
    let place = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: the path ends with 0 and lives across the call.
    checked(unsafe { libc::chroot(place.as_ptr()) }.into()).map(drop)
}

fn io_uring() -> io::Result<()> {
    let mut parameters = [0_u8; 120];
    // SAFETY: `struct io_uring_params` has 120 bytes, and lives across the call.
    let made = checked(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) })?;
    // SAFETY: a new descriptor that nothing else owns.
    drop(unsafe { OwnedFd::from_raw_fd(made as libc::c_int) });
    Ok(())
}

fn executable_memory() -> io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: a mapping of its own, which nothing uses.
    let place =
        unsafe { libc::mmap(std::ptr::null_mut(), 4_096, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}
