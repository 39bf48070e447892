"""`taut set`: settings of a running daemon, kept for the next one, and the order of what may give them."""

import json
import time

from lab.hosts.wait import wait_until
from lab.traffic.flow import PingStream, ping

# Pings before and after the changes, in seconds.
AROUND_S = 1.0


def settings(node, *words):
    """Runs `taut set`, and returns the settings as {name: (value, origin)}, with the names of those that wait."""
    listed = json.loads(node.taut("set", *words, "--json").stdout)["settings"]
    return {one["name"]: (one["value"], one["origin"]) for one in listed}, {one["name"] for one in listed if one["waits"]}


def refused(node, *words):
    done = node.taut("set", *words, check=False)
    assert done.returncode == 1, done
    return done.stderr


def metrics(node, port):
    return node.host.run("curl", "-fsS", "--noproxy", "*", f"http://127.0.0.1:{port}/metrics", check=False).stdout


def test_settings_change_without_a_lost_packet_and_are_kept(mesh):
    one, two = mesh(nodes=2).nodes
    one.ping_until_direct(two.name)
    stream = PingStream(one.host, two.ipv4, 0.02)
    time.sleep(AROUND_S)
    changed = settings(one, "--log-level", "debug", "--portmap=false", "--metrics", "9288", "--lanes", "2", "--rotate-key-every", "30d")
    assert changed[0]["portmap"] == ("false", "set") and changed[0]["metrics"] == ("127.0.0.1:9288", "set")
    assert changed[1] == {"lanes"}
    assert one.status()["port_mapping"] is None and "taut_info" in metrics(one, 9288)
    # Another port: the former one is closed.
    settings(one, "--metrics", "9289")
    assert "taut_info" in metrics(one, 9289) and not metrics(one, 9288)
    time.sleep(AROUND_S)
    seen = stream.finish()
    # The last requests may still be under way.
    assert len(seen["answered"]) > 50 and not [at for at in seen["unanswered"] if at < seen["ended"] - AROUND_S / 2]
    assert "setting-changed" in one.taut("log").stdout
    # What belongs to the threads takes effect when the network starts again.
    assert len(one.status()["self"]["lanes"]["ports"]) == 1
    one.taut("down")
    one.up()
    assert len(one.status()["self"]["lanes"]["ports"]) == 2 and not settings(one)[1]
    # The next daemon has them, too, also after kill -9.
    one.restart(kill=True)
    assert settings(one)[0]["lanes"] == ("2", "set") and "taut_info" in metrics(one, 9289)
    assert settings(one, "--default", "lanes", "--default", "metrics")[0]["lanes"] == ("auto", None)
    assert not metrics(one, 9289)


def test_a_host_without_a_network_keeps_its_settings_before_and_after_membership(layout):
    net = layout(nodes=1)
    [node] = net.nodes
    node.start()
    settings(node, "--accept-routes")
    node.kill()
    node.start()
    assert settings(node)[0]["accept-routes"] == ("true", "set")
    net.coordinator.start()
    node.up(net.coordinator.join_token)
    node.taut("leave")
    settings(node, "--log-level", "debug")
    node.kill()
    node.start()
    assert settings(node)[0]["log-level"] == ("debug", "set")


def test_flags_hold_before_the_environment_before_set_before_the_file(layout):
    net = layout(nodes=1)
    [node] = net.nodes
    net.coordinator.start()
    file = node.host.state / "taut.toml"
    file.write_text('# of this host\nlanes = 3\nsearch-sockets = 7\nmtu = 1300\nlog-level = "warn"\n')
    node.env |= {"TAUT_MTU": "1400", "TAUT_LOG_LEVEL": "error"}
    node.start("--config", file, "--log-level", "debug")
    node.up(net.coordinator.join_token)
    before = settings(node)[0]
    assert [before[name] for name in ("lanes", "mtu", "log-level", "ecn")] == [("3", "file"), ("1400", "environment"), ("debug", "flag"), ("true", None)]
    assert settings(node, "--lanes", "2")[0]["lanes"] == ("2", "set")
    assert "TAUT_MTU" in refused(node, "--lanes", "1", "--mtu", "1280") and settings(node)[0]["lanes"] == ("2", "set"), "all or none"
    assert "flag --log-level" in refused(node, "--log-level", "info")
    assert settings(node, "--default", "lanes")[0]["lanes"] == ("3", "file")
    # A port that another program has: nothing changes.
    holder = node.host.start("python3", "-c", "import socket; s = socket.create_server(('127.0.0.1', 9300)); print('ready', flush=True); input()", name="holder")
    holder.wait_for_output("ready")
    assert "9300" in refused(node, "--metrics", "9300", "--lanes", "1") and settings(node)[0]["lanes"] == ("3", "file")
    # Settings are the host's: they stay when the membership ends.
    settings(node, "--search-sockets", "9")
    node.taut("leave")
    wait_until(lambda: node.status()["state"] == "needs-join", "the end of the membership")
    node.stop()
    file.write_text("lanes = 3\nlane = 4\n")
    process = node.host.start(*node.process.argv[4:], name="wrong", env=node.env)
    assert process.wait() == 1 and "line 2, column 1: there is no setting `lane`; did you mean `lanes`?" in process.err.read_text(), process.tail()
    file.write_text("")
    node.start("--config", file)
    assert settings(node)[0]["search-sockets"] == ("9", "set")


def test_routes_and_names_are_switched_while_packets_flow(mesh):
    net = mesh(nodes=2)
    router, client = net.nodes
    lan = "10.99.0.0/24"
    router.host.ip("link add lan0 type bridge", "address add 10.99.0.1/24 dev lan0", "link set lan0 up")
    client.ping_until_direct(router.name)
    stream = PingStream(client.host, router.ipv4, 0.02)
    settings(router, "--advertise-routes", lan)
    assert router.status()["routes"]["advertised"][0]["approved"] is False
    wait_until(lambda: lan in net.coordinator.cli("routes", "list").stdout, "the coordinator to know the route")
    net.coordinator.cli("routes", "approve", router.name, lan)
    settings(client, "--accept-routes")
    client.wait_for(lambda status: status["routes"]["peers"] and status["routes"]["peers"][0]["via"] == router.name, "the route to be used")
    wait_until(lambda: ping(client.host, "10.99.0.1", count=2)["received"] == 2, "the subnet to answer")
    settings(client, "--accept-routes=false")
    assert "10.99.0.0" not in client.host.run("ip", "route").stdout
    settings(router, "--default", "advertise-routes")
    wait_until(lambda: "_routes" not in router.host.run("nft", "list", "tables").stdout, "the rules to be gone")
    # Names: nothing asks for them here, and nothing breaks.
    assert settings(client, "--dns=false")[0]["dns"] == ("false", "set")
    seen = stream.finish()
    assert not [at for at in seen["unanswered"] if at < seen["ended"] - AROUND_S / 2]
