"""Pebble, the ACME server that Let's Encrypt makes for tests, with the DNS server that its checks ask."""

import json

from ..hosts.wait import wait_until
from . import versions

PORT, MANAGEMENT_PORT, DNS_PORT, DNS_MANAGEMENT_PORT = 14000, 15000, 8053, 8055
# Percentage of nonces that it refuses; clients have to try again with another one.
REFUSED_NONCES = 20


def missing():
    """Returns why Pebble cannot be run, or an empty string."""
    return versions.lacking("pebble", "pebble", "pebble-challtestsrv") or ""


class Pebble:
    """An ACME server in `host`, whose own https certificate is of `authority`. All names lead to `address`. `life` is that of its certificates, in seconds."""

    def __init__(self, host, authority, address, life=90 * 24 * 3600):
        self.host = host
        certificate, key = host.state / "pebble.pem", host.state / "pebble.key"
        authority.issue(certificate, key, host.ipv4)
        settings = {
            "listenAddress": f"{host.ipv4}:{PORT}",
            "managementListenAddress": f"{host.ipv4}:{MANAGEMENT_PORT}",
            "certificate": str(certificate),
            "privateKey": str(key),
            "httpPort": 80,
            "tlsPort": 443,
            "retryAfter": {"authz": 1, "order": 1},
            "profiles": {"default": {"description": "for tests", "validityPeriod": life}},
        }
        self.settings = host.state / "pebble.json"
        self.settings.write_text(json.dumps({"pebble": settings}))
        self.address = address
        self.process = None

    @property
    def directory(self):
        return f"https://{self.host.ipv4}:{PORT}/dir"

    def start(self):
        """Starts both servers and waits until they listen."""
        off = [word for name in ("http01", "https01", "tlsalpn01", "doh") for word in (f"-{name}", "")]
        names = ("-dnsserver", f"{self.host.ipv4}:{DNS_PORT}")
        dns = ("-dns01", f"{self.host.ipv4}:{DNS_PORT}", "-management", f"{self.host.ipv4}:{DNS_MANAGEMENT_PORT}")
        self.host.start(versions.peer("pebble", "pebble-challtestsrv"), *off, *dns, "-defaultIPv4", self.address, "-defaultIPv6", "", name="dns")
        env = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": str(REFUSED_NONCES)}
        self.process = self.host.start(versions.peer("pebble", "pebble"), "-config", self.settings, *names, name="pebble", env=env)
        # Pebble prints that it listens a moment before it does. A coordinator that is refused in between tries again minutes later.
        wait_until(self._listen, "Pebble and its DNS server to listen", details=self.process.tail)
        return self

    def _listen(self):
        listening = self.host.run("ss", "-Hltn").stdout
        return all(f":{port} " in listening for port in (PORT, DNS_PORT))
