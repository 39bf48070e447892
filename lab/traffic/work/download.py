"""A download as package managers do it: hundreds of small files and some large ones, one after the other over one connection (HTTP/1.1, TLS).

The server is Apache, which Debian packages as a bare program (apache2-bin); the package of nginx would start a server on port 80 of the machine. The
client is curl. The downloaded data is the same in every run and not compressible.
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
from .base import CpuMeter, Work, program

MODULES = Path("/usr/lib/apache2/modules")
# Bytes of a small file, minimum and maximum: indexes and descriptions.
SMALL = (500, 20_000)
# Lowest rate in bytes per second before the work counts as hopeless. Each file takes at least a round trip.
_LEAST_RATE = 50_000


@dataclass(frozen=True)
class Load:
    """Amount of downloaded data."""

    small: int
    large: int
    # Bytes of each large file.
    size: int

    def sizes(self):
        """Returns the sizes of all files in order: the same every time."""
        dice = random.Random(1)
        sizes = [dice.randint(*SMALL) for _ in range(self.small)] + [self.size] * self.large
        dice.shuffle(sizes)
        return sizes


QUICK = Load(small=200, large=2, size=2_000_000)
FULL = Load(small=400, large=5, size=10_000_000)


class Download(Work):
    """A download from the second host to the first: the time of all files together, including the one connection and its handshakes."""

    name, title = "download", "download of many files, HTTPS"
    main, better = "took_s", "less"
    programs = ("apache2", "curl", "openssl", "ss")

    def load(self, quick):
        return QUICK if quick else FULL

    def seconds(self, quick):
        return 2 if quick else 4

    def takes(self, quick, link):
        """The server is the second host, so its data goes to the left. Each file waits for a round trip."""
        sizes = self.load(quick).sizes()
        return self.seconds(quick) + len(sizes) * link.round_trip_ms / 1e3 + 8 * sum(sizes) / estimate.stream_bps(link, "left")

    def figures(self, site, running, quick):
        client, server = site.hosts[:2]
        sizes = self.load(quick).sizes()
        address, port = running.addresses[1], client.lab.free_port()
        with web(server, address, port, sizes) as directory:
            spent = CpuMeter(running)
            report = _fetch(client, directory, f"https://{address}:{port}", sizes)
            return download_figures(report, sizes) | spent.per_gb(sum(sizes))


@contextlib.contextmanager
def web(host, address, port, sizes):
    """Runs Apache in `host` with files of these sizes, named 0, 1, …; yields a directory with its certificate, `certificate.pem`."""
    # Next to the directories of the hosts, which only root may enter. The next lab removes what a crash leaves here.
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
    """Writes the files, readable for the unprivileged workers of Apache whatever the umask of the caller."""
    files = directory / "files"
    files.mkdir()
    for number, size in enumerate(sizes):
        (files / str(number)).write_bytes(os.urandom(size))
    for path in (directory, files, *files.iterdir()):
        path.chmod(0o644 if path.is_file() else 0o755)


def configuration(directory, address, port):
    """Returns the configuration of Apache: one site, TLS 1.3, connections that stay open as long as the client wants."""
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
    """Makes a self-signed certificate for the address."""
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
    """Returns the output of curl for each file."""
    list_ = directory / "curl.conf"
    list_.write_text(wanted(directory, url, len(sizes)))
    # -q: curl ignores the configuration of the caller.
    return host.run("curl", "-q", "--config", list_, timeout=PATIENCE_S + sum(sizes) / _LEAST_RATE).stdout


def wanted(directory, url, count):
    """Returns the configuration of curl: all files over one connection, and for each a line with size and times."""
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


def download_figures(report, sizes):
    """Returns the time of the whole download, and the time until each file began."""
    lines = [line.split() for line in report.splitlines()]
    came = [(line[0], int(line[1])) for line in lines]
    if came != [("200", size) for size in sizes]:
        wrong = sum(one != ("200", size) for one, size in zip(came, sizes))
        raise LabError(f"{len(came)} of {len(sizes)} files arrived, {wrong} of them with a wrong status or size")
    took = sum(float(line[4]) for line in lines)
    return {
        "took_s": round(took, 3),
        "mbps": round(8 * sum(sizes) / took / 1e6, 2),
        "files": len(sizes),
        "connections": sum(int(line[2]) for line in lines),
        "first_byte_p50_ms": round(1000 * quantile([float(line[3]) for line in lines], 0.5), 3),
    }
