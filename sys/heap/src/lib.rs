//! The allocator of the static node, which has to fit a router.
//!
//! The one that comes with its C library rounds up to powers of two, which for a network of a thousand members is a third more memory. Here small blocks come from
//! `dlmalloc`, which takes what is asked for, behind one lock; that costs nothing that matters, because no packet's way asks for memory.
//!
//! Blocks of [`LARGE`] bytes and more are mappings of their own, which go back to the kernel when they are freed: a map of a thousand members is read from and written as
//! half a megabyte of text, and the small blocks that are made meanwhile would keep the room of such a text from going back.
//!
//! The module `instead` replaces two other functions of that library.
//!
//! It promises: what `GlobalAlloc` asks for, from any thread. It refuses: statistics and limits.
#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait, and gets memory from the kernel through libc; what C calls takes pointers"
)]

#[cfg(any(target_env = "musl", test))]
pub mod instead;

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use dlmalloc::GlobalDlmalloc;

/// Size from which a block is a mapping of its own, 64 KiB: the last page of one is half empty on average, which is a thirtieth at most.
pub const LARGE: usize = 64 << 10;

/// Largest alignment that every page has: that of the smallest pages.
const PAGE: usize = 4 << 10;

/// The allocator. A program names it as its `#[global_allocator]`.
pub struct Heap;

/// Returns true if a block is a mapping of its own. Its layout decides, which is the same when the block is freed.
fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

/// Returns zeroed memory from the kernel; null if it has none.
fn map(size: usize) -> *mut u8 {
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address that the kernel chooses replaces none.
    let place = unsafe { libc::mmap(ptr::null_mut(), size, rights, kind, -1, 0) };
    if place == libc::MAP_FAILED { ptr::null_mut() } else { place.cast() }
}

// SAFETY: a block comes from one of two allocators, and goes back to the same: its layout, which the caller has to repeat, decides which one that is. Both return memory
// that nothing else uses, of the size and alignment that is asked for; mappings begin at a page.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { GlobalDlmalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { GlobalDlmalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the block is a mapping of this size, whose last page the kernel counts in full, and the caller does not use it any more. A failure would leave it
            // mapped, which harms nobody.
            unsafe { libc::munmap(block.cast(), layout.size()) };
            return;
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { GlobalDlmalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size makes a layout with the same alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(wanted)) {
            // SAFETY: the caller's promise, passed on.
            (false, false) => unsafe { GlobalDlmalloc.realloc(block, layout, size) },
            (true, true) => {
                // SAFETY: the block is a mapping of its layout's size; it moves with its content, and only the new place is used afterwards.
                let place = unsafe { libc::mremap(block.cast(), layout.size(), size, libc::MREMAP_MAYMOVE) };
                if place == libc::MAP_FAILED { ptr::null_mut() } else { place.cast() }
            }
            _ => {
                // SAFETY: the new block is another one than the old one, and both have the bytes that are copied. The old one is freed only if there is a new one.
                unsafe {
                    let place = self.alloc(wanted);
                    if !place.is_null() {
                        ptr::copy_nonoverlapping(block, place, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                    place
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests' own memory comes from it, too.
    #[global_allocator]
    static HEAP: Heap = Heap;

    #[test]
    fn blocks_keep_their_content_while_they_grow_and_shrink_over_the_border() {
        let mut bytes: Vec<u8> = Vec::new();
        for length in [1, 100, LARGE - 1, LARGE, LARGE + 1, 40 * LARGE, 2 * LARGE, LARGE, LARGE - 1, 7] {
            // The content of each place is a function of the place.
            let first = bytes.len();
            bytes.truncate(length);
            bytes.extend((first..length).map(|place| u8::try_from(place % 251).unwrap()));
            bytes.shrink_to_fit();
            assert!(bytes.iter().enumerate().all(|(place, byte)| usize::from(*byte) == place % 251), "{length}");
        }
    }

    #[test]
    fn memory_that_is_asked_for_zeroed_is_zeroed() {
        for size in [100, LARGE, 3 * LARGE + 5] {
            for _ in 0..3 {
                let mut bytes = vec![0_u8; size];
                assert!(bytes.iter().all(|byte| *byte == 0), "{size}");
                bytes.fill(0xA5);
            }
        }
    }

    #[test]
    fn blocks_of_any_alignment_have_it() {
        for align in [1, 8, 64, PAGE, 16 * PAGE] {
            for size in [1, LARGE - 1, LARGE, 5 * LARGE] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the size is not zero, and the block is freed with the layout that it was made with.
                unsafe {
                    let block = HEAP.alloc(layout);
                    assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size} {align}");
                    block.write(1);
                    block.add(size - 1).write(2);
                    HEAP.dealloc(block, layout);
                }
            }
        }
    }

    #[test]
    fn a_large_block_goes_back_to_the_kernel() {
        let layout = Layout::from_size_align(16 * LARGE, 8).unwrap();
        // SAFETY: as above; the kernel is only asked whether something is mapped there (ENOMEM if not).
        let is_gone = || unsafe {
            let block = HEAP.alloc(layout);
            block.write(1);
            HEAP.dealloc(block, layout);
            libc::msync(block.cast(), PAGE, libc::MS_ASYNC) != 0
        };
        // Another thread may get the place at once.
        assert!((0..20).any(|_| is_gone()));
    }

    #[test]
    fn many_threads_share_it() {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                std::thread::spawn(move || {
                    let mut blocks: Vec<Vec<u8>> = Vec::new();
                    for turn in 0_usize..4_000 {
                        let size = turn * 37 % 3_000 + if turn % 100 == 0 { LARGE } else { 0 };
                        blocks.push(vec![seed; size]);
                        if blocks.len() > 50 {
                            let block = blocks.swap_remove(turn % 50);
                            assert!(block.iter().all(|byte| *byte == seed));
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
