"""A standalone relay in a host: the program `taut-relay`, registered with the coordinator."""

from ..hosts.programs import binary

PORT, STUN_PORT = 3478, 3479
WEB_PORT = 443


class Relay:
    """A relay in `host` for the nodes of `coordinator`, named after the host; with `web` also over WebSocket and TLS. `release` as in `Coordinator`."""

    def __init__(self, host, coordinator, web=False, release=None):
        self.host = host
        self.release = release
        self.web = web
        self.coordinator = coordinator
        self.process = None
        self._trust = None

    def start(self, *options):
        """Starts the relay. The first start registers it with the coordinator; later ones do not need the coordinator."""
        file = self.host.state / "relay.key"
        first = self._trust is None
        if first:
            self._trust = self.coordinator.cli("ticket-key").stdout.strip()
        words = ["--listen", PORT, "--stun-port", STUN_PORT, "--trust", self._trust, "--key", file, *options]
        if self.web:
            certificate, key = self._certified()
            words += ["--web", f"0.0.0.0:{WEB_PORT}", "--web-cert", certificate, "--web-key", key]
        self.process = self.host.start(binary("taut-relay", self.release), "serve", *words, name="relay")
        self.process.wait_for_output("relay ")
        if first:
            key = self.host.run(binary("taut-relay", self.release), "key", "--key", file).stdout.strip()
            web = ["--web", f"wss://{self.host.ipv4}:{WEB_PORT}/relay"] if self.web else []
            self.coordinator.cli("relays", "add", self.host.name, key, f"{self.host.ipv4}:{PORT}", "--stun-port", STUN_PORT, *web)
        return self

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
