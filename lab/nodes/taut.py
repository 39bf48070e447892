"""Programs of Taut in a host: a coordinator, and a node with its daemon and its command line."""

import json
import re
import socket

from ..hosts.programs import binary
from ..hosts.wait import PATIENCE_S, LabError, wait_until
from .local_api import LocalApi

PORT = 8288
_TOKEN = re.compile(r"taut1-\S+?(?=[\"'\s]|$)")


def bare(address):
    """Returns an address without its prefix length."""
    return address.partition("/")[0]


class Coordinator:
    """The coordinator in `host`. Nodes reach it at `address`, by default the first of the host; `port` is its TCP port. `release` is the version of an earlier
    release, None for the current programs. It may be changed between two starts. `env` is the environment of its programs. `scheme` is that of its URL.
    """

    def __init__(self, host, address=None, port=PORT, release=None, env=None, scheme="http"):
        self.host = host
        self.release = release
        self.env = env or {}
        self.scheme = scheme
        self.port = port
        self.address = str(address or host.addresses[0])
        self.operator_token = None
        self.join_token = None
        self.process = None

    @property
    def url(self):
        literal = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{literal}:{self.port}"

    def start(self, *options):
        """Starts it and waits until it listens; reads the tokens of the first start."""
        everywhere = f"[::]:{self.port}" if ":" in self.address else f"0.0.0.0:{self.port}"
        self.process = self.host.start(
            binary("taut-coordinator", self.release),
            "serve",
            "--state",
            self.host.state / "coordinator",
            "--listen",
            everywhere,
            "--url",
            self.url,
            *options,
            name="coordinator",
            env=self.env,
        )
        self.process.wait_for_output("listening on")
        if self.operator_token is None:
            self.take_first_tokens()
        return self

    def take_first_tokens(self):
        """Reads the tokens that the first start made."""
        self.operator_token = self._first_token("operator-token:")
        self.join_token = self._first_token("join-token:")

    def stop(self):
        return self.process.stop()

    def kill(self):
        return self.process.kill()

    def cli(self, *words, check=True):
        """Runs a command of the operator on the host of the coordinator."""
        loopback = "[::1]" if ":" in self.address else "127.0.0.1"
        where = {"TAUT_API": f"{self.scheme}://{loopback}:{self.port}", "TAUT_OPERATOR_TOKEN": self.operator_token, **self.env}
        return self.host.run(binary("taut-coordinator", self.release), *words, check=check, env=where)

    def create_key(self, *options):
        """Makes an enrolment key; returns (its description as JSON, its join token)."""
        text = self.cli("keys", "create", *options, "--json").stdout
        token = _TOKEN.search(text)
        if not token:
            raise LabError(f"`keys create` printed no join token:\n{text}")
        return json.loads(text)["key"], token[0]

    @property
    def first_tokens(self):
        """The file with the tokens of the first start."""
        return self.host.state / "coordinator" / "first-tokens"

    def _first_token(self, label):
        # Release 0.1.0 prints the tokens; newer ones write them to a file.
        text = self.first_tokens.read_text() if self.first_tokens.exists() else self.process.output()
        for line in text.splitlines():
            if line.startswith(label):
                return line.removeprefix(label).strip()
        raise LabError(f"the coordinator's first start made no {label}\n{self.process.tail()}")


class Node:
    """A node in `host`, named after the host. `env` is for the daemon only. `release` as in `Coordinator`."""

    def __init__(self, host, env=None, release=None):
        self.host = host
        self.release = release
        self.name = host.name
        self.env = {"RUST_BACKTRACE": "1", **(env or {})}
        self.process = None
        self._addresses = []

    @property
    def program(self):
        """Path of daemon and CLI."""
        return binary("taut", self.release)

    @property
    def socket(self):
        return self.host.state / "taut.sock"

    @property
    def state(self):
        return self.host.state / "node"

    @property
    def ipv4(self):
        """Overlay address. It never changes for a node, so it is read once."""
        return self._address(4)

    @property
    def ipv6(self):
        return self._address(6)

    def start(self, *options):
        """Starts the daemon as a child process and waits until its socket answers."""
        flags = ["--state", self.state, "--socket", self.socket, *options]
        self.process = self.host.start(self.program, "daemon", *flags, name="daemon", env=self.env)

        def answers():
            if not self.process.alive:
                raise LabError(f"the daemon of {self.name} ended\n{self.process.tail()}")
            return answering(self.socket)

        wait_until(answers, f"the daemon of {self.name} to answer on its socket", details=self.process.tail)
        return self

    def up(self, join=None, check=True):
        """Runs `taut up`, the first time with a join token."""
        words = ["--join", join, "--hostname", self.name] if join else []
        return self.taut("up", *words, check=check, timeout=2 * PATIENCE_S)

    def stop(self):
        return self.process.stop()

    def kill(self):
        return self.process.kill()

    def restart(self, kill=False):
        """Ends the daemon with SIGTERM or SIGKILL, starts it again and waits until it is up."""
        self.kill() if kill else self.stop()
        self.start()
        self.up()

    def taut(self, verb, *words, check=True, timeout=PATIENCE_S):
        """Runs a command of the CLI with the daemon of this node."""
        command = (self.program, verb, *words, "--socket", self.socket)
        if verb == "up":
            command += ("--state", self.state)
        return self.host.run(*command, check=check, timeout=timeout, env=self.env if verb == "up" else None)

    def status(self):
        """Returns the status object of the local API, which `taut status --json` prints; without the program, because tests ask often. Raises `LabError` if no daemon answers."""
        try:
            with LocalApi(self) as api:
                status = api.ask("status")
        except (OSError, ValueError) as error:
            raise LabError(f"{self.name} has no status: {error}") from error
        if "error" in status:
            raise LabError(f"{self.name} has no status: {status}")
        return status

    def peer(self, name, status=None):
        """Returns the entry of peer `name` in this node's status, or None."""
        peers = (status or self.status())["peers"]
        return next((peer for peer in peers if peer["name"] == name), None)

    def sessions_made(self, name, status=None):
        """Returns the number of sessions that this node has had with peer `name`; 0 without a current session."""
        session = self.peer(name, status)["session"]
        return session["established"] if session else 0

    def wait_for(self, predicate, what, timeout=PATIENCE_S):
        """Waits until `predicate(status)` is true; returns that status."""
        last = {}

        def good():
            last["status"] = self.status()
            return last["status"] if predicate(last["status"]) else None

        def details():
            shown = json.dumps(last.get("status"), indent=1)
            tails = "\n".join(process.tail() for process in self.host.processes)
            return f"last status of {self.name}: {shown}\n{tails}"

        return wait_until(good, f"{self.name}: {what}", timeout, details)

    def wait_for_peers(self, *names):
        """Waits until the map names exactly these peers."""
        wanted = sorted(names)
        return self.wait_for(lambda s: sorted(p["name"] for p in s["peers"]) == wanted, f"peers to be {wanted}")

    def ping(self, peer, *options, check=True):
        """Returns the parsed output of `taut ping --json`; without `check` None if there was no reply."""
        done = self.taut("ping", peer, "--json", *options, check=check, timeout=2 * PATIENCE_S)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def ping_until_direct(self, peer):
        """Pings `peer` until it replies over a direct path. A request that is lost, as while no relay serves the peer yet, is given up soon, and the next one is sent."""
        return self.ping(peer, "--until-direct", "--timeout", "3s", "-c", "120")

    def _address(self, version):
        if not self._addresses:
            self._addresses = [bare(a) for a in self.status()["self"]["addresses"]]
        return next(a for a in self._addresses if (":" in a) == (version == 6))


def answering(path):
    """Returns true if a process listens on unix socket `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True
