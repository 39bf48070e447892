"""A host of the lab with a resolver of its own: the directories that a resolver uses are private, and its program comes from `tools/resolvers`.

Nothing here reaches the machine's own /etc/resolv.conf, /run or D-Bus.
"""

import os
import shlex
from pathlib import Path

from ..hosts.programs import ROOT
from ..hosts.wait import wait_until
from .taut import Node

UNPACKED = ROOT / "target" / "resolvers"
RESOLV_CONF = "/etc/resolv.conf"
STUB_RESOLV_CONF = "/run/systemd/resolve/stub-resolv.conf"
_MOUNTS = """
mkdir -p {private}
mount -t tmpfs -o mode=755 resolver {private}
overlay() {{
    mkdir -p "{private}$1/upper" "{private}$1/work"
    mount -t overlay -o "lowerdir=$2,upperdir={private}$1/upper,workdir={private}$1/work" resolver "$1"
}}
overlay /usr {usr}
overlay /etc {etc}
overlay /var/lib /var/lib
# The state of the host's programs is below /run, and stays where it is.
mount --bind {state} /mnt
mount -t tmpfs -o mode=755 resolver /run
mount -t tmpfs -o mode=1777 resolver /tmp
mkdir -p {state}
mount --bind /mnt {state}
umount /mnt
mkdir -p /run/dbus /run/systemd /run/lock
rm -f /etc/resolv.conf /etc/resolv.conf.* /etc/init.d/dnsmasq
printf 'systemd-resolve:x:981:981::/:/usr/sbin/nologin\\ndnsmasq:x:980:65534::/:/usr/sbin/nologin\\n' >> /etc/passwd
printf 'systemd-resolve:x:981:\\n' >> /etc/group
printf 'hosts: files dns\\npasswd: files\\ngroup: files\\n' > /etc/nsswitch.conf
echo ready
# The lab closes standard input.
exec cat
"""


def is_unpacked(name):
    """Returns true if `tools/resolvers` has unpacked this resolver."""
    return (UNPACKED / name).exists()


class ResolverHost(Node):
    """A node in `host`, with the programs of these folders of target/resolvers."""

    def __init__(self, host, *programs):
        super().__init__(host)
        # Whether the resolver writes the same file again on its own.
        self.rewrites = False
        folders = [UNPACKED / name for name in programs]
        usr = ":".join(str(folder / "usr") for folder in folders)
        etc = ":".join(str(folder / "etc") for folder in folders if (folder / "etc").exists())
        private = host.state / "private"
        host.state.chmod(0o755)
        script = _MOUNTS.format(state=shlex.quote(str(host.state)), private=shlex.quote(str(private)), usr=f"{usr}:/usr" if usr else "/usr", etc=f"{etc}:/etc" if etc else "/etc")
        mounts = host.start("unshare", "--mount", "--propagation", "private", "sh", "-ec", script, name="mounts")
        mounts.wait_for_output("ready")
        # The root directory of the host's programs, as this process sees it.
        self.root = Path(f"/proc/{mounts.pid}/root")
        host.prefix = ["nsenter", f"--mount=/proc/{mounts.pid}/ns/mnt"]

    def sh(self, script, check=True):
        """Runs a script of the shell on the host, and returns its output."""
        return self.host.run("sh", "-ec", script, check=check, timeout=60).stdout

    def write(self, path, text):
        """Writes a file of the host."""
        self.host.run("sh", "-c", f"mkdir -p $(dirname {path}) && cat > {path}", text=text)

    def read(self, path):
        return self.host.run("cat", path, check=False).stdout

    def traces(self):
        """Returns the text of /etc/resolv.conf, its kind and number, and all files in /etc, /run and /tmp that belong to a resolver's settings."""
        kind = self.sh(f"stat -c '%F {'' if self.rewrites else '%i %Y'} %a %u:%g %N' {RESOLV_CONF} || true")
        files = self.sh("find /etc /run /tmp -xdev \\( -name '*taut*' -o -path '*resolvconf*' -type f \\) ! -name '*.sock' ! -path '/run/taut*' | sort")
        return kind, self.read(RESOLV_CONF), files

    def addresses(self, name):
        """Returns the addresses that a program of the host finds for a name."""
        done = self.host.run("getent", "ahosts", name, check=False, timeout=60)
        return {line.split()[0] for line in done.stdout.splitlines()}

    def finds(self, name, address):
        return address in self.addresses(name)

    def resolver(self):
        """Returns the status of the host's resolver."""
        return self.status()["self"]["names"]["resolver"]

    def wait_for_resolver(self, back_end):
        self.wait_for(lambda status: status["self"]["names"]["resolver"]["by"] == back_end, f"its resolver to be {back_end}")

    def kill_daemon(self):
        """Kills the daemon alone: its helper has a session of its own, and the kernel tells it."""
        os.kill(self.process.pid, 9)
        self.process.wait()

    def start_dbus(self):
        """Starts a bus of the host's own."""
        self.host.start("dbus-daemon", "--system", "--nofork", "--nopidfile", name="dbus")
        wait_until(lambda: "socket" in self.sh("stat -c %F /run/dbus/system_bus_socket || true"), "the bus to listen")

    def start_resolved(self, server):
        """Starts systemd-resolved with this server for all names, and has libc ask it."""
        self.start_dbus()
        self.write("/etc/systemd/resolved.conf", f"[Resolve]\nDNS={server}\nFallbackDNS=\nDomains=lan.example\nDNSSEC=no\nLLMNR=no\nMulticastDNS=no\n")
        self.sh(f"ln -s ../run/systemd/resolve/stub-resolv.conf {RESOLV_CONF}")
        self.resolved = self.host.start("/lib/systemd/systemd-resolved", name="resolved")
        wait_until(lambda: self.host.run("resolvectl", "status", check=False).returncode == 0, "systemd-resolved to answer", details=self.resolved.tail)


def files_of(path):
    """Returns the names in a directory of this machine, to show that a test left it alone."""
    return sorted(os.listdir(path)) if Path(path).exists() else []
