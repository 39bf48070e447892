"""HAProxy in front of three coordinators, with the configuration that the project ships."""

from ..hosts.programs import ROOT
from ..hosts.wait import LabError, wait_until
from .taut import PORT

TEMPLATE = ROOT / "dist" / "haproxy" / "taut-coordinator.cfg"
# Addresses of the coordinators in the file.
PLACEHOLDERS = ("10.0.0.11", "10.0.0.12", "10.0.0.13")


class Balancer:
    """HAProxy in `host`, in front of the coordinators at these addresses."""

    def __init__(self, host, addresses):
        self.host = host
        self.process = None
        self._file = host.state / "haproxy.cfg"
        self._file.write_text(configuration(addresses), encoding="utf-8")

    def start(self):
        """Starts it and waits until it listens."""
        self.process = self.host.start("haproxy", "-db", "-f", self._file, name="haproxy")
        wait_until(self._listens, "haproxy to listen", details=self.process.tail, pause=0.02)
        return self

    def kill(self):
        return self.process.kill()

    def _listens(self):
        if not self.process.alive:
            raise LabError(f"haproxy ended\n{self.process.tail()}")
        return f":{PORT} " in self.host.run("ss", "-Hltn").stdout


def configuration(addresses):
    """Returns the shipped file with these addresses in place of its own."""
    text = TEMPLATE.read_text(encoding="utf-8")
    for placeholder, address in zip(PLACEHOLDERS, addresses, strict=True):
        if text.count(placeholder) != 1:
            raise LabError(f"{TEMPLATE} has {placeholder} not exactly once")
        text = text.replace(placeholder, address)
    return text
