//! Sets of system calls, by what they are for, with the older calls that libc still makes on some processors.
//!
//! No set makes sockets, processes or threads, and none has `ioctl`, `prctl`, `mmap` or `mprotect`: what these do depends on their arguments.

/// A system call of this processor, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call(u16);

impl Call {
    /// Names a call by its number in libc, such as `SYS_read`.
    pub const fn new(number: libc::c_long) -> Self {
        // Numbers are below 6,000 on all processors with an ARCHITECTURE here.
        Self(number as u16)
    }

    /// Returns its number.
    pub(crate) const fn number(self) -> u32 {
        self.0 as u32
    }
}

/// The processor in the kernel's words, include/uapi/linux/audit.h: the machine of ELF, with a bit for 64 bits and one for the order of bytes. `None` where this module
/// does not know which calls libc makes.
pub(crate) const ARCHITECTURE: Option<u32> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
    Some(0xc000_003e)
} else if cfg!(all(target_arch = "aarch64", target_pointer_width = "64", target_endian = "little")) {
    Some(0xc000_00b7)
} else if cfg!(all(target_arch = "riscv64", target_pointer_width = "64")) {
    Some(0xc000_00f3)
} else if cfg!(all(target_arch = "arm", target_endian = "little")) {
    Some(0x4000_0028)
} else if cfg!(all(target_arch = "mips", target_endian = "big")) {
    Some(0x0000_0008)
} else if cfg!(all(target_arch = "mips", target_endian = "little")) {
    Some(0x4000_0008)
} else {
    None
};

/// The newest call that a filter judges: from Linux 5.13. Their numbers are the same everywhere, apart from a base.
pub(crate) const NEWEST: u32 = libc::SYS_landlock_restrict_self as u32;

/// Returns a call by its common number, for those that libc has no name for.
#[cfg(any(target_arch = "arm", target_arch = "mips"))]
const fn common(number: libc::c_long) -> Call {
    Call::new(libc::SYS_landlock_restrict_self - 446 + number)
}

macro_rules! calls {
    ($($name:ident)*) => { &[$(Call::new(libc::$name)),*] };
}

/// What every program does: its memory, clocks, randomness, signals to itself, its end.
pub const PROCESS: &[Call] = calls! {
    SYS_munmap SYS_mremap SYS_madvise SYS_brk SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_gettimeofday
    SYS_nanosleep SYS_restart_syscall SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_sigaltstack SYS_getrandom SYS_getpid SYS_getppid SYS_gettid
    SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_capget SYS_uname SYS_sysinfo SYS_getrusage SYS_exit SYS_exit_group SYS_futex
    SYS_sched_yield SYS_sched_getaffinity SYS_set_robust_list SYS_set_tid_address SYS_membarrier SYS_wait4 SYS_waitid
};

/// Files, once the process may reach them.
pub const FILES: &[Call] = calls! {
    SYS_read SYS_write SYS_readv SYS_writev SYS_close SYS_lseek SYS_fsync SYS_fdatasync SYS_ftruncate SYS_flock SYS_dup SYS_dup3
    SYS_getdents64 SYS_openat SYS_mkdirat SYS_unlinkat SYS_renameat2 SYS_linkat SYS_fchmod SYS_fchmodat SYS_faccessat SYS_faccessat2
    SYS_readlinkat SYS_statx SYS_statfs SYS_fstatfs SYS_umask SYS_getcwd SYS_copy_file_range SYS_sendfile SYS_fstat
};

/// Those of [`FILES`] and [`OLDER`] that name files by their paths: a program that has all its descriptors may refuse them.
pub const PATHS: &[Call] = calls! {
    SYS_getdents64 SYS_openat SYS_mkdirat SYS_unlinkat SYS_renameat2 SYS_linkat SYS_fchmodat SYS_faccessat SYS_faccessat2 SYS_readlinkat SYS_statx SYS_statfs
};
/// The same for calls that only this processor has.
#[cfg(target_arch = "x86_64")]
pub const OLDER_PATHS: &[Call] = calls! {
    SYS_open SYS_stat SYS_lstat SYS_access SYS_readlink SYS_rename SYS_unlink SYS_mkdir SYS_rmdir SYS_link SYS_chmod SYS_newfstatat SYS_renameat
};
/// The same for calls that only some processors have; renaming by path stays possible on them.
#[cfg(not(target_arch = "x86_64"))]
pub const OLDER_PATHS: &[Call] = &[];

/// Control of descriptors, which is allowed with some commands only ([`crate::Filter::with_devices`]).
pub(crate) const CONTROL_OF_FILES: &[Call] = &[
    Call::new(libc::SYS_fcntl),
    #[cfg(target_pointer_width = "32")]
    Call::new(libc::SYS_fcntl64),
];

/// Sockets that exist. `socket` and `socketpair` are not among them.
pub const SOCKETS: &[Call] = calls! {
    SYS_bind SYS_listen SYS_accept4 SYS_connect SYS_getsockname SYS_getpeername SYS_getsockopt SYS_setsockopt
    SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_sendmmsg SYS_recvmmsg SYS_shutdown
};

/// Waiting for descriptors.
pub const WAITS: &[Call] = calls! {
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_ppoll SYS_eventfd2 SYS_signalfd4
    SYS_timerfd_create SYS_timerfd_settime
};

/// The calls of [`PROCESS`], [`FILES`] and [`WAITS`] that only some processors have.
#[cfg(target_arch = "x86_64")]
pub const OLDER: &[Call] = calls! {
    SYS_open SYS_stat SYS_lstat SYS_access SYS_readlink SYS_rename SYS_unlink SYS_mkdir SYS_rmdir SYS_link SYS_chmod SYS_poll SYS_epoll_wait
    SYS_dup2 SYS_newfstatat SYS_renameat SYS_pread64 SYS_pwrite64 SYS_rseq SYS_accept
};
/// The calls of [`PROCESS`], [`FILES`] and [`WAITS`] that only some processors have.
#[cfg(target_arch = "riscv64")]
pub const OLDER: &[Call] = calls! { SYS_newfstatat SYS_pread64 SYS_pwrite64 SYS_rseq SYS_accept };
/// The calls of [`PROCESS`], [`FILES`] and [`WAITS`] that only some processors have; the last one is `renameat`.
#[cfg(target_arch = "aarch64")]
pub const OLDER: &[Call] = &[
    Call::new(libc::SYS_newfstatat),
    Call::new(libc::SYS_pread64),
    Call::new(libc::SYS_pwrite64),
    Call::new(libc::SYS_rseq),
    Call::new(libc::SYS_accept),
    Call::new(38),
];
/// The calls of [`PROCESS`], [`FILES`] and [`WAITS`] that only some processors have. The last ones have times of 64 bits.
#[cfg(any(target_arch = "arm", target_arch = "mips"))]
pub const OLDER: &[Call] = &[
    Call::new(libc::SYS_open),
    Call::new(libc::SYS_stat64),
    Call::new(libc::SYS_lstat64),
    Call::new(libc::SYS_fstat64),
    Call::new(libc::SYS_access),
    Call::new(libc::SYS_readlink),
    Call::new(libc::SYS_rename),
    Call::new(libc::SYS_renameat),
    Call::new(libc::SYS_unlink),
    Call::new(libc::SYS_mkdir),
    Call::new(libc::SYS_rmdir),
    Call::new(libc::SYS_link),
    Call::new(libc::SYS_chmod),
    Call::new(libc::SYS_poll),
    Call::new(libc::SYS_epoll_wait),
    Call::new(libc::SYS_dup2),
    Call::new(libc::SYS__llseek),
    Call::new(libc::SYS_ftruncate64),
    Call::new(libc::SYS_statfs64),
    Call::new(libc::SYS_fstatfs64),
    Call::new(libc::SYS_accept),
    Call::new(libc::SYS_send),
    Call::new(libc::SYS_recv),
    Call::new(libc::SYS_sigreturn),
    common(403), // clock_gettime64
    common(406), // clock_getres_time64
    common(407), // clock_nanosleep_time64
    common(411), // timerfd_settime64
    common(412), // utimensat_time64
    common(414), // ppoll_time64
    common(417), // recvmmsg_time64
    common(422), // futex_time64
    SPECIAL.0,
    SPECIAL.1,
    SPECIAL.2,
    SPECIAL.3,
    SPECIAL.4,
    SPECIAL.5,
    SPECIAL.6,
    SPECIAL.7,
];
/// fstatat64, rseq, pread64, pwrite64, getuid32, geteuid32, getgid32 and getegid32, whose names or numbers differ.
#[cfg(target_arch = "arm")]
const SPECIAL: (Call, Call, Call, Call, Call, Call, Call, Call) = (
    Call::new(libc::SYS_fstatat64),
    Call::new(398),
    Call::new(libc::SYS_pread64),
    Call::new(libc::SYS_pwrite64),
    Call::new(libc::SYS_getuid32),
    Call::new(libc::SYS_geteuid32),
    Call::new(libc::SYS_getgid32),
    Call::new(libc::SYS_getegid32),
);
/// fstatat64, rseq, pread64 and pwrite64 by their numbers. Calls with ids of 16 bits do not exist on this processor.
#[cfg(target_arch = "mips")]
const SPECIAL: (Call, Call, Call, Call, Call, Call, Call, Call) = (
    Call::new(4293),
    Call::new(4367),
    Call::new(4200),
    Call::new(4201),
    Call::new(libc::SYS_getuid),
    Call::new(libc::SYS_geteuid),
    Call::new(libc::SYS_getgid),
    Call::new(libc::SYS_getegid),
);
/// The calls of [`PROCESS`], [`FILES`] and [`WAITS`] that only some processors have: not known here.
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "arm",
    target_arch = "mips"
)))]
pub const OLDER: &[Call] = &[];

/// `mmap` and `mprotect`, whose third argument says whether the memory may be executed.
#[cfg(target_pointer_width = "64")]
pub const MAPPINGS: &[Call] = calls! { SYS_mmap SYS_mprotect };
/// `mmap` and `mprotect`, whose third argument says whether the memory may be executed.
#[cfg(target_pointer_width = "32")]
pub const MAPPINGS: &[Call] = calls! { SYS_mmap2 SYS_mprotect };

/// Calls by which code that was injected into a process gets at other programs and at the kernel: running programs, reading and steering processes, loading kernel
/// modules and kernels.
pub const ATTACKS: &[Call] = calls! {
    SYS_execve SYS_execveat SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_init_module SYS_finit_module SYS_delete_module
    SYS_kexec_load
};

/// Calls that change the host or widen the reach of a process, and that servers make only by mistake: mounts, namespaces, other roots, keys of the kernel, eBPF,
/// io_uring, measuring, clocks, swap, the end of the host.
pub const ADMINISTRATION: &[Call] = calls! {
    SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_unshare SYS_setns SYS_open_tree SYS_move_mount SYS_fsopen SYS_open_by_handle_at SYS_add_key SYS_request_key
    SYS_keyctl SYS_bpf SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_perf_event_open SYS_userfaultfd SYS_settimeofday SYS_clock_settime SYS_adjtimex
    SYS_clock_adjtime SYS_swapon SYS_swapoff SYS_reboot SYS_acct SYS_quotactl SYS_sethostname SYS_setdomainname SYS_syslog SYS_personality SYS_kcmp SYS_pidfd_getfd
};
