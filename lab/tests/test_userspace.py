"""Nodes without a TUN device and without a right: proxies, forwards out and in, and what they refuse."""

import pytest

from lab.hosts.wait import wait_until
from lab.nodes.userspace import UserspaceNode


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


def serve(host, port, folder):
    """Starts a web server that shows the files of a folder."""
    server = host.start("/usr/bin/python3", "-m", "http.server", str(port), "--directory", folder, name=f"http{port}")
    wait_until(lambda: host.run("curl", "-fsS", "--noproxy", "*", f"http://127.0.0.1:{port}/", check=False).returncode == 0, "the server")
    return server


def test_a_user_without_rights_joins_is_direct_and_forwards_streams(layout, without_tun, tmp_path):
    net = layout(nodes=2)
    one, two = net.nodes
    net.coordinator.start()
    user = net.nodes[0] = without_tun(one.host, "--forward", "8001=node2:8000", "--publish", "80=8080")
    net.join(user, two)
    net.wait_for_maps()
    two.ping_until_direct("node1")
    (tmp_path / "page").write_bytes(bytes(range(256)) * 20_000)
    serve(two.host, 8000, tmp_path)
    serve(one.host, 8080, tmp_path)
    for host, url in ((one.host, "http://127.0.0.1:8001/page"), (two.host, f"http://{user.ipv4}/page"), (two.host, f"http://[{user.ipv6}]/page")):
        got = tmp_path / "got"
        host.run("curl", "-fsS", "--noproxy", "*", "-o", got, url)
        assert got.read_bytes() == (tmp_path / "page").read_bytes()
