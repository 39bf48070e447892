//! Capabilities: the parts of root's rights (man 7 capabilities).

use std::io;

use crate::checked;

/// A capability, by its number in include/uapi/linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Read and write any file, whatever its permissions.
    DacOverride = 1,
    /// Listen on ports below 1024.
    NetBindService = 10,
    /// Interfaces, addresses, routes, packet filters, TUN devices.
    NetAdmin = 12,
    /// Raw packets; before Linux 5.7 also `SO_BINDTODEVICE`.
    NetRaw = 13,
    /// Load eBPF programs (Linux 5.8).
    Bpf = 39,
}

/// `_LINUX_CAPABILITY_VERSION_3`: 64 capabilities, in two halves.
const VERSION: u32 = 0x2008_0522;
/// Most capabilities that fit.
const MOST: libc::c_ulong = 64;

#[repr(C)]
struct Header {
    version: u32,
    /// 0: the calling thread.
    thread: libc::c_int,
}

/// One half of the sets: those in force, those that may be put in force, and those that programs inherit.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn held() -> io::Result<[Half; 2]> {
    let mut header = Header { version: VERSION, thread: 0 };
    let mut halves = [Half::default(); 2];
    // SAFETY: version 3 writes two halves, and both arguments live across the call.
    checked(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) })?;
    Ok(halves)
}

/// Returns true if the calling thread has a capability in force.
pub fn has_capability(capability: Capability) -> bool {
    let number = capability as u32;
    held().is_ok_and(|halves| {
        halves.get((number / 32) as usize).is_some_and(|half| half.effective >> (number % 32) & 1 == 1)
    })
}

/// Drops all capabilities of the calling thread except these, as far as it has them: from all its sets, so that no program it runs gets one back.
///
/// # Errors
/// If the kernel refuses. It does not for a thread that only drops some.
pub fn keep_capabilities(kept: &[Capability]) -> io::Result<()> {
    let is_kept = |number: u32| kept.iter().any(|capability| *capability as u32 == number);
    let unused: libc::c_ulong = 0;
    for number in 0..MOST {
        // SAFETY: no pointers. A number that the kernel does not know is refused.
        let is_bounded = unsafe { libc::prctl(libc::PR_CAPBSET_READ, number, unused, unused, unused) } == 1;
        if is_bounded && !is_kept(number as u32) {
            // Without CAP_SETPCAP the set stays as it is. It only matters for programs that this process runs, which `no_new_privileges` holds, too.
            // SAFETY: no pointers.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, unused, unused, unused) };
        }
    }
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong;
    // Linux 4.3; before, there is no such set.
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, clear, unused, unused, unused) };
    let mut halves = held()?;
    for (half, first) in halves.iter_mut().zip([0, 32]) {
        let mask = (0..32).filter(|bit| is_kept(first + bit)).fold(0, |mask, bit| mask | 1 << bit);
        half.permitted &= mask;
        half.effective &= mask;
        half.inheritable = 0;
    }
    let mut header = Header { version: VERSION, thread: 0 };
    // SAFETY: version 3 reads two halves, and both arguments live across the call.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, halves.as_ptr()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{Capability, has_capability, keep_capabilities};

    /// The sets of the calling thread, as the kernel shows them.
    fn shown() -> Vec<u64> {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let sets = status.lines().filter_map(|line| line.strip_prefix("Cap"));
        sets.map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn only_what_is_kept_is_left_in_all_sets() {
        let before = shown();
        let kept = [Capability::NetAdmin, Capability::Bpf];
        let mask = 1 << 12 | 1 << 39;
        let (after, has) = thread::spawn(move || {
            keep_capabilities(&kept).unwrap();
            (shown(), [Capability::NetAdmin, Capability::DacOverride].map(has_capability))
        })
        .join()
        .unwrap();
        // Inheritable, permitted, effective, bounding, ambient. The bounding set needs a right that only root has.
        let bounding = if before[1] >> 8 & 1 == 1 { before[3] & mask } else { before[3] };
        assert_eq!(after, [0, before[1] & mask, before[2] & mask, bounding, 0]);
        assert_eq!(has, [before[2] >> 12 & 1 == 1, false]);
        assert_eq!(shown(), before, "other threads have theirs");
    }
}
