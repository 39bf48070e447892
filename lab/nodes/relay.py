"""A standalone relay in a host: the program `taut-relay`, registered with the coordinator."""

import json

from ..hosts.programs import binary

PORT, STUN_PORT = 3478, 3479
WEB_PORT = 443
METRICS = "127.0.0.1:9478"


class Relay:
    """A relay in `host` for the nodes of `coordinator`, named after the host; with `web` also over WebSocket and TLS. `release` as in `Coordinator`."""

    def __init__(self, host, coordinator, web=False, release=None, env=None):
        self.host = host
        self.env = env
        self.release = release
        self.web = web
        self.coordinator = coordinator
        self.process = None
        self._coordinator = None

    def start(self, *options):
        """Starts the relay. The first start registers it with the coordinator; later ones do not need the coordinator."""
        file = self.host.state / "relay.key"
        first = self._coordinator is None
        if first:
            self._coordinator = self._named()
        words = ["--listen", PORT, "--stun-port", STUN_PORT, *self._coordinator, "--key", file, "--metrics", METRICS, *options]
        if self.web:
            certificate, key = self._certified()
            words += ["--web", f"0.0.0.0:{WEB_PORT}", "--web-cert", certificate, "--web-key", key]
        self.process = self.host.start(binary("taut-relay", self.release), "serve", *words, name="relay", env=self.env)
        self.process.wait_for_output("relay ")
        if first:
            key = self.host.run(binary("taut-relay", self.release), "key", "--key", file).stdout.strip()
            web = ["--web", f"wss://{self.host.ipv4}:{WEB_PORT}/relay"] if self.web else []
            self.coordinator.cli("relays", "add", self.host.name, key, f"{self.host.ipv4}:{PORT}", "--stun-port", STUN_PORT, *web)
        return self

    def _named(self):
        """Options that name the coordinator."""
        # No earlier release has channels between relays and coordinators.
        if self.release or self.coordinator.release:
            return ["--trust", self.coordinator.cli("ticket-key").stdout.strip()]
        return ["--coordinator", self.coordinator.cli("relay-token").stdout.strip()]

    def status(self):
        """The relay's counters."""
        return json.loads(self.host.run(binary("taut-relay", self.release), "status", "--metrics", METRICS, "--json").stdout)

    def _certified(self):
        """Makes a self-signed certificate and its key once; returns the two files."""
        certificate, key = self.host.state / "relay-cert.pem", self.host.state / "relay-web.pem"
        if not certificate.exists():
            kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2)
            self.host.run("openssl", "req", "-x509", *kind, "-subj", "/CN=taut-lab", "-keyout", key, "-out", certificate)
        return certificate, key

    def stop(self):
        return self.process.stop()

    def kill(self):
        return self.process.kill()
