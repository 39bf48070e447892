"""The drill of docs/backup.md and of the backups in docs/postgresql.md: their commands, run as they are there, on a real coordinator, Litestream and PostgreSQL. `systemctl` and `sudo` are scripts of the test."""

import http.client
import json
import os
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.hosts.programs import ROOT, binary
from lab.hosts.wait import wait_until
from lab.nodes import local_postgres as postgres
from lab.nodes import versions
from lab.tests.drill import STRICT, blocks

PAGE = ROOT / "docs" / "backup.md"
# `systemctl ACTION SERVICE…`: the test does it, and answers.
SYSTEMCTL = '#!/bin/sh\necho "$@" > "$DRILL/asked"\nread -r status < "$DRILL/done"\nexit "$status"\n'
# `sudo -u postgres PROGRAM …`, with its directory as a service has it.
SUDO = '#!/bin/sh\nshift 2\ncd "$DRILL"\nexec setpriv --reuid="$POSTGRES" --regid="$POSTGRES_GROUP" --clear-groups "$@"\n'


class Drill:
    """A host of the drill: its services, and the commands of the page."""

    def __init__(self, folder):
        self.folder = folder
        self.state, self.saved = folder / "state", folder / "saved"
        self.services = {}
        self.running = {}
        self.port = None
        self.token = None
        programs = folder / "bin"
        programs.mkdir()
        for name, text in (("systemctl", SYSTEMCTL), ("sudo", SUDO)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        for name in ("asked", "done"):
            os.mkfifo(folder / name)
        (programs / "taut-coordinator").symlink_to(binary("taut-coordinator"))
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "DRILL": str(folder),
            "STATE": str(self.state),
            "SAVED": str(self.saved),
            "CONFIG": str(folder / "litestream.yml"),
        }

    def run(self, *scripts, **more):
        """Runs commands of the page; fails if one of them does."""
        text = STRICT + "\n".join(scripts)
        shell = subprocess.Popen(["bash", "-c", text], env={**self.environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder)
        # Opened for both, so that opening it does not wait.
        asked = os.open(self.folder / "asked", os.O_RDWR | os.O_NONBLOCK)
        try:
            while shell.poll() is None:
                self._serve(asked)
                time.sleep(0.02)
        finally:
            os.close(asked)
            if shell.poll() is None:
                shell.kill()
        output = shell.communicate()[0]
        assert shell.returncode == 0, f"{text}\n{output}"
        return output

    def _serve(self, asked):
        try:
            action, *services = os.read(asked, 4096).decode().split()
        except (BlockingIOError, ValueError):
            return
        for service in services:
            if action in ("stop", "restart"):
                self.stop(service)
            if action in ("start", "restart"):
                self.start(service)
        (self.folder / "done").write_text("0\n")

    def start(self, service):
        self.running[service] = self.services[service]()

    def stop(self, service):
        if stop := self.running.pop(service, None):
            stop()

    def stop_all(self):
        for service in list(self.running):
            self.stop(service)

    def serve(self):
        """Starts the coordinator as its service would; returns the function that stops it."""
        words = [binary("taut-coordinator"), "serve", "--state", self.state, "--listen", "127.0.0.1:0", "--url", "http://192.0.2.1:8288"]
        if "TAUT_DATABASE" not in self.environment:
            words.append("--no-relay")
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.environment)
        self.port = next((int(line.rpartition(":")[2]) for line in process.stdout if line.startswith("listening on ")), None)
        assert self.port, "serve does not start"
        if self.token is None:
            self.token = dict(line.split(": ") for line in (self.state / "first-tokens").read_text().splitlines())["operator-token"]
        return lambda: (process.terminate(), process.communicate())

    def replicate(self):
        """Starts Litestream as its service would."""
        log = open(self.folder / "litestream.log", "ab")
        process = subprocess.Popen(["litestream", "replicate", "-config", self.environment["CONFIG"]], stdout=log, stderr=log, env=self.environment)
        return lambda: (process.terminate(), process.wait(), log.close())

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, f"/api/v1/{path}", json.dumps(body) if body is not None else None, {"authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        text = json.loads(answer.read())
        connection.close()
        assert answer.status in (200, 201), text
        return text

    def is_well(self):
        try:
            return bool(self.seen())
        except AssertionError:
            return False

    def key(self):
        """Makes a key; returns its number."""
        return self.ask("POST", "keys", {})["key"]["id"]

    def seen(self):
        """Returns the numbers of the keys, and the version of the first network."""
        keys = {key["id"] for key in self.ask("GET", "keys")["keys"]}
        return keys, self.ask("GET", "networks/default")["network"]["version"]

    def kept(self, kept, lost):
        """Asserts that the restored coordinator has some keys and not others, and assigns nothing twice."""
        (before, _), (after, version) = lost, self.seen()
        assert kept <= after and not (before - kept) & after, (kept, before, after)
        assert version >> 20 > (lost[1] >> 20) + 100_000, "nodes notice that the versions leapt"
        assert self.key() > max(before) + 900, "a number that was given after the backup"


@pytest.fixture
def drill(tmp_path_factory):
    # The server's user has to reach its folder.
    folder = tmp_path_factory.mktemp("drill")
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o711)
    drill = Drill(folder)
    drill.services = {"taut-coordinator": drill.serve}
    try:
        yield drill
    finally:
        drill.stop_all()


@contextmanager
def moment():
    """Waits around a moment, so that nothing else happened in its second."""
    time.sleep(1.5)
    yield time.time()
    time.sleep(1.5)


@pytest.mark.programs
def test_fault_o8_n9_a_backup_of_sqlite_comes_back_by_the_commands_of_the_page(drill):
    names, (save, restore) = blocks("A backup of SQLite", PAGE)
    drill.start("taut-coordinator")
    kept = {drill.key()}
    drill.run(*names, save)
    drill.key()
    lost = drill.seen()
    assert "nodes that joined since then" in drill.run(*names, restore)
    drill.kept(kept | {1}, lost)


@pytest.mark.programs
@pytest.mark.skipif(bool(versions.lacking("litestream", "litestream")), reason=str(versions.lacking("litestream", "litestream")))
def test_fault_o8_n9_litestream_brings_back_the_last_state_and_any_moment(drill):
    names, (configure, last, at_a_moment) = blocks("Continuous replication of SQLite", PAGE)
    drill.environment["PATH"] = f"{versions.peer('litestream', 'litestream').parent}:{drill.environment['PATH']}"
    drill.services["litestream"] = drill.replicate
    drill.saved.mkdir()
    drill.start("taut-coordinator")
    drill.run(*names, configure)
    # More than the log has before it is written back, twice.
    first = {drill.key() for _ in range(700)}
    with moment() as then:
        pass
    second = {drill.key() for _ in range(10)}
    time.sleep(3)
    drill.key()
    lost = drill.seen()
    drill.run(*names, last)
    # Nothing is lost: Litestream copies the rest when it is stopped.
    assert first | second < lost[0]
    drill.kept(lost[0], lost)
    third = drill.key()
    time.sleep(3)
    lost = drill.seen()
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(then))
    drill.run(*names, at_a_moment, MOMENT=text)
    drill.kept(first | {1}, lost)
    assert third not in drill.seen()[0]
    # What is replicated after two restores is whole.
    more = {drill.key() for _ in range(20)}
    time.sleep(3)
    lost = drill.seen()
    drill.run(*names, last)
    assert first | more < lost[0]
    drill.kept(lost[0], lost)


@pytest.fixture
def server(drill):
    """Makes a server the drill's service, and starts it and a coordinator on it."""
    server = postgres.Postgres(drill.folder / "server").initialize()
    drill.environment |= {
        "PATH": f"{drill.folder / 'bin'}:{server.programs}:{os.environ['PATH']}",
        "PGDATA": str(server.data),
        "PGHOST": str(server.folder),
        "PGUSER": postgres.USER,
        "PGDATABASE": "postgres",
        "TAUT_DATABASE": server.url(),
        "POSTGRES": str(server.who.get("user")),
        "POSTGRES_GROUP": str(server.who.get("group")),
    }
    drill.services["postgresql"] = lambda: (server.start(), server.stop)[1]
    drill.start("postgresql")
    drill.start("taut-coordinator")
    return server


@pytest.mark.programs
@pytest.mark.skipif(bool(postgres.lacking()), reason=postgres.lacking())
def test_fault_o8_n9_a_dump_of_postgresql_under_load_is_one_moment_and_comes_back(drill, server):
    _, (save, restore) = blocks("Backup and restore", ROOT / "docs" / "postgresql.md")
    made = [drill.key() for _ in range(3)]
    loading = threading.Event()

    def load():
        while not loading.is_set():
            made.append(drill.key())

    writer = threading.Thread(target=load)
    writer.start()
    try:
        before = len(made)
        drill.run(save)
        after = len(made)
    finally:
        loading.set()
        writer.join()
    drill.key()
    lost = drill.seen()
    drill.stop("taut-coordinator")
    drill.run(restore)
    drill.start("taut-coordinator")
    there = drill.seen()[0] - {1}
    # All up to one of those that were made meanwhile; one may be stored and not yet counted.
    assert sorted(there) == made[: len(there)] and before <= len(there) <= after + 1
    drill.kept(there | {1}, lost)


@pytest.mark.programs
@pytest.mark.root
@pytest.mark.skipif(bool(postgres.lacking()), reason=postgres.lacking())
def test_fault_o8_n9_postgresql_goes_back_to_any_moment(drill, server):
    names, (archive, base, go_back) = blocks("Any moment with PostgreSQL", PAGE)
    first = {drill.key() for _ in range(3)}
    drill.run(*names, archive)
    wait_until(drill.is_well, "the coordinator to reach its database")
    drill.run(*names, base)
    second = {drill.key() for _ in range(3)}
    with moment() as then:
        pass
    drill.key()
    lost = drill.seen()
    drill.run(*names, go_back, MOMENT=time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(then)))
    drill.kept(first | second | {1}, lost)
    # The next start of the server does not go back again.
    drill.stop("taut-coordinator")
    drill.stop("postgresql")
    drill.start("postgresql")
    drill.start("taut-coordinator")
    assert first | second <= drill.seen()[0]
