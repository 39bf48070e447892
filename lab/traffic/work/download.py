"""A download as package managers do it: hundreds of small files and some large ones over one connection, one after the other (HTTP/1.1, TLS).

The server is Apache, which Debian has as a program alone (apache2-bin): what would be installed with nginx begins to serve the machine's own
port 80. The client is curl. What is downloaded is the same for everybody, and is not compressible.
"""

import contextlib
import os
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ...hosts.wait import PATIENCE_S, LabError, wait_until
from ...measure.quantile import quantile
from . import estimate
from .base import Spent, Work, program

MODULES = Path("/usr/lib/apache2/modules")
# Bytes of a small file, at least and at most: indexes and descriptions.
SMALL = (500, 20_000)
# A round trip is the least that each file takes; below this rate (bytes per second) the work is hopeless.
_LEAST_RATE = 50_000


@dataclass(frozen=True)
class Load:
    """How much is downloaded."""

    small: int
    large: int
    # Bytes of each of the large ones.
    size: int

    def sizes(self):
        """Of all files, in their order: the same every time."""
        dice = random.Random(1)
        sizes = [dice.randint(*SMALL) for _ in range(self.small)] + [self.size] * self.large
        dice.shuffle(sizes)
        return sizes


QUICK = Load(small=200, large=2, size=2_000_000)
FULL = Load(small=400, large=5, size=10_000_000)


class Download(Work):
    """From the second host to the first; the time of all files together, the one connection and its handshakes included."""

    name, title = "download", "download of many files, HTTPS"
    main, better = "took_s", "less"
    programs = ("apache2", "curl", "openssl", "ss")

    def load(self, quick):
        return QUICK if quick else FULL

    def seconds(self, quick):
        return 2 if quick else 4

    def takes(self, quick, link):
        """The server is the second host: what it sends goes to the left. A new file waits for a round trip."""
        sizes = self.load(quick).sizes()
        return self.seconds(quick) + len(sizes) * link.round_trip_ms / 1e3 + 8 * sum(sizes) / estimate.stream_bps(link, "left")

    def figures(self, site, running, quick):
        client, server = site.hosts[:2]
        sizes = self.load(quick).sizes()
        address, port = running.addresses[1], client.lab.free_port()
        with web(server, address, port, sizes) as directory:
            spent = Spent(running)
            told = _fetch(client, directory, f"https://{address}:{port}", sizes)
            return download_figures(told, sizes) | spent.per_gb(sum(sizes))


@contextlib.contextmanager
def web(host, address, port, sizes):
    """Apache in `host` with files of these sizes, called 0, 1, …; yields a directory with its certificate, `certificate.pem`."""
    # Beside the hosts' own directories, which only root may enter: what a crash leaves there is removed by the next lab.
    with tempfile.TemporaryDirectory(prefix="files-", dir=host.state.parent) as name:
        directory = Path(name)
        _fill(directory, sizes)
        _certify(host, directory, address)
        config = directory / "apache.conf"
        config.write_text(configuration(directory, address, port))
        with program(host, "apache2", "-d", directory, "-f", config, "-DFOREGROUND", name="apache2") as server:
            _wait_for(host, port, server)
            yield directory


def _fill(directory, sizes):
    """The files. Apache's workers are nobody special, and have to read them whatever the caller's umask is."""
    files = directory / "files"
    files.mkdir()
    for number, size in enumerate(sizes):
        (files / str(number)).write_bytes(os.urandom(size))
    for path in (directory, files, *files.iterdir()):
        path.chmod(0o644 if path.is_file() else 0o755)


def configuration(directory, address, port):
    """What Apache is told: one site, TLS 1.3, connections that stay as long as the client wants."""
    modules = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in ("mpm_event", "authz_core", "ssl"))
    return f"""{modules}
ServerName {address}
Listen {address}:{port}
DefaultRuntimeDir {directory}
PidFile {directory}/pid
Mutex file:{directory} default
ErrorLog /dev/stderr
User www-data
Group www-data
DocumentRoot {directory}/files
KeepAlive On
MaxKeepAliveRequests 0
Timeout 60
SSLEngine on
SSLProtocol TLSv1.3
SSLCertificateFile {directory}/certificate.pem
SSLCertificateKeyFile {directory}/key.pem
"""


def _certify(host, directory, address):
    """A certificate for the address, signed by itself."""
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2)
    name = ("-subj", "/CN=taut-lab", "-addext", f"subjectAltName=IP:{address}")
    files = ("-keyout", directory / "key.pem", "-out", directory / "certificate.pem")
    host.run("openssl", "req", "-x509", *kind, *name, *files)


def _wait_for(host, port, server):
    def there():
        if not server.alive:
            raise LabError(f"apache2 ended with {server.returncode}\n{server.tail()}")
        return host.run("ss", "-Hltn", f"sport = :{port}").stdout.strip()

    wait_until(there, "apache2 to listen", details=server.tail)


def _fetch(host, directory, url, sizes):
    """curl's words on each file."""
    list_ = directory / "curl.conf"
    list_.write_text(wanted(directory, url, len(sizes)))
    # -q: nothing of the caller's own settings.
    return host.run("curl", "-q", "--config", list_, timeout=PATIENCE_S + sum(sizes) / _LEAST_RATE).stdout


def wanted(directory, url, count):
    """What curl is told: all files over one connection, and for each a line of what came and how long it took."""
    options = f"""http1.1
cacert = "{directory}/certificate.pem"
noproxy = "*"
fail
fail-early
silent
show-error
connect-timeout = 20
speed-limit = 1
speed-time = 30
write-out = "%{{http_code}} %{{size_download}} %{{num_connects}} %{{time_starttransfer}} %{{time_total}}\\n"
"""
    return options + "".join(f'url = "{url}/{number}"\noutput = "/dev/null"\n' for number in range(count))


def download_figures(told, sizes):
    """The time that curl needed for everything, and until each file began."""
    lines = [line.split() for line in told.splitlines()]
    came = [(line[0], int(line[1])) for line in lines]
    if came != [("200", size) for size in sizes]:
        wrong = sum(one != ("200", size) for one, size in zip(came, sizes))
        raise LabError(f"{len(came)} of {len(sizes)} files came, {wrong} of them not as they should")
    took = sum(float(line[4]) for line in lines)
    return {
        "took_s": round(took, 3),
        "mbps": round(8 * sum(sizes) / took / 1e6, 2),
        "files": len(sizes),
        "connections": sum(int(line[2]) for line in lines),
        "first_byte_p50_ms": round(1000 * quantile([float(line[3]) for line in lines], 0.5), 3),
    }
