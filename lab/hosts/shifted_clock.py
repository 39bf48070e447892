"""A wall clock of one host's own: its programs read a time that a test chooses, and the machine's clock stays as it is.

A library in front of libc adds an offset to the wall clock. The offset is in a file that every program maps at its start, so a jump is seen at once, also by
a program that may not open files any more. Timers run by the monotonic clock, which no administrator can set and this library leaves alone.
"""

import struct
import time

from .private_mounts import OWN_ETC, enter

_LIBRARY = """
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static const volatile long long *offset;
__attribute__((constructor)) static void begin(void) {
    int file = open(OFFSET, O_RDONLY | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    if (file >= 0) close(file);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (!result && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return result;
}
time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return result;
}
"""


class ShiftedClock:
    """The wall clock of all later programs of `host`, which gets an /etc of its own unless it has one. Needs the program cc."""

    def __init__(self, host, has_own_etc=False):
        self._host = host
        self._offset = host.state / "clock.offset"
        self.set(time.time())
        library = host.state / "clock.so"
        host.run("cc", "-shared", "-fPIC", "-O1", f'-DOFFSET="{self._offset}"', "-o", library, "-xc", "-", text=_LIBRARY)
        if not has_own_etc:
            enter(host, OWN_ETC)
        host.run("sh", "-c", "cat > /etc/ld.so.preload", text=f"{library}\n")

    def set(self, seconds):
        """Sets the clock to this time, in seconds since 1970. Programs that run see it jump."""
        new = struct.pack("=q", round(seconds - time.time()))
        # Written over in place: programs have mapped this file.
        with open(self._offset, "r+b" if self._offset.exists() else "xb", buffering=0) as file:
            file.write(new)

    def year(self):
        """Returns the year that programs of the host read."""
        return int(self._host.run("date", "-u", "+%Y").stdout)
