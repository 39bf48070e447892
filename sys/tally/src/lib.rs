//! A global allocator that counts, for tests that a path allocates nothing (law 8). No program links it.
//!
//! A test binary names [`Tally`] as its `#[global_allocator]` and compares [`allocations`] before and after. The count
//! is that of the calling thread, so other tests of the same binary may run at the same time.
//!
//! It promises: it returns exactly what the system's allocator returns, and counts each request for memory once, including
//! growth. It refuses: counting bytes or call sites; profilers do that.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait; this one passes every call on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Without a destructor and made at compile time, so that counting itself never allocates.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of the calling thread's requests.
pub struct Tally;

/// Returns how often the calling thread has requested memory since it started. Always zero if [`Tally`] is not the global
/// allocator, so a test should first see a nonzero count.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn count() {
    ALLOCATIONS.with(|count| count.set(count.get() + 1));
}

// SAFETY: every method passes its arguments on to `System` unchanged and returns what that returns; counting touches
// a thread-local number only, and neither allocates nor unwinds.
unsafe impl GlobalAlloc for Tally {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
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
        assert_eq!(allocations() - before, 2, "a reallocation is counted");
        let zeroed = black_box(vec![0_u8; 64]);
        assert_eq!(allocations() - before, 3);
        drop((bytes, zeroed));
        assert_eq!(allocations() - before, 3, "freeing memory is not counted");
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
