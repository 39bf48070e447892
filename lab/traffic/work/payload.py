"""The largest packet inside a tunnel: measured by what arrives, not read from an interface."""

import json
import sys
from pathlib import Path

from ...hosts.wait import PATIENCE_S, LabError
from .base import Work

_LARGEST = (sys.executable, "-I", str(Path(__file__).with_name("largest_packet.py")))
# Packet size in bytes that every IPv4 host accepts (RFC 791); IPv6 requires 1,280.
LEAST = 576


class Payload(Work):
    """The largest IPv4 packet with DF (must not be fragmented) that reaches the other host, determined with echo requests."""

    name, title = "payload", "largest packet inside"
    main = "payload_bytes"

    def seconds(self, quick):
        return 1

    def takes(self, quick, link):
        # If a router drops silently, half of the tried sizes wait for a timeout.
        return 8 if link.path_mtu else self.seconds(quick)

    def figures(self, site, running, quick):
        sender = site.hosts[0]
        most = int(sender.run("cat", f"/sys/class/net/{running.interface}/mtu").stdout)
        done = sender.run(*_LARGEST, running.addresses[1], LEAST, most, timeout=2 * PATIENCE_S)
        report = json.loads(done.stdout)
        if report["largest"] is None:
            raise LabError(f"not even packets of {LEAST} bytes arrive")
        return {"payload_bytes": report["largest"], "interface_mtu_bytes": most, "sizes_tried": report["tried"]}
