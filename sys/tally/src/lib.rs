//! A global allocator that counts, for tests that a path allocates nothing (law 8). No program links it.
//!
//! A test binary names [`Tally`] as its `#[global_allocator]` and compares [`allocations`] before and after. The count
//! is the calling thread's own, so that other tests of the same binary may run beside it.
//!
//! It promises: it hands out exactly what the system's allocator does, and each request for memory, growing included,
//! is counted once. It refuses: bytes, places, histories; `make` has profilers for those.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait; this one passes every call on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Without a destructor and made at compile time, so that counting itself never allocates.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of what the calling thread asked of it.
pub struct Tally;

/// How often the calling thread has asked for memory since it began. Zero for ever where [`Tally`] is not the global
/// allocator: a test should see it count something first.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn count() {
    ALLOCATIONS.with(|count| count.set(count.get() + 1));
}

// SAFETY: every method hands its arguments on to `System` unchanged and returns what that returns; counting touches
// a thread-local number only, and neither allocates nor unwinds.
unsafe impl GlobalAlloc for Tally {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Tally, allocations};
    use std::hint::black_box;

    #[global_allocator]
    static TALLY: Tally = Tally;

    #[test]
    fn every_request_of_this_thread_is_counted() {
        let before = allocations();
        let mut bytes = black_box(Vec::<u8>::with_capacity(16));
        assert_eq!(allocations() - before, 1);
        bytes.extend([0; 64]);
        assert_eq!(allocations() - before, 2, "growing counts");
        let zeroed = black_box(vec![0_u8; 64]);
        assert_eq!(allocations() - before, 3);
        drop((bytes, zeroed));
        assert_eq!(allocations() - before, 3, "giving back does not");
    }

    #[test]
    fn other_threads_count_for_themselves() {
        let there = std::thread::spawn(|| {
            let before = allocations();
            drop(black_box(vec![1_u8; 64]));
            allocations() - before
        });
        assert_eq!(there.join().ok(), Some(1));
    }
}
