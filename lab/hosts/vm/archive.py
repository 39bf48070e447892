"""Debian's kernel packages, fetched by apt into a folder below target/. Nothing is installed, and the lists of packages of this machine stay as they are."""

import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ..namespace import call
from ..programs import ROOT
from ..wait import LabError

PLACE = ROOT / "target" / "kernels"
TABLE = Path(__file__).with_name("kernels.toml")
# The shell, `modprobe` and the other programs of the first files that the kernel runs.
BUSYBOX = "busybox-static"
# Time for lists of packages, and for a kernel of 70 MB, from a slow mirror.
FETCH_S = 900


@dataclass
class Kernel:
    """An unpacked kernel: `folder` has boot/ and lib/modules/RELEASE; `version` is that of the package, and `pinned` is false if it is another one than in kernels.toml."""

    series: str
    folder: Path
    version: str
    pinned: bool

    @property
    def release(self):
        return next((self.folder / "lib" / "modules").iterdir()).name

    @property
    def image(self):
        return self.folder / "boot" / f"vmlinuz-{self.release}"


def table():
    """Returns {series: its entry of kernels.toml}."""
    return {entry["series"]: entry for entry in tomllib.loads(TABLE.read_text(encoding="utf-8"))["kernel"]}


def lacking():
    """Returns why no kernel can be fetched here, or an empty string."""
    if platform.machine() != "x86_64":
        return f"the pinned kernels are for x86-64, and this machine is {platform.machine()}"
    missing = next((name for name in ("apt-get", "dpkg-deb") if not shutil.which(name)), None)
    return f"the program {missing} is missing: kernels come from Debian's archive" if missing else ""


def fetch(series):
    """Returns the `Kernel` of a series, which is fetched if it is missing."""
    entry = table().get(series)
    if entry is None:
        raise LabError(f"there is no kernel {series!r}; there are: {', '.join(table())}")
    folder = PLACE / series
    if not (folder / "version").exists():
        _fetch_kernel(entry, folder)
    version = (folder / "version").read_text().strip()
    return Kernel(series, folder, version, version == entry["version"])


def busybox():
    """Returns the path of a static busybox, which is fetched if it is missing."""
    program = PLACE / "busybox" / "bin" / "busybox"
    if not program.exists():
        apt = _Apt("bookworm")
        _unpack(apt.download(BUSYBOX), PLACE / "busybox")
    return program


def _fetch_kernel(entry, folder):
    apt = _Apt(entry["suite"])
    package, version = entry["package"], entry["version"]
    if version not in apt.versions(package):
        package, version = _newest(apt, entry["series"])
        print(f"kernels: the archive has no {entry['package']} {entry['version']} any more; taking {package} {version}", file=sys.stderr)
    file = apt.download(f"{package}={version}")
    if version == entry["version"] and hashlib.sha256(file.read_bytes()).hexdigest() != entry["sha256"]:
        raise LabError(f"{file.name} is not the file that {TABLE.name} pins: its SHA-256 differs")
    _unpack(file, folder)
    kernel = Kernel(entry["series"], folder, version, True)
    # The package makes these files when it is installed.
    call(str(busybox()), "depmod", "-b", str(folder), kernel.release, timeout=FETCH_S)
    (folder / "version").write_text(f"{version}\n")


def _newest(apt, series):
    """Returns (package, version) of the newest kernel of a series."""
    pattern = rf"^linux-image-{re.escape(series)}\.0-[0-9]+-amd64$"
    found = []
    for line in apt.ask("search", "--names-only", pattern).splitlines():
        package = line.split()[0]
        found += [(int(package.split("-")[3]), package, version) for version in apt.versions(package)]
    if not found:
        raise LabError(f"Debian's archive has no kernel {series} any more: name another one in {TABLE.name}")
    return max(found)[1:]


def _unpack(file, folder):
    new = folder.with_name(folder.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    call("dpkg-deb", "--extract", str(file), str(new), timeout=FETCH_S)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    file.unlink()


class _Apt:
    """apt with lists and a cache of its own, for one release of Debian, from the mirror that this machine uses."""

    def __init__(self, suite):
        sys.path.insert(0, str(ROOT / "tools"))
        from shipping import root  # noqa: PLC0415

        main, security = root.mirrors()
        if not main:
            raise LabError("apt of this machine names no mirror of Debian (/etc/apt)")
        self.folder = PLACE / "apt" / suite
        for part in ("lists/partial", "cache/archives/partial"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        signed = f"deb [arch=amd64 signed-by={root.KEYRING}]"
        lines = [f"{signed} {main} {suite} main", *([f"{signed} {security} {suite}-security main"] if security else [])]
        (self.folder / "sources.list").write_text("\n".join(lines) + "\n")
        self._run("apt-get", "-qq", "update")

    def ask(self, *words):
        """Returns what apt-cache prints."""
        return self._run("apt-cache", *words)

    def versions(self, package):
        """Returns the versions of a package that can be had."""
        return [line.split("|")[1].strip() for line in self.ask("madison", package).splitlines()]

    def download(self, package):
        """Fetches a package, which apt checks against the signed list, and returns its file."""
        target = self.folder / "download"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        self._run("apt-get", "-qq", "download", package, cwd=target)
        return next(target.iterdir())

    def _run(self, program, *words, cwd=None):
        settings = {
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::Lists": self.folder / "lists",
            "Dir::State::status": self.folder / "status",
            "Dir::Cache": self.folder / "cache",
            "APT::Sandbox::User": "root",
            "APT::Architecture": "amd64",
            "Acquire::Languages": "none",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        try:
            done = subprocess.run([program, *options, *words], cwd=cwd, capture_output=True, text=True, timeout=FETCH_S, check=False)
        except subprocess.TimeoutExpired:
            raise LabError(f"{program} {' '.join(words)} did not end within {FETCH_S} s") from None
        if done.returncode:
            raise LabError(f"{program} {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout
