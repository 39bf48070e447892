"""Traffic over a network, seen from the test: transfers with a checksum, probes that count every loss, pings."""

import json
import sys
from pathlib import Path

from ..hosts.wait import PATIENCE_S, LabError, wait_until

_HERE = Path(__file__).parent
# -I: the program stands alone, nothing of the caller's Python environment reaches it.
_TRAFFIC = (sys.executable, "-I", str(_HERE / "generator.py"))
_WIRE = (sys.executable, "-I", str(_HERE / "capture.py"))
_MIDDLE = (sys.executable, "-I", str(_HERE / "interceptor.py"))

# How often (seconds) an address is asked that may not answer yet: seldom enough for a slow link, often enough that nobody waits for the next one.
ASK_S = 0.1


class Transfer:
    """One TCP connection from host `source` to `address` of host `target`, compared by SHA-256 at the end.

    Without `size` it runs until `finish()`; `rate` (bytes per second) keeps it from filling every queue on its way.
    """

    def __init__(self, source, target, address, size=None, rate=None):
        port = source.lab.free_port()
        self._receiver = target.start(*_TRAFFIC, "receive", address, port, name=f"receive-{port}")
        self._receiver.wait_for_output("ready")
        limits = ([] if size is None else ["--bytes", size]) + ([] if rate is None else ["--rate", rate])
        self._sender = source.start(*_TRAFFIC, "send", address, port, *limits, name=f"send-{port}")
        self._sized = size is not None

    @property
    def received(self):
        """Bytes that have reached the target so far."""
        lines = [line for line in self._receiver.output().splitlines() if line.startswith("{") and line.endswith("}")]
        return json.loads(lines[-1])["bytes"] if lines else 0

    def flows_on(self, more, timeout=PATIENCE_S):
        """Waits until `more` further bytes have arrived."""
        goal = self.received + more
        wait_until(lambda: self.received >= goal, f"{more} more bytes to arrive", timeout, self.details)

    def finish(self, timeout=4 * PATIENCE_S):
        """Ends the transfer and returns {"bytes", "seconds", "sha256", "equal"}; a broken one raises."""
        if not self._sized:
            self._sender.close_input()
        if self._sender.wait(timeout) not in (0, 1) or not self._sender.output():
            raise LabError(f"the transfer broke\n{self.details()}")
        return json.loads(self._sender.output().splitlines()[-1])

    def details(self):
        return f"{self._sender.tail()}\n{self._receiver.tail()}"


class Probe:
    """UDP datagrams from `source` to `address` of `target` and back, each one counted: `burst` together, `interval` seconds apart."""

    def __init__(self, source, target, address, interval=0.05, burst=1):
        port = source.lab.free_port()
        self._echo = target.start(*_TRAFFIC, "echo", address, port, name=f"echo-{port}")
        self._echo.wait_for_output("ready")
        self._probe = source.start(*_TRAFFIC, "probe", address, port, "--interval", interval, "--burst", burst, name=f"probe-{port}")

    def end(self):
        """Stops sending. Several probes that end together wait for stragglers together."""
        self._probe.close_input()

    def finish(self):
        """Stops sending and returns {"sent", "received", "doubled", "reordered", "late", "lost", "seconds"}.

        `reordered` counts those that came back after a later one; `late` is the first of them, each as [number, the latest that was there].
        """
        self.end()
        code = self._probe.wait()
        self._echo.close_input()
        self._echo.wait()
        if code != 0:
            raise LabError(f"the probe broke\n{self._probe.tail()}\n{self._echo.tail()}")
        return json.loads(self._probe.output().splitlines()[-1])


class Listener:
    """Reads along on the switch port of `host`: who sends which WireGuard message to whom, and any plaintext."""

    def __init__(self, switch, host):
        self._process = switch.start(*_WIRE, f"{host.name}.0", name=f"wire-{host.name}")
        self._process.wait_for_output("ready")

    def finish(self):
        """Returns {"frames", "plaintext", "udp": [{"from", "to", "type", "frames", "bytes"}]}."""
        self._process.close_input()
        if self._process.wait() != 0:
            raise LabError(f"the listener broke\n{self._process.tail()}")
        return json.loads(self._process.output().splitlines()[-1])


class Middle:
    """Somebody on the cable of `host` who drops or alters every control message, until `release()`."""

    def __init__(self, switch, host, how):
        port = f"{host.name}.0"
        switch.ip(
            "link add middle type veth peer name middle.0",
            f"link set {port} nomaster promisc on addrgenmode none",
            "link set middle up promisc on addrgenmode none",
            "link set middle.0 up master br0",
        )
        self._process = switch.start(*_MIDDLE, "middle", port, how, name="middle")
        self._process.wait_for_output("ready")

    def release(self):
        """Everything passes from now on."""
        self._process.write("\n")

    def finish(self):
        """Returns {"passed", "held"}, in frames; the cable is cut then."""
        self._process.close_input()
        if self._process.wait() != 0:
            raise LabError(f"the one in the middle broke\n{self._process.tail()}")
        return json.loads(self._process.output().splitlines()[-1])


def ping(source, address, count=10, interval=0.05, first=False):
    """ICMP echo from `source`, answered by a kernel: {"sent", "received", "first_ms", "ms": [...]}.

    `first_ms` is the time from the first request to the first reply of any; with `first` it ends there.
    """
    options = ["--count", count, "--interval", interval, *(["--first"] if first else [])]
    timeout = count * interval + PATIENCE_S
    done = source.run(*_TRAFFIC, "ping", address, *options, check=False, timeout=timeout)
    if not done.stdout:
        raise LabError(f"ping {address} from {source.name} broke\n{done.stderr}")
    return json.loads(done.stdout)


class Ping:
    """The same beside other things: `finish` waits for its end. `began` is when the first request was sent, by time.monotonic()."""

    def __init__(self, source, address, count, interval):
        self._source, self._patience = source, count * interval + PATIENCE_S
        self._process = source.start(*_TRAFFIC, "ping", address, "--count", count, "--interval", interval, name=f"ping-{source.lab.free_port()}")

    def finish(self):
        self._process.wait(self._patience)
        if not self._process.output():
            raise LabError(f"ping from {self._source.name} broke\n{self._process.tail()}")
        return json.loads(self._process.output().splitlines()[-1])


class Beat:
    """ICMP echo at even intervals (seconds) until `finish`, which tells when each answer came; a context manager."""

    def __init__(self, source, address, interval=0.01):
        self.interval = interval
        name = f"beat-{source.lab.free_port()}"
        self._process = source.start(*_TRAFFIC, "beat", address, "--interval", interval, name=name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()

    def finish(self):
        """{"sent", "answered": [moments], "asked": [moments of those requests], "unanswered": [moments of the others], "began", "ended"}, in the order in
        which answers came."""
        self._process.close_input()
        if self._process.wait() != 0:
            raise LabError(f"the beat broke\n{self._process.tail()}")
        return json.loads(self._process.output().splitlines()[-1])


def answers(source, address, patience_s):
    """Whether an echo request from `source` is answered within `patience_s`; returns with the first answer."""
    return ping(source, address, count=max(1, round(patience_s / ASK_S)), interval=ASK_S, first=True)["received"] > 0
