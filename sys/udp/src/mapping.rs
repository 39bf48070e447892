//! Memory that takes no pages until it is written.

use std::{io, ptr, slice};

/// Zeroed memory from mmap: a page counts as used only after a write. Heap memory may be reused and cleared, which would touch
/// every page.
pub(crate) struct MappedMemory {
    start: ptr::NonNull<u8>,
    length: usize,
}

// SAFETY: a `MappedMemory` is the only owner of its memory, like a `Box<[u8]>`.
unsafe impl Send for MappedMemory {}
// SAFETY: shared access only reads, like a `Box<[u8]>`.
unsafe impl Sync for MappedMemory {}

impl MappedMemory {
    /// Maps `length` bytes (not zero). Fails when the address space or a memory limit is used up.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), length, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A huge page would make the first touched byte cost 2 MiB. Kernels without huge pages refuse, which has
        // the same effect. SAFETY: the range was mapped just above.
        unsafe { libc::madvise(start, length, libc::MADV_NOHUGEPAGE) };
        let start = ptr::NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `length` bytes are mapped, initialised (zero), and borrowed from nobody else while `self` is.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no reference outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::MappedMemory;

    #[test]
    fn it_is_zero_and_keeps_what_is_written() {
        let mut mapping = MappedMemory::new(3 * 4_096).unwrap();
        assert!(mapping.bytes().iter().all(|byte| *byte == 0));
        mapping.bytes()[5_000] = 7;
        assert_eq!((mapping.bytes()[5_000], mapping.bytes().len()), (7, 12_288));
    }

    #[test]
    fn the_impossible_is_an_error() {
        assert!(MappedMemory::new(usize::MAX / 2).is_err());
    }
}
