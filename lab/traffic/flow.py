"""Traffic over a network: transfers with a checksum, probes that count every loss, pings."""

import json
import sys
from pathlib import Path

from ..hosts.wait import PATIENCE_S, LabError, wait_until

_HERE = Path(__file__).parent
# With -I the program ignores the Python environment of the caller.
_TRAFFIC = (sys.executable, "-I", str(_HERE / "generator.py"))
_CAPTURE = (sys.executable, "-I", str(_HERE / "capture.py"))
_INTERCEPTOR = (sys.executable, "-I", str(_HERE / "interceptor.py"))

# Interval of requests to an address that may not answer yet, in seconds: long enough for a slow link, short enough to notice the first answer soon.
ASK_S = 0.1


class Transfer:
    """A TCP connection from host `source` to `address` of host `target`, verified with SHA-256 at the end.

    Without `size` it runs until `finish()`. `rate` (bytes per second) keeps it from filling all queues on its path.
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
        """Ends the transfer and returns {"bytes", "seconds", "sha256", "equal"}; raises `LabError` if the transfer failed."""
        if not self._sized:
            self._sender.close_input()
        if self._sender.wait(timeout) not in (0, 1) or not self._sender.output():
            raise LabError(f"the transfer failed\n{self.details()}")
        return json.loads(self._sender.output().splitlines()[-1])

    def details(self):
        return f"{self._sender.tail()}\n{self._receiver.tail()}"


class Probe:
    """UDP datagrams from `source` to `address` of `target` and back: `burst` at a time, `interval` seconds apart. Every datagram is counted."""

    def __init__(self, source, target, address, interval=0.05, burst=1):
        port = source.lab.free_port()
        self._echo = target.start(*_TRAFFIC, "echo", address, port, name=f"echo-{port}")
        self._echo.wait_for_output("ready")
        self._probe = source.start(*_TRAFFIC, "probe", address, port, "--interval", interval, "--burst", burst, name=f"probe-{port}")

    def end(self):
        """Stops sending. Several probes that end together wait for stragglers at the same time."""
        self._probe.close_input()

    def finish(self):
        """Stops sending and returns {"sent", "received", "doubled", "reordered", "late", "lost", "seconds"}.

        `reordered` counts datagrams that returned after a later one. `late` lists the first of them, each as [number, latest number before it].
        """
        self.end()
        code = self._probe.wait()
        self._echo.close_input()
        self._echo.wait()
        if code != 0:
            raise LabError(f"the probe failed\n{self._probe.tail()}\n{self._echo.tail()}")
        return json.loads(self._probe.output().splitlines()[-1])


class Listener:
    """Captures on the switch port of `host`: WireGuard messages by sender and receiver, and any plaintext."""

    def __init__(self, switch, host):
        self._process = switch.start(*_CAPTURE, f"{host.name}.0", name=f"wire-{host.name}")
        self._process.wait_for_output("ready")

    def finish(self):
        """Returns {"frames", "plaintext", "udp": [{"from", "to", "type", "frames", "bytes"}]}."""
        self._process.close_input()
        if self._process.wait() != 0:
            raise LabError(f"the listener failed\n{self._process.tail()}")
        return json.loads(self._process.output().splitlines()[-1])


class Interceptor:
    """Intercepts the cable of `host` and drops or alters every control message, until `release()`."""

    def __init__(self, switch, host, how):
        port = f"{host.name}.0"
        switch.ip(
            "link add middle type veth peer name middle.0",
            f"link set {port} nomaster promisc on addrgenmode none",
            "link set middle up promisc on addrgenmode none",
            "link set middle.0 up master br0",
        )
        self._process = switch.start(*_INTERCEPTOR, "middle", port, how, name="middle")
        self._process.wait_for_output("ready")

    def release(self):
        """Lets everything pass from now on."""
        self._process.write("\n")

    def finish(self):
        """Returns {"passed", "held"} in frames, and cuts the cable."""
        self._process.close_input()
        if self._process.wait() != 0:
            raise LabError(f"the interceptor failed\n{self._process.tail()}")
        return json.loads(self._process.output().splitlines()[-1])


def ping(source, address, count=10, interval=0.05, first=False):
    """Sends ICMP echo requests from `source`; the kernel of the target answers. Returns {"sent", "received", "first_ms", "ms": [...]}.

    `first_ms` is the time from the first request to the first reply to any request; with `first` the ping ends there.
    """
    options = ["--count", count, "--interval", interval, *(["--first"] if first else [])]
    timeout = count * interval + PATIENCE_S
    done = source.run(*_TRAFFIC, "ping", address, *options, check=False, timeout=timeout)
    if not done.stdout:
        raise LabError(f"ping {address} from {source.name} failed\n{done.stderr}")
    return json.loads(done.stdout)


class Ping:
    """A ping in the background; `finish` waits for its end. `began` is the time of the first request (time.monotonic())."""

    def __init__(self, source, address, count, interval):
        self._source, self._patience = source, count * interval + PATIENCE_S
        self._process = source.start(*_TRAFFIC, "ping", address, "--count", count, "--interval", interval, name=f"ping-{source.lab.free_port()}")

    def finish(self):
        self._process.wait(self._patience)
        if not self._process.output():
            raise LabError(f"ping from {self._source.name} failed\n{self._process.tail()}")
        return json.loads(self._process.output().splitlines()[-1])


class PingStream:
    """ICMP echo requests at even intervals (seconds) until `finish`, which returns the time of each answer; a context manager. With `full` each is as long as the route
    carries at that moment and has Don't Fragment."""

    def __init__(self, source, address, interval=0.01, full=False):
        self.interval = interval
        name = f"beat-{source.lab.free_port()}"
        self._process = source.start(*_TRAFFIC, "beat", address, "--interval", interval, *(["--full"] if full else []), name=name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()

    def finish(self):
        """Returns {"sent", "answered": [times], "asked": [times of those requests], "unanswered": [times of the other requests], "began", "ended", "shortest", "longest"},
        in the order of the answers. The last two are lengths of requests in bytes, with the IP header.
        """
        self._process.close_input()
        if self._process.wait() != 0:
            raise LabError(f"the ping stream failed\n{self._process.tail()}")
        return json.loads(self._process.output().splitlines()[-1])


def answers(source, address, patience_s):
    """Returns true if an echo request from `source` is answered within `patience_s`; returns at the first answer."""
    return ping(source, address, count=max(1, round(patience_s / ASK_S)), interval=ASK_S, first=True)["received"] > 0
