"""What a program does to the files of a directory, and what it sends, from the output of strace."""

import re
import subprocess
from dataclasses import dataclass, field

# The calls with which SQLite and the coordinator change files, and those that answer a client. SQLite maps only its index of the log (`-shm`), which it makes
# again after a power cut.
CALLS = "openat,pwrite64,write,pwritev,pwritev2,writev,fsync,fdatasync,sync_file_range,ftruncate,fallocate,unlink,unlinkat,rename,renameat,renameat2,link,linkat,close,sendto,sendmsg"
# Longest text that strace prints, in bytes: more than any write of SQLite.
LONGEST = 1 << 22
_LINE = re.compile(r"^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)$")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_FD = re.compile(r"^(\d+)")
_RESULT = re.compile(r"\) += (-?\d+)")


@dataclass
class Event:
    """A part of a system call: `begin` is true where it begins, `end` where it has ended; usually both. `texts` are the strings of its arguments."""

    call: str
    begin: bool
    end: bool
    fd: int | None = None
    texts: list = field(default_factory=list)
    numbers: list = field(default_factory=list)
    flags: str = ""
    result: int | None = None


def command(output, *words):
    """Returns the command that runs a program and writes its calls to a file."""
    # -xx: strings in hex digits, so that nothing in them looks like syntax.
    return ["strace", "-f", "-qq", "-xx", "-o", str(output), "-s", str(LONGEST), "-e", f"trace={CALLS}", "-e", "signal=none", *map(str, words)]


def works():
    """Returns true if strace may trace a program here."""
    try:
        return subprocess.run(command("/dev/null", "true"), check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def read(path):
    """Yields the events of a trace, in their order."""
    begun = {}
    with open(path, encoding="ascii") as lines:
        for line in lines:
            found = _LINE.match(line)
            if not found:
                continue
            thread, resumed, call, rest = found.groups()
            if resumed:
                event = begun.pop(thread, None)
                if event:
                    yield _ended(event, rest)
            elif rest.endswith("<unfinished ...>"):
                begun[thread] = _event(call, rest, end=False)
                yield begun[thread]
            else:
                yield _event(call, rest, end=True)


def _event(call, rest, end):
    texts = [bytes.fromhex(text.replace("\\x", "")) for text, _ in _TEXT.findall(rest)]
    if any(cut for _, cut in _TEXT.findall(rest)):
        raise ValueError(f"{call}: strace printed only a part of a text")
    plain = _TEXT.sub('""', rest)
    fd = _FD.match(rest)
    arguments = plain.rpartition(") = ")[0] or plain
    numbers = [int(word) for word in re.findall(r", (\d+)(?=[,)]|$| <)", arguments)]
    result = _RESULT.search(plain) if end else None
    return Event(call, True, end, int(fd[1]) if fd else None, texts, numbers, plain, int(result[1]) if result else None)


def _ended(event, rest):
    # strace prints what a call writes when it begins.
    result = _RESULT.search(rest)
    return Event(event.call, False, True, event.fd, event.texts, event.numbers, event.flags, int(result[1]) if result else None)
