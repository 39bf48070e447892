"""A PostgreSQL server of a test's own, with the settings of the test. tools/with_postgres starts the servers of most tests; those do not wait for the disk."""

import contextlib
import importlib.machinery
import importlib.util
import os
import signal
import subprocess
from pathlib import Path

from ..hosts.programs import ROOT
from ..hosts.wait import wait_until

USER = "taut"


def _tool():
    """Returns tools/with_postgres as a module: it knows where the server's programs are, and who may run them."""
    loader = importlib.machinery.SourceFileLoader("with_postgres", str(ROOT / "tools" / "with_postgres"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def lacking():
    """Returns why no server can run here, or an empty string."""
    try:
        tool = _tool()
        tool.programs()
        tool.user()
    except SystemExit as error:
        return str(error)
    return ""


def _runs(pid):
    """Returns true if a process has not ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Postgres:
    """A server in `folder`, which listens on a socket there. As root it runs as another user, to whom the folder is given."""

    def __init__(self, folder, **settings):
        self.folder = Path(folder)
        self.data = self.folder / "data"
        self.settings = settings
        self.process = None
        tool = _tool()
        self.programs, self.who = tool.programs(), tool.user()

    def initialize(self):
        """Makes an empty cluster."""
        self.folder.mkdir(exist_ok=True)
        if self.who:
            os.chown(self.folder, self.who["user"], self.who["group"])
        self.run("initdb", "--pgdata", self.data, "--username", USER, "--auth", "trust", "--encoding", "UTF8", "--no-locale")
        return self

    def run(self, program, *words):
        """Runs a program of the server's, as its user."""
        return subprocess.run([self.programs / program, *map(str, words)], check=True, capture_output=True, text=True, cwd=self.folder, **self.who)

    def url(self, database="postgres"):
        return f"postgres://{USER}@localhost/{database}?host={self.folder}"

    def start(self):
        options = [word for name, value in {"listen_addresses": "", **self.settings}.items() for word in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            words = [self.programs / "postgres", "-D", self.data, "-k", self.folder, *options]
            self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, **self.who)
        wait_until(self._answers, "the PostgreSQL server to answer")
        return self

    def _answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended:\n{(self.folder / 'log').read_text()}")
        return self.ask("SELECT 1", check=False) == "1"

    def ask(self, sql, database="postgres", check=True):
        """Returns what a statement prints."""
        words = [self.programs / "psql", "--no-psqlrc", "--tuples-only", "--no-align", "--command", sql, self.url(database)]
        return subprocess.run(words, check=check, capture_output=True, text=True).stdout.strip()

    def kill(self):
        """Kills all processes of the server by SIGKILL, as a crash of its host does; what it had given to the kernel is on the disk."""
        main = self.process.pid
        # Stopped, it starts no further process.
        os.kill(main, signal.SIGSTOP)
        children = list(map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split()))
        for pid in (main, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        # The next server does not start while one of them has the shared memory.
        wait_until(lambda: not any(map(_runs, children)), "the killed server's processes to end")

    def stop(self):
        """Ends the server, and the connections to it."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
