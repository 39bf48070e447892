"""A host of the lab that boots: a Debian root of its own with the real systemd as process 1, in a host's network namespace.

    with BootedHost(lab.host("web", switch), debian_root("trixie")) as host:
        host.run("systemctl", "status")
        host.reboot()

Changes to the root are in memory and end with the lab; they outlive a reboot. Roots are made once, in target/packages-root, by mmdebstrap.
"""

import shlex
import subprocess
import sys
from pathlib import Path

from .namespace import call
from .programs import ROOT
from .wait import PATIENCE_S, wait_until

# What a root has beside Debian's minimal system.
PACKAGES = ("systemd", "systemd-sysv", "dbus", "iproute2", "iputils-ping", "nftables")
PLACE = ROOT / "target" / "packages-root"
# Time for a boot. It takes seconds; a machine that does other work may need more.
BOOT_S = 3 * PATIENCE_S

# Mounts the root and what a system has in it, and becomes its process 1. The group is a control group of its own: systemd manages the one that it finds itself in.
_BOOT = """
mkdir -p {state}/root {state}/upper {state}/work {state}/groups
mount -t overlay -o lowerdir={lower},upperdir={state}/upper,workdir={state}/work root {state}/root
mount -t cgroup2 groups {state}/groups
mkdir -p {state}/groups/{group}
echo $$ > {state}/groups/{group}/cgroup.procs
exec unshare --cgroup --mount --pid --ipc --uts --fork --kill-child sh -ec '
cd {state}/root
# mmdebstrap left the name of the machine there, and systemd takes it from there.
echo {name} > etc/hostname
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 groups sys/fs/cgroup
mount -t tmpfs -o mode=755 dev dev
for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
    name=${{node%%:*}} numbers=${{node#*:}}
    mknod -m 666 dev/$name c ${{numbers%:*}} ${{numbers#*:}}
done
mkdir dev/net dev/pts dev/shm
# As udev has it: programs of users such as pasta open it.
mknod -m 666 dev/net/tun c 10 200
mount -t devpts -o newinstance,ptmxmode=666,mode=620 pts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t tmpfs -o mode=755 run run
pivot_root . mnt
umount -l /mnt
exec env -i container=lab PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --show-status=false --log-target=journal
'
"""

# Removes the control groups of this name that no process is in, with those inside. Systemd leaves its own.
_TIDY = """
mount -t cgroup2 groups /mnt
cd /mnt
for group in {groups}; do
    {unless} continue
    [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {{}} + 2>/dev/null || echo left
done
"""


def _tidy(groups, unless="false &&"):
    """Removes control groups; returns true if none of them is left. `unless` begins a command of the shell that spares one."""
    return not call("unshare", "--mount", "sh", "-ec", _TIDY.format(groups=groups, unless=unless)).stdout


def missing_reason():
    """Returns why no host can boot here, or an empty string."""
    lacks = [name for name in ("mmdebstrap", "unshare", "pivot_root") if not call("sh", "-c", f"command -v {name}", check=False).stdout]
    if lacks:
        return f"the program {lacks[0]} is missing: apt-get install {'mmdebstrap' if lacks[0] == 'mmdebstrap' else 'util-linux'}"
    return "" if "cgroup2" in Path("/proc/filesystems").read_text() else "this kernel has no control groups of version 2"


def debian_root(suite, *more):
    """Returns the folder of a root of this Debian release, with further packages, which is made if it is missing (minutes)."""
    place = PLACE / "-".join(("host", suite, *more))
    if not place.exists():
        sys.path.insert(0, str(ROOT / "tools"))
        from shipping import root  # noqa: PLC0415

        root.bootstrap(suite, place, (*PACKAGES, *more))
    return place


class BootedHost:
    """A system of its own in the network namespace of `host`."""

    def __init__(self, host, root):
        self.host = host
        self.root = Path(root)
        self.name = host.name
        self.process = None
        self._first = None

    def __enter__(self):
        # Groups of runs that were killed. A running lab has the namespace of that name.
        _tidy("tautlab-*", 'test -e "/run/netns/$group" &&')
        return self.boot()

    def __exit__(self, *_):
        self.process.kill()
        wait_until(lambda: not self.process.alive, f"{self.name} to end")
        # Process 1 has ended, and the kernel still ends what ran in its system.
        wait_until(lambda: _tidy(shlex.quote(self.host.namespace)), f"the control groups of {self.name} to be empty")

    def boot(self):
        """Boots, and waits until systemd has started what it starts."""
        words = {"state": self.host.state, "lower": self.root, "group": self.host.namespace, "name": self.name}
        script = _BOOT.format(**{key: shlex.quote(str(value)) for key, value in words.items()})
        self.process = self.host.start("sh", "-ec", script, name="boot")
        self._first = int(wait_until(self._child, f"process 1 of {self.name}", details=self.process.tail))
        wait_until(self._is_up, f"{self.name} to boot", BOOT_S, self._details)
        return self

    def _child(self):
        """Returns the id of process 1: `unshare` is replaced by nothing, and has one child."""
        if not self.process.alive:
            return None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return children[0] if children and Path(f"/proc/{children[0]}/comm").read_text().strip() == "systemd" else None

    def _is_up(self):
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def _details(self):
        return f"{self.process.tail()}\n{self.run('systemctl', 'list-jobs', check=False).stdout}\n{self.run('journalctl', '--no-pager', '-n', '40', check=False).stdout}"

    def command(self, *argv):
        """Returns the command line that runs a program in the system, from the lab's side."""
        inside = ["nsenter", f"--target={self._first}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]
        return [*inside, "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", *map(str, argv)]

    def run(self, *argv, check=True, timeout=PATIENCE_S):
        """Runs a program to its end and returns its `CompletedProcess`, with output as text."""
        return call(*self.command(*argv), check=check, timeout=timeout)

    def copy(self, file, place):
        """Copies a file into the system."""
        with Path(file).open("rb") as content:
            subprocess.run(self.command("sh", "-c", 'cat > "$0"', place), stdin=content, check=True)

    def shut_down(self, verb="poweroff"):
        """Has systemd stop everything, and waits until the system has ended."""
        self.run("systemctl", "--no-block", verb, check=False)
        wait_until(lambda: not self.process.alive, f"{self.name} to shut down", BOOT_S, self.process.tail)

    def reboot(self):
        """Reboots as `systemctl reboot` does."""
        self.shut_down("reboot")
        return self.boot()

    def files(self):
        """Returns the paths of all files of the system, without those of the kernel."""
        return set(self.run("find", "/", "-xdev", "-not", "-path", "/proc/*").stdout.splitlines()) | set(self.run("find", "/run", "/tmp", "-xdev").stdout.splitlines())
