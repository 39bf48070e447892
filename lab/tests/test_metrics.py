"""Metrics for Prometheus: from the command line, and over HTTP if the daemon serves them."""

import re
import time

from lab.hosts.programs import binary

PORT = 9288
_LINE = re.compile(r'taut_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+-]+')


def series(text):
    """Returns {series with its labels: value}."""
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}


def fetch(host, request):
    """Returns the answer of 127.0.0.1:PORT in this host to these bytes."""
    done = host.run("timeout", "20", "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{PORT}; cat >&3; cat <&3", text=request)
    return done.stdout


def test_the_figures_follow_the_path(mesh):
    one, two = mesh(nodes=2).nodes
    one.ping_until_direct(two.name)
    # Packets before the direct path, and within 50 ms after it (protocol.md 5.4), may have gone through the relay; later ones go directly.
    time.sleep(0.2)
    one.ping_until_direct(two.name)
    text = one.taut("metrics").stdout
    assert all(line.startswith("# ") or _LINE.fullmatch(line) for line in text.splitlines()), text
    metrics = series(text)
    assert metrics["taut_up"] == 1
    assert metrics[f'taut_peer_path{{peer="{two.name}",kind="direct"}}'] == 1
    assert metrics[f'taut_peer_path{{peer="{two.name}",kind="none"}}'] == 0
    assert metrics[f'taut_peer_sent_bytes_total{{peer="{two.name}",way="direct"}}'] > 0
    assert metrics[f'taut_peer_handshakes_total{{peer="{two.name}"}}'] >= 1
    assert metrics["taut_tun_mtu_bytes"] >= 1280 and metrics["taut_lanes"] == 1
    assert metrics[f'taut_peer_lanes{{peer="{two.name}"}}'] == 1
    assert 0 < metrics[f'taut_peer_round_trip_seconds{{peer="{two.name}"}}'] < 60
    status = one.status()
    assert status["self"]["node_key"] not in text, "the metrics contain no key"


def test_a_prometheus_gets_the_same_over_http(layout):
    node = layout(nodes=1).nodes[0]
    node.start("--metrics", str(PORT))
    answer = fetch(node.host, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
    # Text mode converts the line ends.
    head, _, body = answer.partition("\n\n")
    assert head.startswith("HTTP/1.1 200 OK") and "text/plain; version=0.0.4" in head
    assert series(body)["taut_up"] == 0, "not a member of any network yet"
    assert fetch(node.host, "GET / HTTP/1.1\r\n\r\n").startswith("HTTP/1.1 404 ")
    assert fetch(node.host, "POST /metrics HTTP/1.1\r\n\r\n").startswith("HTTP/1.1 405 ")
    assert not node.host.run("bash", "-c", f"echo > /dev/tcp/{node.host.ipv4}/{PORT}", check=False).returncode == 0, "loopback only"


def test_a_port_in_use_is_reported_at_the_start(layout):
    node = layout(nodes=1).nodes[0]
    node.start("--metrics", str(PORT))
    state = ("--state", node.host.state / "other", "--socket", node.host.state / "other.sock")
    other = node.host.run(binary("taut"), "daemon", *state, "--metrics", str(PORT), check=False)
    assert other.returncode == 1 and "--metrics" in other.stderr and str(PORT) in other.stderr
