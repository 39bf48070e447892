"""A WireGuard interface in a host, configured with the stock `wg`: taut-wg, another implementation, or the one in the kernel (`KERNEL`)."""

import contextlib
import os
import socket
from pathlib import Path

from ..hosts import leftovers
from ..hosts.namespace import call
from ..hosts.programs import ROOT, binary
from ..hosts.wait import PATIENCE_S, LabError, wait_until
from ..traffic.flow import ping
from . import versions

# Directory in which `wg` and every implementation expect sockets. Each host mounts its own directory there: `ip netns exec` gives every program a
# mount namespace, so hosts do not see the sockets of each other or of the machine.
SOCKETS = Path("/var/run/wireguard")
_PROGRAMS = {
    "boringtun": ("boringtun-cli-{}/bin/boringtun-cli", ("--foreground", "--disable-drop-privileges")),
    "gotatun": ("gotatun-cli-{}/bin/gotatun", ("--foreground", "--disable-drop-privileges")),
    "wireguard-go": ("wireguard-go-{}/wireguard", ("-f",)),
}
VERSIONS = {kind: versions.VERSIONS[kind] for kind in _PROGRAMS}
INTERFACE = "wg0"
# The kind of an interface that no program serves.
KERNEL = "kernel"


def command(kind):
    """Returns the command line that starts this implementation in the foreground; raises `LabError` if it is missing."""
    if kind == "taut":
        return [binary("taut"), "wg", "-f", INTERFACE]
    if kind == "taut-wg":
        return [_named(kind), "-f", INTERFACE]
    path, flags = _PROGRAMS[kind]
    program = versions.PEERS / path.format(VERSIONS[kind])
    if not os.access(program, os.X_OK):
        raise LabError(f"{kind} {VERSIONS[kind]} is not installed: make peers")
    return [program, *flags, INTERFACE]


def _named(name):
    """Returns a link to the program `taut` under another name."""
    link = ROOT / "target" / "lab-bin" / name
    if not link.exists() or link.resolve() != binary("taut"):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(binary("taut"))
    return link


def lacking(kind):
    """Returns why this implementation cannot be run, or None."""
    if kind == KERNEL:
        return _lacking_kernel()
    try:
        command(kind)
    except LabError as error:
        return str(error)
    return None


def _lacking_kernel():
    name = leftovers.namespace_name("wg")
    try:
        call("ip", "netns", "add", name)
        made = call("ip", "-n", name, "link", "add", INTERFACE, "type", "wireguard", check=False)
        return f"the kernel has no WireGuard ({made.stderr.strip()})" if made.returncode else None
    finally:
        call("ip", "netns", "delete", name, check=False)


class WireGuard:
    """The interface `wg0` of `host`. `inner` are its addresses inside, with prefix lengths; every start sets them. `flags` are further words for the program."""

    def __init__(self, host, kind="taut", inner=(), env=None, flags=()):
        self.host = host
        self.kind = kind
        self.inner = list(inner)
        self.env = env
        self.flags = list(flags)
        self.process = None
        self.config = ""
        self.private = self.wg("genkey").strip()
        self.public = self.wg("pubkey", text=self.private).strip()

    def start(self):
        """Starts it with its addresses and its last configuration."""
        self._make()
        self.host.ip(*(f"address add {address} dev {INTERFACE}" for address in self.inner), f"link set {INTERFACE} up")
        if self.config:
            self.setconf(self.config)
        return self

    def stop(self):
        if self.kind == KERNEL:
            self.host.ip(f"link delete {INTERFACE}")
            return 0
        return self.process.stop()

    def restart(self, kill=False):
        """Ends it, with SIGTERM or SIGKILL, and starts it again with the same configuration."""
        if self.kind == KERNEL or not kill:
            self.stop()
        else:
            self.process.kill()
        with contextlib.suppress(LabError):
            # After a crash the socket file still exists, and the next start has to handle that. The device is removed with the process.
            self.host.ip(f"link delete {INTERFACE}")
        return self.start()

    def wg(self, *words, check=True, text=None):
        """Runs a `wg` command; returns its output (without `check` the finished process)."""
        done = self.host.run(*self._mounted("wg", *words), check=check, text=text)
        return done.stdout if check else done

    def ask(self, text):
        """Sends `text` over the socket and then half-closes it; returns the whole answer."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(PATIENCE_S)
            asking.connect(str(self._socket()))
            asking.sendall(text.encode())
            asking.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: asking.recv(4096), b"")).decode()

    def set(self, *words):
        """Runs `wg set wg0 …`."""
        return self.wg("set", INTERFACE, *words)

    def setconf(self, config, verb="setconf"):
        """Replaces the configuration by the text of a `wg` file."""
        self.config = config
        file = self.host.state / "wg0.conf"
        file.write_text(config)
        self.wg(verb, INTERFACE, file)

    def interface(self):
        """{"private", "public", "port", "fwmark"} as `wg show dump` prints them."""
        return dict(zip(("private", "public", "port", "fwmark"), self._dump()[0]))

    def peer(self, public):
        """Returns a peer as `wg show dump` prints it: psk, endpoint, allowed (a list), handshake, received, sent, keepalive."""
        for line in self._dump()[1:]:
            if line[0] == public:
                names = ("psk", "endpoint", "allowed", "handshake", "received", "sent", "keepalive")
                row = dict(zip(names, line[1:]))
                row["allowed"] = sorted(row["allowed"].split(",")) if row["allowed"] != "(none)" else []
                return {**row, **{name: int(row[name]) for name in ("handshake", "received", "sent")}}
        raise LabError(f"{self.host.name} has no peer {public}")

    def peers(self):
        """Returns the keys of all peers."""
        return sorted(line[0] for line in self._dump()[1:])

    def reaches(self, address, timeout=PATIENCE_S):
        """Waits until a ping to `address` inside is answered; returns True if the first ping was."""
        tries = 0

        def answered():
            nonlocal tries
            tries += 1
            return ping(self.host, address, count=1)["received"] == 1

        wait_until(answered, f"{self.host.name} to reach {address}", timeout, self.details)
        return tries == 1

    def details(self):
        return f"{self.wg('show', check=False).stdout}\n{self.process.tail() if self.process else ''}"

    def _make(self):
        """Makes the interface, without addresses and keys."""
        if self.kind == KERNEL:
            self.host.ip(f"link add {INTERFACE} type wireguard")
            return
        *program, interface = command(self.kind)
        self.process = self.host.start(*self._mounted(*program, *self.flags, interface), name=f"wg-{self.kind}", env=self.env)
        wait_until(self._answers, f"{self.kind} in {self.host.name} to answer wg", details=self.process.tail)

    def _dump(self):
        return [line.split("\t") for line in self.wg("show", INTERFACE, "dump").splitlines()]

    def _answers(self):
        if not self.process.alive:
            raise LabError(f"{self.kind} in {self.host.name} ended\n{self.process.tail()}")
        # Not with `wg show`, which mistakes a socket without a listener for a leftover and removes it.
        with socket.socket(socket.AF_UNIX) as tried:
            return tried.connect_ex(str(self._socket())) == 0

    def _socket(self):
        return self.host.state / "wireguard" / f"{INTERFACE}.sock"

    def _mounted(self, *words):
        own = self.host.state / "wireguard"
        own.mkdir(exist_ok=True)
        SOCKETS.mkdir(parents=True, exist_ok=True)
        return ["sh", "-ec", 'mount --bind "$0" ' + str(SOCKETS) + ' && exec "$@"', own, *words]


def conf(device, *peers, port=51820):
    """Returns the text of a `wg` file: key and port of this device, and a section per peer, each a dict of its lines."""
    lines = ["[Interface]", f"PrivateKey = {device.private}", f"ListenPort = {port}"]
    for peer in peers:
        lines += ["", "[Peer]", *(f"{key} = {value}" for key, value in peer.items() if value is not None)]
    return "\n".join(lines) + "\n"


def pair(lab, kinds=("taut", "taut"), family=4, psk=False, keepalive=None, env=None, names=("one", "two"), passive=False, switches=None):
    """Makes two hosts, on a switch of their own or each on one of `switches`, each with an interface that knows the endpoint of the other. Inside addresses are 10.9.0.N and fd09::N.

    With `passive` the second one knows no endpoint and sends no keepalives: it only answers.
    """
    switches = switches or [lab.switch(f"sw-{names[0]}", ipv4=family == 4, ipv6=family == 6)] * 2
    hosts = [lab.host(name, switch) for name, switch in zip(names, switches)]
    inner = [(f"10.9.0.{n}/24", f"fd09::{n}/64") for n in (1, 2)]
    both = [WireGuard(host, kind, own, env) for host, kind, own in zip(hosts, kinds, inner)]
    secret = both[0].wg("genpsk").strip() if psk else None
    for number, (here, there) in enumerate((both, both[::-1])):
        address = there.host.ipv4 if family == 4 else f"[{there.host.ipv6}]"
        other = 2 - number
        asks = number == 0 or not passive
        here.config = conf(
            here,
            {
                "PublicKey": there.public,
                "PresharedKey": secret,
                "AllowedIPs": f"10.9.0.{other}/32, fd09::{other}/128",
                "Endpoint": f"{address}:51820" if asks else None,
                "PersistentKeepalive": keepalive if asks else None,
            },
        )
        here.start()
    return both
