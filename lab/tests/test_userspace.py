"""Nodes without a TUN device and without a right: proxies, forwards out and in, and what they refuse."""

import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from lab.hosts.programs import binary
from lab.hosts.wait import LabError, wait_until
from lab.nodes.taut import answering
from lab.nodes.userspace import USER, UserspaceNode
from lab.tests.test_policy import apply, rules

STREAMS = (shutil.which("python3", path="/usr/bin:/bin"), "-I", str(Path(__file__).parents[1] / "traffic" / "streams.py"))
# Ports of the services in these tests.
SOCKS, HTTP, FORWARD, STREAM = 1080, 8080, 8001, 9000
PROXIES = ("--socks5", SOCKS, "--http-proxy", HTTP)
# Exit codes of curl: a proxy of SOCKS5 refused (97), an HTTP proxy answered with an error (22).
SOCKS_REFUSED, HTTP_REFUSED = 97, 22
# Longest time until a client learns that a node does not answer, in seconds: three times what the proxy waits.
BOUND_S = 30


@pytest.fixture
def without_tun():
    """Returns a function that makes nodes without a TUN device; removes their files."""
    made = []

    def make(host, *services, **more):
        made.append(UserspaceNode(host, *services, **more))
        return made[-1]

    yield make
    for node in made:
        node.close()


@pytest.fixture
def page():
    """A folder with a file, which every user may read."""
    folder = Path(tempfile.mkdtemp(prefix="tautlab-page-"))
    folder.chmod(0o755)
    (folder / "page").write_text("the page\n")
    yield folder
    shutil.rmtree(folder)


def serve(host, port, folder):
    """Starts a web server that shows the files of a folder, on IPv4 and IPv6."""
    host.start("/usr/bin/python3", "-m", "http.server", str(port), "--bind", "::", "--directory", folder, name=f"http{port}")
    wait_until(lambda: host.run("curl", "-fsS", "--noproxy", "*", f"http://127.0.0.1:{port}/", check=False).returncode == 0, "the server")


def serve_streams(host, port=STREAM):
    host.start(*STREAMS, "serve", str(port), name=f"streams{port}").wait_for_output("ready")


def send(host, port, size):
    """Sends a stream to a local port and takes one back; returns what the client saw."""
    return json.loads(host.run(*STREAMS, "send", "127.0.0.1", port, size, timeout=120).stdout)


def fetch(host, url, *options, most=BOUND_S):
    """Fetches a page; returns curl's exit code, and the page or curl's message."""
    done = host.run("curl", "-sS", "-f", "--noproxy", "", "--max-time", most, *options, url, check=False, timeout=most + 10)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


def socks(host, url, **more):
    return fetch(host, url, "--socks5-hostname", f"127.0.0.1:{SOCKS}", **more)


def http(host, url, *options, **more):
    return fetch(host, url, "--proxy", f"http://127.0.0.1:{HTTP}", *options, **more)


def join(net, *nodes):
    net.nodes[: len(nodes)] = nodes
    net.coordinator.start()
    net.join(*net.nodes)
    net.wait_for_maps()


def serving(node):
    """Waits until the services of a node are there; returns them."""
    return node.wait_for(lambda status: status["userspace"] and status["userspace"]["services"], "its services")["userspace"]


def test_a_user_without_rights_joins_is_direct_and_reaches_and_is_reached(layout, without_tun, page):
    net = layout(nodes=2)
    one, two = net.nodes
    user = without_tun(one.host, *PROXIES, "--forward", f"{FORWARD}=node2:8000", "--publish", "80=8888")
    before = one.host.network_state(), one.host.hidden_state()
    join(net, user)
    two.ping_until_direct("node1")
    assert Path(f"/proc/{user.process.pid}/status").read_text().split("CapEff:\t")[1][:16] == "0" * 16
    services = serving(user)
    assert [(service["service"], service["problem"]) for service in services["services"]] == [("socks5", None), ("http-proxy", None), ("forward", None), ("publish", None)]
    serve(two.host, 8000, page)
    serve(one.host, 8888, page)
    zone = user.status()["self"]["names"]["domain"]
    for name in ("node2", "NODE2", f"node2.{zone}", two.ipv4, f"[{two.ipv6}]"):
        assert socks(one.host, f"http://{name}:8000/page") == (0, "the page\n"), name
        assert http(one.host, f"http://{name}:8000/page") == (0, "the page\n"), name
        assert http(one.host, f"http://{name}:8000/page", "--proxytunnel") == (0, "the page\n"), name
    assert fetch(one.host, f"http://127.0.0.1:{FORWARD}/page") == (0, "the page\n")
    for address in (user.ipv4, f"[{user.ipv6}]"):
        assert fetch(two.host, f"http://{address}/page") == (0, "the page\n")
    # A port that is not published, and one whose program does not run, are refused and not silent.
    assert fetch(two.host, f"http://{user.ipv4}:81/")[0] == 7
    shown = user.taut("status").stdout
    assert f"SOCKS5        127.0.0.1:{SOCKS}" in shown and "port 80 to 127.0.0.1:8888" in shown, shown
    assert (one.host.network_state(), one.host.hidden_state()) == before, "nothing of the host is changed"
    helper = user.helper
    rights = dict(line.split(":\t", 1) for line in Path(f"/proc/{helper}/status").read_text().splitlines() if ":\t" in line)
    assert (rights["Seccomp"], rights["NoNewPrivs"], int(rights["CapPrm"], 16)) == ("2", "1", 0)
    assert user.stop() == 0
    wait_until(lambda: not Path(f"/proc/{helper}").exists(), "the program to end with the daemon")


def test_a_proxy_leads_nowhere_else_and_says_why_not(layout, without_tun, page):
    net = layout(nodes=2)
    one, two = net.nodes
    user = without_tun(one.host, *PROXIES, "--publish", "80=8889")
    join(net, user)
    serving(user)
    serve(two.host, 8000, page)
    assert socks(one.host, "http://node2:8000/page")[0] == 0
    # The host's own loopback address, the network under the overlay, the internet, and a name that the network does not have.
    outside = net.coordinator.address
    serve(net.coordinator.host, 8000, page)
    assert fetch(one.host, f"http://{outside}:8000/page")[0] == 0, "without the proxy it is there"
    for place, code, status in (
        (outside, "2", 403), ("127.0.0.1", "2", 403), ("192.0.2.1", "2", 403), ("[2001:db8::1]", "2", 403), ("no-such-node", "4", 502), ("example.com", "4", 502), ("node2", "5", 502)):
        port = 8000 if place == outside else 9
        result, message = socks(one.host, f"http://{place}:{port}/page")
        assert result == SOCKS_REFUSED and f"({code})" in message, (place, message)
        result, message = http(one.host, f"http://{place}:{port}/page")
        assert result == HTTP_REFUSED and str(status) in message, (place, message)
        result, message = http(one.host, f"http://{place}:{port}/page", "--proxytunnel")
        assert result == HTTP_REFUSED and str(status) in message, (place, message)
    refused = one.host.run("curl", "-sS", "--proxy", f"http://127.0.0.1:{HTTP}", "http://192.0.2.1/").stdout
    assert "outside of the overlay" in refused
    # A published port whose program does not run is refused, as without a proxy.
    assert fetch(two.host, f"http://{user.ipv4}/")[0] == 7


def test_a_node_that_is_away_or_forbids_it_gives_an_answer_within_a_bound(layout, without_tun, page, tmp_path):
    net = layout(nodes=3)
    one, two, three = net.nodes
    user = without_tun(one.host, *PROXIES)
    join(net, user)
    serving(user)
    for node in (two, three):
        serve(node.host, 8000, page)
        assert socks(one.host, f"http://{node.name}:8000/page")[0] == 0
    for node, tag in zip(net.nodes, ("tag:web", "tag:db", "tag:other"), strict=True):
        net.coordinator.cli("devices", "tag", node.name, tag)
    apply(net, tmp_path, rules(("tag:web", "tag:db:8001"), ("tag:web", "tag:other:*")))
    wait_until(lambda: two.taut("log").stdout.count("filter-changed") > 1, "the policy to be in force")
    result, message = socks(one.host, "http://node2:8000/page")
    assert result == SOCKS_REFUSED and "(4)" in message, message
    three.kill()
    result, message = socks(one.host, "http://node3:8000/page")
    assert result == SOCKS_REFUSED and "(4)" in message, message
    result, message = http(one.host, "http://node3:8000/page", "--proxytunnel")
    assert result == HTTP_REFUSED and "504" in message, message


def test_streams_between_two_such_nodes_are_whole_in_both_directions(layout, without_tun):
    net = layout(nodes=2)
    one, two = net.nodes
    first = without_tun(one.host, "--forward", f"{FORWARD}=node2:{STREAM}", "--forward", f"{FORWARD + 1}=[::1]:1,{FORWARD + 2}=node2:{STREAM + 1}", "--publish", f"{STREAM}={STREAM}")
    second = without_tun(two.host, "--forward", f"{FORWARD}=node1:{STREAM}", "--publish", f"{STREAM}={STREAM},{STREAM + 1}=[::1]:{STREAM}")
    join(net, first, second)
    serving(first), serving(second)
    for host in (one.host, two.host):
        serve_streams(host)
    for host, port in ((one.host, FORWARD), (two.host, FORWARD), (one.host, FORWARD + 2)):
        # The client ends its direction first, and the answer follows on the half that is open.
        assert send(host, port, 5_000_000)["whole"]
    assert send(one.host, FORWARD, 1)["whole"] and send(one.host, FORWARD, 0)["whole"]
    first.wait_for(lambda status: status["userspace"]["connections"] == 0, "all connections to be over")
    assert first.peer("node2")["path"]["kind"] == "direct"


def test_a_program_that_ends_is_started_again(layout, without_tun, page):
    net = layout(nodes=2)
    one, two = net.nodes
    user = without_tun(one.host, *PROXIES)
    join(net, user)
    serving(user)
    serve(two.host, 8000, page)
    assert socks(one.host, "http://node2:8000/page")[0] == 0
    former = user.helper
    os.kill(former, signal.SIGKILL)
    wait_until(lambda: user.helper not in (None, former), "another program")
    wait_until(lambda: socks(one.host, "http://node2:8000/page")[0] == 0, "the proxy to work again")
    assert "userspace-ended" in user.taut("log").stdout
    # Settings of the services: refused if they are wrong, and in force at the next start.
    assert "give each local port once" in user.taut("set", "--forward", "1=a:1,1=b:1", check=False).stderr
    user.taut("set", "--forward", f"{FORWARD}=node2:8000")
    user.taut("down")
    user.up()
    serving(user)
    wait_until(lambda: fetch(one.host, f"http://127.0.0.1:{FORWARD}/page")[0] == 0, "the forward")


def test_commands_after_the_first_find_that_the_network_is_a_userspace_one(layout, without_tun):
    net = layout(nodes=1)
    host = net.nodes[0].host
    user = without_tun(host)
    command = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", binary("taut"))
    places = ("--state", user.state, "--socket", user.socket)

    def run(*words):
        return host.run(*command, *words, *places[: 4 if words[0] != "down" else 0], *(("--socket", user.socket) if words[0] == "down" else ()), check=False)

    net.coordinator.start()
    missing = run("up", "--join", net.coordinator.join_token)
    assert missing.returncode == 1 and "`--tun userspace`" in missing.stderr, "nobody chose a userspace network yet"
    assert run("up", "--tun", "userspace", "--join", net.coordinator.join_token).returncode == 0
    assert run("down").returncode == 0
    again = run("up")
    assert again.returncode == 0 and "had a userspace network" in again.stderr, again
    assert user.status()["userspace"] is not None
    assert run("down").returncode == 0
    left = run("leave")
    assert left.returncode == 0 and not (user.state / "identity.json").exists(), left
    assert json.loads(net.coordinator.cli("nodes", "list", "--json").stdout)["nodes"] == []
    assert run("up", "--join", net.coordinator.join_token).returncode == 1, "a node that left chose nothing"


def test_what_needs_a_device_is_refused_and_what_is_missing_is_named(layout, without_tun):
    net = layout(nodes=2)
    host = net.nodes[0].host
    user = without_tun(host, "--socks5", f"0.0.0.0:{SOCKS}", "--http-proxy", 1)
    for words in (("--kill-switch",), ("--exit-node", "auto"), ("--advertise-routes", "192.168.7.0/24")):
        with pytest.raises(LabError, match="needs a TUN device"):
            user.start(*words)
    with pytest.raises(LabError, match="is a service of the userspace network"):
        net.nodes[0].start("--socks5", SOCKS)
    join(net, user)
    warnings = user.wait_for(lambda status: len(status["warnings"]) == 2, "warnings")["warnings"]
    assert f"0.0.0.0:{SOCKS} can be reached from outside" in warnings[0]["message"], warnings
    assert "is for root alone" in warnings[1]["message"], warnings
    assert "needs a TUN device" in user.taut("set", "--kill-switch", check=False).stderr
    refused = user.taut("ping", net.nodes[1].name, check=False).stderr
    assert "sends no echo requests" in refused and "taut why" in refused, refused
    user.stop()
    # The daemon alone, without the program beside it.
    alone = Path(tempfile.mkdtemp(prefix="tautlab-alone-"))
    try:
        alone.chmod(0o755)
        shutil.copy(binary("taut"), alone / "taut")
        daemon = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "/usr/bin/env", "PATH=/nowhere", alone / "taut", "daemon")
        user.process = host.start(*daemon, "--tun", "userspace", "--state", user.state, "--socket", user.socket, name="alone")
        wait_until(lambda: answering(user.socket), "the daemon to answer")
        problem = user.wait_for(lambda status: status["problem"], "a problem")["problem"]
        assert "taut-userspace" in problem["message"] and "install the package" in problem["hint"]
    finally:
        shutil.rmtree(alone)


def test_fault_p5_one_client_of_a_proxy_leaves_places_for_others(layout, without_tun):
    net = layout(nodes=2)
    one, two = net.nodes
    user = without_tun(one.host, "--forward", f"{FORWARD}=node2:{STREAM}", "--publish", f"{STREAM}={STREAM}")
    join(net, user)
    serving(user)
    serve_streams(one.host)
    two.ping_until_direct("node1")
    # Programs of this host are one client: they hold as many connections as they may, and one more is closed at once.
    hold = f"import socket,sys; held=[socket.create_connection(('127.0.0.1',{SOCKS}),timeout=20) for _ in range(%d)]; print('held',flush=True); sys.stdin.read()"
    user.stop()
    user.services = ("--socks5", SOCKS, *user.services)
    user.start()
    serving(user)
    one.host.start("/usr/bin/python3", "-c", hold % 256, name="hold").wait_for_output("held")
    user.wait_for(lambda status: status["userspace"]["connections"] == 256, "all places of the client to be taken")
    over = "import socket; s=socket.create_connection(('127.0.0.1',%d),timeout=20); print(s.recv(9))" % SOCKS
    assert one.host.run("/usr/bin/python3", "-c", over).stdout == "b'\\x05\\xff'\n"
    user.wait_for(lambda status: status["userspace"]["over_limit"] == 1, "the refusal to be counted")
    # A peer is another client.
    two.host.run(*STREAMS, "send", user.ipv4, STREAM, 100_000)
