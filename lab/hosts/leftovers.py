"""Who owns what the lab makes, and how the remains of a dead owner are removed.

Every namespace and every run directory carries its owner's process id and start time. The start time makes the owner
unmistakable: a process that got the same id later is another process. So a crashed run is told from a lab that is
alive beside us, and only the first is cleaned.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from .wait import wait_until

PREFIX = "tautlab"
# State, sockets and keys of running labs; below /run so that a reboot forgets them.
RUN_DIR = Path("/run") / PREFIX
_NAMESPACE = re.compile(rf"{PREFIX}-(\d+)-(\d+)-(.+)")
_DIRECTORY = re.compile(r"(\d+)-(\d+)")
# In a run's directory: a file of the kernel, and the word that the run has put into it.
_WORD = "word"


def start_time(pid):
    """Start of process `pid` in clock ticks since boot, or None when it is gone or dead and not yet collected."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything; what follows its last ")" is regular (proc(5): field 3 is the state,
    # field 22 the start time).
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def owner():
    """The mark of this process: `PID-START`."""
    return f"{os.getpid()}-{start_time(os.getpid())}"


def namespace_name(host):
    """The namespace that this process gives to `host`."""
    return f"{PREFIX}-{owner()}-{host}"


def namespaces():
    """All lab namespaces of this machine as (namespace, host, owner is alive)."""
    text = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        match = _NAMESPACE.fullmatch(line.split()[0])
        if match:
            found.append((match[0], match[3], _alive(match[1], match[2])))
    return found


def remove_namespace(namespace):
    """Ends every process inside `namespace`, then deletes it with its links."""
    wait_until(lambda: not _kill_inside(namespace), f"processes in {namespace} to end", timeout=10)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


def clean(own=False):
    """Removes what dead owners left; returns the names of what was removed. `own`: this process counts as dead, it has no lab any more."""
    removed = []
    for namespace, _, alive in namespaces():
        if not alive or (own and namespace.startswith(namespace_name(""))):
            remove_namespace(namespace)
            removed.append(namespace)
    for directory in RUN_DIR.glob("*"):
        match = _DIRECTORY.fullmatch(directory.name)
        if match and (not _alive(match[1], match[2]) or (own and directory.name == owner())):
            _forget_word(directory / _WORD)
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(str(directory))
    return removed


@contextlib.contextmanager
def word_in(path, word):
    """A word that is not there yet, added to a list of the kernel's while the `with` lasts; `clean` takes it out where a run was killed meanwhile."""
    note = RUN_DIR / owner() / _WORD
    # The hosts' own directories in it are closed; what else is there, such as a web server's files, is for everybody.
    note.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    try:
        note.write_text(f"{path} {word}\n")
        path.write_text(f"{path.read_text().strip()} {word}")
        yield
    finally:
        _forget_word(note)
        # A lab may still keep something there.
        with contextlib.suppress(OSError):
            note.parent.rmdir()


def _forget_word(note):
    """Takes out what a note tells of. One that was cut off was written before the word."""
    told = note.read_text().split() if note.exists() else []
    if len(told) == 2:
        path, word = Path(told[0]), told[1]
        path.write_text(" ".join(one for one in path.read_text().split() if one != word))
    note.unlink(missing_ok=True)


def _alive(pid, start):
    return start_time(int(pid)) == int(start)


def _kill_inside(namespace):
    """Kills the processes inside by their ids; returns those that were there."""
    answer = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    pids = [int(word) for word in answer.stdout.split() if int(word) != os.getpid()]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids
