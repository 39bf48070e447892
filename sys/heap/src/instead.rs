//! Functions that the static node has instead of those of its C library, whose own drag in code that nothing else needs. The linker takes a
//! library's function only where the program has none of that name.

use core::ffi::{c_char, c_int, c_void};
use std::ptr;

/// Orders two elements: negative if the first comes first.
type Compare = unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;

/// Sorts in place, as C says, but by insertion and stably. Only `getaddrinfo` sorts, at most 48 addresses; the library's own sorts anything fast, with 10 kB of code.
///
/// # Safety
///
/// As in C: `base` has `count` elements of `width` bytes, which `compare` can read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsort(base: *mut c_void, count: usize, width: usize, compare: Compare) {
    let base = base.cast::<u8>();
    for sorted in 1..count {
        for place in (1..=sorted).rev() {
            // SAFETY: both elements are among the `count`, and are different ones.
            unsafe {
                let (before, this) = (base.add((place - 1) * width), base.add(place * width));
                if compare(before.cast(), this.cast()) <= 0 {
                    break;
                }
                ptr::swap_nonoverlapping(before, this, width);
            }
        }
    }
}

/// Names the calling thread; returns zero or an error number. Any other thread is refused: the library names one through a path that it prints with `snprintf`, which is 8 kB.
///
/// # Safety
///
/// `name` is a C string of at most 15 bytes; a longer one is cut by the kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(thread: libc::pthread_t, name: *const c_char) -> c_int {
    // SAFETY: it reads this thread's own identity.
    if thread != unsafe { libc::pthread_self() } {
        return libc::ENOTSUP;
    }
    // SAFETY: the kernel reads the name up to its end.
    let done = unsafe { libc::prctl(libc::PR_SET_NAME, name, 0, 0, 0) };
    if done == 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn by_first_byte(one: *const c_void, other: *const c_void) -> c_int {
        // SAFETY: the elements of these tests have a byte at least.
        unsafe { c_int::from(*one.cast::<u8>()) - c_int::from(*other.cast::<u8>()) }
    }

    #[test]
    fn elements_are_sorted_and_equal_ones_keep_their_order() {
        for count in [0, 1, 2, 3, 48] {
            let mut elements: Vec<[u8; 3]> =
                (0..count).map(|number: u8| [number.wrapping_mul(37) % 7, number, 0xA5]).collect();
            let mut wanted = elements.clone();
            wanted.sort_by_key(|element| element[0]);
            // SAFETY: the elements are these, of three bytes each.
            unsafe { qsort(elements.as_mut_ptr().cast(), elements.len(), 3, by_first_byte) };
            assert_eq!(elements, wanted);
        }
    }

    #[test]
    fn a_thread_gets_its_name() {
        let name = || std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        let named = std::thread::Builder::new().name("of-this-test".into()).spawn(move || {
            assert_eq!(name(), "of-this-test\n");
            // SAFETY: the name is a C string.
            let status = unsafe { pthread_setname_np(libc::pthread_self(), c"another".as_ptr()) };
            (status, name())
        });
        assert_eq!(named.unwrap().join().unwrap(), (0, "another\n".into()));
        // SAFETY: the same; no thread has this identity.
        assert_eq!(unsafe { pthread_setname_np(0, c"nobody".as_ptr()) }, libc::ENOTSUP);
    }
}
