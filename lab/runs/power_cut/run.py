"""One run: a coordinator that is traced while clients write, and the images that power cuts could have left."""

import base64
import hashlib
import random
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ...hosts.programs import ROOT, binary
from . import trace
from .disk import Disk
from .images import DATABASE, Lost, Serving, lay_out, start, verify
from .writers import Writer

DUMPS = ROOT / "apps" / "coordinator" / "tests" / "dumps"
WRITERS = 3
# How each start of the coordinator ends: by SIGKILL if true.
ENDS = (False, True, False)
# Changes of each writer after each start, by default: with all of them the log is written back into the database more than once.
CHANGES = 60
# One image in so many is also given to the real program.
STARTED = 20
# The files that a database consists of, as opposed to the lock and the tokens.
FILES = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-journal", f"{DATABASE}-shm")


@dataclass
class Result:
    """What a run saw: images, those on which the program was started, acknowledged changes, moments at which the power could fail, pages that were written from the
    log into the database, and what was lost.
    """

    images: int = 0
    started: int = 0
    changes: int = 0
    moments: int = 0
    written_back: int = 0
    lost: list = field(default_factory=list)


def cut(images, seed, release="0.1.0", changes=CHANGES, program=None):
    """Makes this number of images of one run, which begins with the upgrade of a database of `release`, and verifies each. Returns a `Result`."""
    program = program or binary("taut-coordinator")
    # In memory: an image is read once.
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="taut-power-", dir=where) as folder:
        folder = Path(folder)
        state = folder / "state"
        token, members = prepare(state, release)
        writers = [Writer(number, token, {id: name for id, (name, _) in members.items() if id % WRITERS == number}) for number in range(WRITERS)]
        keys = {id: key for id, (_, key) in members.items()}
        disk = Disk(state, {DATABASE: (state / DATABASE).read_bytes()})
        traces = _record(program, folder, state, writers, changes, seed)
        return _verify(program, folder, disk, traces, writers, keys, images, seed)


def prepare(state, release):
    """Makes the state directory of a coordinator of a release. Returns an operator token, and its members: {number: (name, key)}."""
    state.mkdir(mode=0o700)
    secret = b"power-cut".ljust(32, b".")
    with closing(sqlite3.connect(state / DATABASE, isolation_level=None)) as database:
        database.executescript((DUMPS / f"sqlite-{release}.sql").read_text())
        database.execute("INSERT INTO operators (hash, created_at) VALUES (?, 0)", (hashlib.blake2s(secret).digest(),))
        members = {id: (name, key) for id, name, key in database.execute("SELECT id, name, node_key FROM nodes WHERE removed_at IS NULL")}
        database.execute("PRAGMA journal_mode = WAL")
    return "tautop-" + base64.urlsafe_b64encode(secret).decode().rstrip("="), members


def _record(program, folder, state, writers, changes, seed):
    """Runs the coordinator a few times; returns the files of the traces."""
    traces = []
    for number, kill in enumerate(ENDS):
        traces.append(folder / f"trace-{number}")
        serving = Serving(trace.command(traces[-1], program), state)
        try:
            threads = [writer.again(serving.port, changes, random.Random(f"{seed}-{number}-{writer.number}")) for writer in writers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            serving.end(kill)
        for writer in writers:
            if writer.error:
                raise writer.error
    return traces


def _verify(program, folder, disk, traces, writers, keys, images, seed):
    """Follows the traces, and makes images at random moments."""
    drawn = random.Random(seed)
    moments = sum(1 for path in traces for _ in _moments(Disk(disk.directory, {}), path, {}))
    wanted = {}
    for _ in range(images):
        moment = drawn.randrange(moments)
        wanted[moment] = wanted.get(moment, 0) + 1
    answers = {id: writer.number for writer in writers for id in writer.acknowledged}
    acknowledged = dict.fromkeys(range(WRITERS), 0)
    result = Result(moments=moments, changes=len(answers))
    moment = 0
    for path in traces:
        for writer in _moments(disk, path, answers):
            if writer is not None:
                acknowledged[writer] += 1
            for _ in range(wanted.get(moment, 0)):
                result.images += 1
                is_started = result.images % STARTED == 0
                result.started += is_started
                _one(program if is_started else None, folder / "image", disk, writers, acknowledged, keys, drawn, moment, result)
            moment += 1
    if list(acknowledged.values()) != [len(writer.acknowledged) for writer in writers]:
        raise ValueError(f"the traces have other answers than the writers got: {acknowledged}")
    result.written_back = disk.names[DATABASE].writes
    return result


def _moments(disk, path, answers):
    """Yields at each moment at which the disk changed, or an answer was sent: the writer who got the answer, or None."""
    disk.start()
    for event in trace.read(path):
        if event.begin and event.texts and event.texts[0].startswith(b"HTTP/1.1 "):
            yield next((answers.get(line[14:].strip().decode()) for line in event.texts[0].split(b"\r\n") if line.lower().startswith(b"x-request-id: ")), None)
        elif disk.apply(event):
            yield None


def _one(program, folder, disk, writers, acknowledged, keys, drawn, moment, result):
    files = {name: content for name, content in disk.image(drawn).items() if name in FILES}
    if drawn.random() < 0.5:
        files.pop(f"{DATABASE}-shm", None)
    try:
        lay_out(files, folder, drawn)
        verify(folder, writers, acknowledged, keys)
        if program:
            start(program, folder)
    except (Lost, sqlite3.DatabaseError) as error:
        result.lost.append(f"moment {moment}: {type(error).__name__}: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
