"""ICMP errors reach the sender: from beyond a NAT, and through the overlay, whatever path its packets take."""

import sys

import pytest

from lab.hosts import needs
from lab.nodes.local_api import LocalApi

pytestmark = pytest.mark.skipif(bool(needs.missing_reason("nft")), reason=needs.missing_reason("nft"))
# Sends to a closed port until the kernel reports the error to the sender; prints the result.
ASK = """
import ipaddress, socket, sys
address = ipaddress.ip_address(sys.argv[1])
asked = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
asked.settimeout(1)
asked.connect((str(address), 9))
for _ in range(20):
    try:
        asked.send(b"anybody there?")
        asked.recv(100)
    except ConnectionRefusedError:
        print("refused")
        break
    except TimeoutError:
        pass
"""


def asked(host, address):
    return host.run(sys.executable, "-I", "-c", ASK, address).stdout.strip()


def test_fault_i9_an_icmp_error_by_way_of_a_nat_reaches_its_sender(behind):
    world = behind(["port-restricted", "port-restricted"])
    one, two = world.nodes
    # First without the overlay: the router must reverse its translation inside the ICMP error.
    assert asked(one.host, world.servers[0].ipv4) == "refused"
    one.ping_until_direct(two.name)
    for address in (two.ipv4, two.ipv6):
        assert asked(one.host, address) == "refused"
    two.host.nat.black_hole()
    with LocalApi(one) as api:
        assert asked(one.host, two.ipv4) == "refused"
        api.wait_for_path(two.name, "relayed")
    for address in (two.ipv4, two.ipv6):
        assert asked(one.host, address) == "refused"
