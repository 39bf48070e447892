"""The checks of one image: what a coordinator would find on its disk after a power cut."""

import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

DATABASE = "coordinator.db"
# What must hold in the tables after each change (apps/coordinator/src/store/check.rs); `taut-coordinator check` looks at more, in a sample of the images.
WHOLE = (
    "SELECT count(*) FROM networks n WHERE NOT EXISTS (SELECT 1 FROM history h WHERE h.network = n.id AND h.version = n.version)",
    "SELECT count(*) FROM history h JOIN networks n ON n.id = h.network WHERE h.version > n.version",
    "SELECT count(*) FROM nodes d JOIN networks n ON n.id = d.network WHERE d.version > n.version",
)


class Lost(AssertionError):
    """An image lacks something, or has a half of it."""


def lay_out(files, folder, random):
    """Writes an image into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        # SQLite's index of the log is memory that is shared through a file: after a power cut it may have any content.
        Path(folder, name).write_bytes(random.randbytes(32768) if name.endswith("-shm") else content)


def verify(folder, writers, acknowledged, nodes):
    """Raises `Lost` unless the database is sound, and each writer's part is as after its last acknowledged change, or as after the change that it had begun. `nodes`
    are those with which the run began.
    """
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        found = [row for (row,) in database.execute("PRAGMA integrity_check")]
        if found != ["ok"]:
            raise Lost(f"damaged: {found[:3]}")
        if database.execute("PRAGMA foreign_key_check").fetchall():
            raise Lost("a row belongs to something that is not there")
        for count in WHOLE:
            if database.execute(count).fetchone() != (0,):
                raise Lost(f"half of a change is there: {count}")
        there = dict(database.execute("SELECT id, node_key FROM nodes WHERE removed_at IS NULL"))
        if there != nodes:
            raise Lost(f"members are missing or others: {there.keys() ^ nodes.keys()}")
        for writer in writers:
            count = acknowledged[writer.number]
            seen = writer.seen(database)
            if seen not in writer.states[count : count + 2]:
                raise Lost(f"writer {writer.number} after {count} acknowledged changes: {_difference(writer.states[count], seen)}")


def _difference(known, seen):
    return {name: {"known": known[name], "on the disk": seen[name]} for name in known if known[name] != seen[name]}


def start(program, folder):
    """Raises `Lost` unless the real program finds the image sound, and starts on it."""
    checked = subprocess.run([program, "check", "--state", folder], check=False, capture_output=True, text=True)
    if checked.returncode:
        raise Lost(f"check: {checked.stderr}")
    serving = Serving([program], folder)
    serving.end()


class Serving:
    """A running `serve` on a state directory; `command` starts the program, perhaps under strace."""

    def __init__(self, command, folder):
        words = [*command, "serve", "--state", folder, "--listen", "127.0.0.1:0", "--url", "http://192.0.2.1:8288", "--no-relay"]
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.port = int(line.rpartition(":")[2])
                return
        raise Lost(f"serve does not start: {self.process.stderr.read()}")

    def end(self, kill=False):
        """Ends it, orderly or by SIGKILL."""
        for process in _coordinators(self.process):
            subprocess.run(["kill", "-KILL" if kill else "-TERM", str(process)], check=False)
        self.process.communicate()


def _coordinators(process):
    """Returns the process, or the children that it traces."""
    begin = time.monotonic()
    while time.monotonic() - begin < 60:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if Path(f"/proc/{process.pid}/comm").read_text().strip() != "strace":
            return [process.pid]
        if found := children.read_text().split():
            return found
    return []
