"""OpenVPN between every two hosts: a tunnel per pair, certificates verified by fingerprint, over UDP.

As in the manual's example with self-signed certificates; keepalive as in its sample configurations. Cipher, MTU and other settings are its defaults.
"""

from ..versions import lacking_package, printed_version
from .base import System, begun, fresh, inner, ready

NETWORK, INTERFACE, PORT = 3, "vpn", 1194
# Interval of keepalives, and silence after which it restarts, in seconds.
PING_S, RESTART_S = 10, 60


class OpenVpn(System):
    name = "openvpn"
    title = "OpenVPN"

    def lacking(self):
        return lacking_package("openvpn", "openvpn") or lacking_package("openssl", "openssl")

    def version(self):
        return printed_version("openvpn", "--version")

    def start(self, hosts, helper, mtu):
        prints = [_certify(host) for host in hosts]

        def begin(n):
            return [_run(hosts, n, m, prints[m], mtu) for m in range(len(hosts)) if m != n]

        # All tunnels of a host have the same address at its end.
        addresses = [inner(NETWORK, n) for n in range(len(hosts))]
        return ready(hosts, begun(hosts, begin, addresses, f"{INTERFACE}0"))


def _certify(host):
    """Makes a key and a certificate; returns the fingerprint of the certificate."""
    own = fresh(host, "openvpn")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1", "-nodes", "-sha256", "-days", 30, "-subj", f"/CN={host.name}"]
    host.run("openssl", "req", "-x509", *kind, "-keyout", own / "key.pem", "-out", own / "cert.pem")
    output = host.run("openssl", "x509", "-fingerprint", "-sha256", "-noout", "-in", own / "cert.pem").stdout
    return output.partition("=")[2].strip()


def _run(hosts, n, m, fingerprint, mtu):
    """Starts the end at host `n` of the tunnel between `n` and `m`. The lower number listens, on a separate port for each caller."""
    own = hosts[n].state / "openvpn"
    if n < m:
        end = ["--tls-server", "--dh", "none", "--lport", PORT + m]
    else:
        end = ["--tls-client", "--nobind", "--remote", hosts[m].ipv4, PORT + n]
    link = ["--dev", f"{INTERFACE}{m - (m > n)}", "--dev-type", "tun", "--ifconfig", inner(NETWORK, n), inner(NETWORK, m)]
    trust = ["--cert", own / "cert.pem", "--key", own / "key.pem", "--peer-fingerprint", fingerprint]
    more = ["--keepalive", PING_S, RESTART_S, *(["--tun-mtu", mtu] if mtu else [])]
    return hosts[n].start("openvpn", "--proto", "udp4", *end, *link, *trust, *more, name=f"openvpn-{m}")
