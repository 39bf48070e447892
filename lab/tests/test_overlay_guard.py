"""Overlay addresses on other networks: a neighbour of a node cannot tell what listens at them, and cannot pretend to be a member (fault G11)."""

import sys

from lab.nodes.subnets import PORT, Subnets, seen_as, serve
from lab.traffic.flow import ping

# Prints the sender of each datagram.
_HEAR = (
    "import socket\n"
    "s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM); s.setsockopt(socket.IPPROTO_IPV6,socket.IPV6_V6ONLY,0); s.bind(('::',9999))\n"
    "print('ready',flush=True)\n"
    "while True: d,a=s.recvfrom(99); print(a[0].removeprefix('::ffff:'),d.decode(),flush=True)\n"
)
_SAY = "import socket,sys; s=socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET,socket.SOCK_DGRAM); s.bind((sys.argv[1],0)); s.sendto(sys.argv[3].encode(),(sys.argv[2],9999))"


def test_fault_g11_a_neighbour_learns_nothing_about_an_overlay_address_and_cannot_use_one(lab):
    net = Subnets(lab, sites=1)
    node, peer = net.client, net.routers[0]
    neighbour = lab.host("neighbour", net.outside)
    net.start(node, peer)
    assert ping(peer.host, node.ipv4, count=2)["received"] == 2
    neighbour.ip(f"route add {node.ipv4} via {node.host.ipv4}", f"route add {node.ipv6} via {node.host.addresses[1]}")
    serve(node.host)
    # An open port, a closed one and a ping: none is answered, so none differs.
    for address in (node.ipv4, node.ipv6):
        assert ping(neighbour, address, count=2)["received"] == 0
        for port in (PORT, PORT + 1):
            done = neighbour.run(sys.executable, "-I", "-c", f"import socket; socket.create_connection(('{address}',{port}),timeout=1)", check=False)
            assert "timed out" in done.stderr, done.stderr
    # The host's own programs and members reach them.
    assert seen_as(node.host, node.ipv4) and seen_as(peer.host, node.ipv4)
    # The neighbour sends as a member, to the host's address in its own network; and then as itself.
    hears = node.host.start(sys.executable, "-I", "-c", _HEAR, name="hears")
    hears.wait_for_output("ready")
    neighbour.ip(f"address add {peer.ipv4}/32 dev lo")
    neighbour.run(sys.executable, "-I", "-c", _SAY, peer.ipv4, node.host.ipv4, "forged")
    neighbour.run(sys.executable, "-I", "-c", _SAY, neighbour.ipv4, node.host.ipv4, "own")
    hears.wait_for_output(f"{neighbour.ipv4} own")
    assert "forged" not in hears.output()
    # The rules go with the daemon.
    node.stop()
    assert node.host.run("nft", "list", "ruleset").stdout == ""
