"""Nebula: a certificate for each host, and a lighthouse in the helper through which they find each other."""

import json

from ..versions import VERSIONS, lacking, peer
from .base import System, begun, fresh, inner, ready

NETWORK, INTERFACE, PORT = 1, "nebula1", 4242
LIGHTHOUSE = f"10.9.{NETWORK}.254"


class Nebula(System):
    name = "nebula"
    title = "Nebula"

    def lacking(self):
        return lacking("nebula", "nebula", "nebula-cert")

    def version(self):
        return VERSIONS["nebula"]

    def start(self, hosts, helper, mtu):
        addresses = [inner(NETWORK, n) for n in range(len(hosts))]
        authority = fresh(helper, "nebula")
        _cert(helper, "ca", "-name", "lab", "-out-crt", authority / "ca.crt", "-out-key", authority / "ca.key")
        _member(helper, authority, helper, LIGHTHOUSE, _lighthouse())
        for host, address in zip(hosts, addresses):
            _member(helper, authority, host, address, _host(helper, mtu))
        beside = _run(helper)
        return ready(hosts, begun(hosts, lambda n: [_run(hosts[n])], addresses, INTERFACE, aside=[beside]))


def _member(helper, authority, host, address, config):
    """Writes the certificate, the key and the configuration of a host (a YAML parser also reads JSON)."""
    own = authority if host is helper else fresh(host, "nebula")
    files = ["-out-crt", own / "host.crt", "-out-key", own / "host.key"]
    signer = ["-ca-crt", authority / "ca.crt", "-ca-key", authority / "ca.key"]
    _cert(helper, "sign", *signer, "-name", host.name, "-networks", f"{address}/24", *files)
    pki = {"ca": str(authority / "ca.crt"), "cert": str(own / "host.crt"), "key": str(own / "host.key")}
    (own / "config.yml").write_text(json.dumps({"pki": pki, **config}, indent=1))


def _lighthouse():
    return _common() | {"lighthouse": {"am_lighthouse": True}, "tun": {"disabled": True}}


def _host(helper, mtu):
    return _common() | {
        "static_host_map": {LIGHTHOUSE: [f"{helper.ipv4}:{PORT}"]},
        "lighthouse": {"hosts": [LIGHTHOUSE]},
        "tun": {"dev": INTERFACE} | ({"mtu": mtu} if mtu else {}),
    }


def _common():
    """Returns settings without a usable default: IPv4 outside, and a firewall that passes everything (without rules it passes nothing)."""
    everything = [{"port": "any", "proto": "any", "host": "any"}]
    return {"listen": {"host": "0.0.0.0", "port": PORT}, "firewall": {"outbound": everything, "inbound": everything}}


def _run(host):
    return host.start(peer("nebula", "nebula"), "-config", host.state / "nebula" / "config.yml", name="nebula")


def _cert(helper, *words):
    helper.run(peer("nebula", "nebula-cert"), *words)
