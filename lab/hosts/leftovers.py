"""Ownership of the namespaces and directories that the lab makes, and removal of those whose owner has ended.

Every namespace and every run directory carries the process id and the start time of its owner. The start time identifies the owner even if
another process got the same id later. The lab can therefore distinguish a crashed run from a running one, and removes only the leftovers of the crashed run.
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
# State, sockets and keys of running labs; below /run, so that a reboot removes them.
RUN_DIR = Path("/run") / PREFIX
_NAMESPACE = re.compile(rf"{PREFIX}-(\d+)-(\d+)-(.+)")
_DIRECTORY = re.compile(r"(\d+)-(\d+)")
# File in the directory of a run: the path of a kernel list, and the word that the run added to it.
_WORD = "word"


def start_time(pid):
    """Returns the start time of process `pid` in clock ticks since boot, or None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may contain anything; the fields after its last ")" are regular (proc(5): field 3 is the state, field 22 the start
    # time).
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def owner():
    """Returns the mark of this process: `PID-START`."""
    return f"{os.getpid()}-{start_time(os.getpid())}"


def namespace_name(host):
    """Returns the name of the namespace of `host` in this process."""
    return f"{PREFIX}-{owner()}-{host}"


def namespaces():
    """Returns all lab namespaces of this machine as (namespace, host, owner is alive)."""
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
    """Removes the namespaces and directories of ended processes, and returns the removed names. With `own`, those of this process are removed, too."""
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
    """Adds a word to a list of the kernel during the `with`, if it is missing. If the run is killed, `clean` removes the word."""
    note = RUN_DIR / owner() / _WORD
    # The directories of hosts in it are closed. Other contents, such as the files of a web server, are readable by every user.
    note.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    try:
        note.write_text(f"{path} {word}\n")
        path.write_text(f"{path.read_text().strip()} {word}")
        yield
    finally:
        _forget_word(note)
        # The directory is kept while another lab of this process uses it.
        with contextlib.suppress(OSError):
            note.parent.rmdir()


def _forget_word(note):
    """Removes the word that a note names. An incomplete note was written before its word was added."""
    output = note.read_text().split() if note.exists() else []
    if len(output) == 2:
        path, word = Path(output[0]), output[1]
        path.write_text(" ".join(one for one in path.read_text().split() if one != word))
    note.unlink(missing_ok=True)


def _alive(pid, start):
    return start_time(int(pid)) == int(start)


def _kill_inside(namespace):
    """Kills the processes inside by id and returns the ids."""
    answer = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    pids = [int(word) for word in answer.stdout.split() if int(word) != os.getpid()]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids
