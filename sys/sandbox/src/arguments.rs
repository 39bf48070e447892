//! Calls that are allowed with some arguments only.

use crate::calls::{self, Call};
use crate::filter::Filter;
use crate::program::{Check, Verdict};

/// Flags of `clone` that make a namespace.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// The bits of a socket's type that are no flags.
const KIND: u32 = 0xf;

/// Commands of `fcntl` that name who gets a signal about a descriptor, and which one: the kernel sends it to any process of the same user. `F_SETOWN` (of other processors, and of MIPS), `F_SETSIG` and
/// `F_SETOWN_EX`, include/uapi/asm-generic/fcntl.h.
const OWNERS: [u32; 4] = [8, 24, 10, 15];

/// Requests of `ioctl` that do the same: `FIOSETOWN` and `SIOCSPGRP`, of other processors and of MIPS (asm/sockios.h).
const OWNING: [u32; 4] = [0x8901, 0x8902, 0x8004_667c, 0x8004_7308];

/// Protocols of sockets for the internet: the usual one of the kind, TCP and UDP. Others have large modules in the kernel, which a socket loads.
const PROTOCOLS: [u32; 3] = [0, 6, 17];

/// `BPF_PROG_LOAD`, include/uapi/linux/bpf.h.
const LOAD_PROGRAM: u32 = 5;

/// Sockets that may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// TCP and UDP over IPv4 and IPv6.
    Internet,
    /// Routes, links and addresses, and packet filters: netlink's families `ROUTE` and `NETFILTER`.
    NetworkSettings,
}

impl Sockets {
    fn way(self) -> Vec<Check> {
        let number = |value: libc::c_int| value.cast_unsigned();
        match self {
            Self::Internet => vec![
                Check::is(0, &[number(libc::AF_INET), number(libc::AF_INET6)]),
                Check::masked(1, KIND, &[number(libc::SOCK_STREAM), number(libc::SOCK_DGRAM)]),
                Check::is(2, &PROTOCOLS),
            ],
            Self::NetworkSettings => vec![
                Check::is(0, &[number(libc::AF_NETLINK)]),
                Check::is(2, &[number(libc::NETLINK_ROUTE), number(libc::NETLINK_NETFILTER)]),
            ],
        }
    }
}

impl Filter {
    /// Allows new threads, and no new processes or namespaces. `clone3`, whose flags a filter cannot see, is refused as if it did not exist, and libc uses `clone`.
    #[must_use]
    pub fn with_threads(self) -> Self {
        let ways =
            [vec![Check::has(0, libc::CLONE_THREAD.cast_unsigned()), Check::lacks(0, NAMESPACES.cast_unsigned())]];
        self.with_arguments(&[Call::new(libc::SYS_clone)], &ways)
            .with(&[Call::new(libc::SYS_clone3)], Verdict::Refuse(libc::ENOSYS))
    }

    /// Allows signals to threads of this process, and to no other process.
    #[must_use]
    pub fn with_own_signals(self) -> Self {
        self.with_arguments(&[Call::new(libc::SYS_tgkill)], &[vec![Check::is(0, &[std::process::id()])]])
    }

    /// Allows these sockets, and no others: among them those of unix, by which a root process reaches every service of its host.
    #[must_use]
    pub fn with_sockets(self, sockets: &[Sockets]) -> Self {
        let ways: Vec<Vec<Check>> = sockets.iter().map(|sockets| sockets.way()).collect();
        self.with_arguments(&[Call::new(libc::SYS_socket)], &ways)
    }

    /// Allows memory to be mapped that is not executed: what an attacker wrote into memory stays data.
    #[must_use]
    pub fn with_memory(self) -> Self {
        self.with_arguments(calls::MAPPINGS, &[vec![Check::lacks(2, libc::PROT_EXEC.cast_unsigned())]])
    }

    /// Allows `ioctl` and `fcntl`, except what types into a terminal, whose shell would run that, and what has the kernel send signals to other processes.
    #[must_use]
    pub fn with_devices(self) -> Self {
        let mut refused = vec![libc::TIOCSTI as u32, libc::TIOCLINUX as u32];
        refused.extend(OWNING);
        self.with_arguments(&[Call::new(libc::SYS_ioctl)], &[vec![Check::is_not(1, &refused)]])
            .with_arguments(calls::CONTROL_OF_FILES, &[vec![Check::is_not(1, &OWNERS)]])
    }

    /// Allows threads to be named and to have precise timers, and the limits of this process to be read and changed.
    #[must_use]
    pub fn with_own_options(self) -> Self {
        // Names of mappings are what newer versions of libc give theirs.
        let options = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_TIMERSLACK, libc::PR_SET_VMA];
        self.with_arguments(
            &[Call::new(libc::SYS_prctl)],
            &[vec![Check::is(0, &options.map(libc::c_int::cast_unsigned))]],
        )
        .with_arguments(&[Call::new(libc::SYS_prlimit64)], &[vec![Check::is(0, &[0])]])
    }

    /// Allows eBPF programs to be loaded, and nothing else of eBPF.
    #[must_use]
    pub fn with_kernel_programs(self) -> Self {
        self.with_arguments(&[Call::new(libc::SYS_bpf)], &[vec![Check::is(0, &[LOAD_PROGRAM])]])
    }
}
