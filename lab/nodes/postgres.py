"""A PostgreSQL server in a host, at a TCP address of the lab."""

import os
import pwd
import shutil
from pathlib import Path

from ..hosts.programs import ROOT
from ..hosts.wait import LabError, wait_until

PORT = 5432
# The server refuses to run as root.
USER = "postgres"
# The database and the role that owns it. Hosts of the lab show the password; it protects nothing, but the URL is of the form that a real one has.
NAME, PASSWORD = "taut", "lab"
# `mmap`: shared memory is in files of the data directory, so that a killed server leaves nothing in /dev/shm. WAL files of 1 MiB keep the directory small.
SETTINGS = {"dynamic_shared_memory_type": "mmap", "min_wal_size": "2MB", "max_wal_size": "32MB", "log_line_prefix": "%m [%p] "}
_PEERS = "host all taut 0.0.0.0/0 scram-sha-256\n"


def programs():
    """Returns the folder of the newest installed server's programs, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("postgres")
    return Path(elsewhere).parent if elsewhere else None


def missing():
    """Returns why no server can run here, or an empty string."""
    if programs() is None:
        return f"the program postgres is missing: apt-get install postgresql, or {ROOT / 'tools/setup'} ha-demo, which starts no service"
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return f"there is no user {USER} to run the server as: apt-get install postgresql"
    return ""


class Postgres:
    """A server in `host` with one empty database. Its data is in the state directory of the host, so the lab removes it in every case.

    The server runs in an IPC namespace of its own: the kernel frees its System V segment, also after SIGKILL.
    """

    def __init__(self, host):
        self.host = host
        self.process = None
        self._binaries, self._user = programs(), pwd.getpwnam(USER)
        os.chown(host.state, self._user.pw_uid, self._user.pw_gid)
        self._data = host.state / "data"
        self._as_user("initdb", "--pgdata", self._data, "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--no-locale", "--wal-segsize", 1)
        with (self._data / "pg_hba.conf").open("a") as file:
            file.write(_PEERS)

    @property
    def url(self):
        """URL of the database for hosts of the lab."""
        return f"postgres://{NAME}:{PASSWORD}@{self.host.ipv4}:{PORT}/{NAME}?sslmode=disable"

    def start(self):
        """Starts the server and waits until it answers; the first start makes the database."""
        first = self.process is None
        options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        where = ("-c", f"listen_addresses={self.host.ipv4}", "-p", PORT, "-k", self.host.state)
        self.process = self.host.start("unshare", "--ipc", *self._words("postgres", "-D", self._data, *where, *options), name="postgres")
        wait_until(self._answers, "PostgreSQL to answer", details=self.process.tail)
        if first:
            self.sql(f"CREATE ROLE {NAME} LOGIN PASSWORD '{PASSWORD}'", database=USER)
            self.sql(f"CREATE DATABASE {NAME} OWNER {NAME}", database=USER)
        return self

    def restart_at_once(self):
        """Does what `pg_ctl restart -m immediate` does: the server ends without a checkpoint, as in a crash, and recovers at its start."""
        self.process.quit()
        self.start()

    def terminate_connections(self):
        """Ends every connection of the coordinators; returns their number."""
        return int(self.sql(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{NAME}'"))

    def sql(self, statement, database=NAME):
        """Runs a statement as the administrator; returns its rows as lines with `|` between columns."""
        words = self._words("psql", "-X", "-h", self.host.state, "-p", PORT, "-U", USER, "-d", database, "-At", "-v", "ON_ERROR_STOP=1", "-c", statement)
        return self.host.run(*words).stdout.strip()

    def _answers(self):
        if not self.process.alive:
            raise LabError(f"PostgreSQL ended\n{self.process.tail()}")
        ready = self._words("pg_isready", "-q", "-h", self.host.state, "-p", PORT)
        return self.host.run(*ready, check=False).returncode == 0

    def _as_user(self, program, *words):
        self.host.run(*self._words(program, *words))

    def _words(self, program, *words):
        """Returns the command line of one of PostgreSQL's programs that runs as its user, in its directory."""
        drop = ("setpriv", f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups")
        return ("env", "-C", self.host.state, *drop, self._binaries / program, *words)
