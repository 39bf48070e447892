"""Notes which functions of a program run, by a breakpoint at the first instruction of each (ptrace; x86-64). Run as a program, it needs nothing of the lab:

    python3 functions.py PROGRAM OUTPUT ARGUMENT...     runs PROGRAM, which has symbols, with these arguments

The first time that a function runs, its address is appended to OUTPUT. At SIGUSR1 the line `again` is appended, and from then on the first run of each function is noted once more. Other
signals that end a program are passed on. A program that PROGRAM runs is not traced.
"""

import ctypes
import os
import signal
import subprocess
import sys

TRACEME, CONT, GETREGS, SETREGS, SETOPTIONS = 0, 7, 12, 13, 0x4200
# PTRACE_O_TRACEFORK, TRACEVFORK, TRACECLONE, TRACEEXEC, EXITKILL.
OPTIONS = 0x2 | 0x4 | 0x8 | 0x10 | 0x100000
BREAKPOINT = b"\xcc"
# Where the instruction pointer is among the registers (sys/user.h), and their number.
RIP, REGISTERS = 16, 27
# __WALL: threads, too (man 2 waitpid).
WALL = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def symbols(program):
    """Returns {address: demangled name} of a program's functions."""
    lines = subprocess.run(["nm", "--demangle", "--defined-only", program], check=True, capture_output=True, text=True).stdout.splitlines()
    words = [line.split(" ", 2) for line in lines]
    return {int(address, 16): name for address, kind, name in words if kind in "tTwW"}


class Tracer:
    def __init__(self, program, output, arguments):
        self.output = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self.child = os.fork()
        if not self.child:
            LIBC.ptrace(TRACEME, 0, None, None)
            os.execv(program, [program, *arguments])
        os.waitpid(self.child, 0)
        LIBC.ptrace(SETOPTIONS, self.child, None, OPTIONS)
        with open(f"/proc/{self.child}/maps", encoding="utf-8") as maps:
            # Not the first line: the kernel's own pages may be below a program without an interpreter.
            base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip("\n").endswith(os.path.realpath(program)))
        self.memory = os.open(f"/proc/{self.child}/mem", os.O_RDWR)
        functions = symbols(program)
        # A program at fixed addresses has those of its symbols.
        base = 0 if min(functions) >= base else base
        self.first = {base + address: (address, os.pread(self.memory, 1, base + address)) for address in functions}
        self.seen = set()
        self.arm()

    def arm(self):
        for address in self.first:
            os.pwrite(self.memory, BREAKPOINT, address)
        self.seen.clear()

    def meet(self, thread):
        """Handles a breakpoint: notes the function, and has the thread run it."""
        registers = (ctypes.c_ulong * REGISTERS)()
        LIBC.ptrace(GETREGS, thread, None, ctypes.byref(registers))
        at = registers[RIP] - 1
        if at not in self.first:
            return
        name, byte = self.first[at]
        try:
            # A process that this one forked has memory of its own until it runs another program.
            own = os.open(f"/proc/{thread}/mem", os.O_RDWR)
            os.pwrite(own, byte, at)
            os.close(own)
        except OSError:
            os.pwrite(self.memory, byte, at)
        registers[RIP] = at
        LIBC.ptrace(SETREGS, thread, None, ctypes.byref(registers))
        if at not in self.seen:
            self.seen.add(at)
            os.write(self.output, f"{name:x}\n".encode())

    def ask_again(self, *_):
        os.write(self.output, b"again\n")
        self.arm()

    def run(self):
        """Returns the exit status of the program."""
        signal.signal(signal.SIGUSR1, self.ask_again)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(self.child, number))
        LIBC.ptrace(CONT, self.child, None, None)
        while True:
            thread, status = os.waitpid(-1, WALL)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                if thread == self.child:
                    return os.waitstatus_to_exitcode(status) & 0xFF
                continue
            number, event = os.WSTOPSIG(status), status >> 16
            if number == signal.SIGTRAP and not event:
                self.meet(thread)
            passed = None if event or number in (signal.SIGTRAP, signal.SIGSTOP) else int(number)
            LIBC.ptrace(CONT, thread, None, passed)


if __name__ == "__main__":
    sys.exit(Tracer(sys.argv[1], sys.argv[2], sys.argv[3:]).run())
