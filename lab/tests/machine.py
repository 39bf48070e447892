"""A machine of a test: a host of the lab whose system directories are its own, so that commands may install, start and remove services."""

import shlex
import sys
from pathlib import Path

from lab.hosts.namespace import call
from lab.hosts.programs import ROOT
from lab.hosts.wait import LabError
from lab.tests.drill import STRICT

# Directories that commands write: each an overlay, whose changes are in memory and end with the machine. /run is empty.
OWN = ("/etc", "/root", "/usr/local", "/var/backups", "/var/lib", "/var/log")
# Files of the stand-in for the service manager.
SERVICES = Path("/run/services")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MANAGER = Path(__file__).with_name("service_manager.py")
_MOUNTS = """
mount -t tmpfs -o mode=755 machine {state}
for own in {own}; do
    test -d $own || continue
    mkdir -p {state}$own/upper {state}$own/work
    chmod --reference=$own {state}$own/upper
    mount -t overlay -o lowerdir=$own,upperdir={state}$own/upper,workdir={state}$own/work machine $own
done
mount -t tmpfs -o mode=755 machine /run
mkdir -p {services} /usr/local/sbin /etc/systemd/system
for name in systemctl journalctl; do
    printf '#!/bin/sh\\nexec %s -I %s %s "$@"\\n' {python} {manager} $name > /usr/local/sbin/$name
    chmod 755 /usr/local/sbin/$name
done
echo "$HOSTS" >> /etc/hosts
echo ready
# The lab closes standard input.
exec cat
"""


class Machine:
    """A host with directories and services of its own. `names` are lines of /etc/hosts. Variables that a block sets are there for later blocks."""

    def __init__(self, host, names):
        self.host = host
        script = _MOUNTS.format(
            state=shlex.quote(str(host.state)), own=" ".join(OWN), services=SERVICES, python=shlex.quote(sys.executable), manager=shlex.quote(str(_MANAGER))
        )
        mounts = host.start("unshare", "--mount", "--propagation", "private", "sh", "-ec", script, name="mounts", env={"HOSTS": names})
        mounts.wait_for_output("ready")
        host.prefix = ["nsenter", f"--mount=/proc/{mounts.pid}/ns/mnt"]
        self.variables = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8"}
        self.before = self.traces()

    def run(self, block):
        """Runs commands of a page from the directory of the source code, and returns their output. Fails if one of them does."""
        text = f"set -a\ncd {shlex.quote(str(ROOT))}\ntrap 'env -0 > {SERVICES}/variables' EXIT\n{STRICT}exec 2>&1\n{block}"
        done = self.host.run("env", "-i", *(f"{name}={value}" for name, value in self.variables.items()), "bash", "-c", text, check=False, timeout=120)
        if done.returncode != 0:
            raise LabError(f"{self.host.name}: exit status {done.returncode} of\n{block}\n{done.stdout}{done.stderr}\n{self.journals()}")
        kept = self.host.run("cat", SERVICES / "variables").stdout.split("\0")
        self.variables = dict(one.split("=", 1) for one in kept if one and not one.startswith(("_=", "SHLVL=", "PWD=", "OLDPWD=")))
        return done.stdout

    def journals(self):
        """Returns the last lines of each service."""
        return self.host.run("sh", "-c", f"tail -n 30 {SERVICES}/*.log", check=False).stdout

    def journal(self, service):
        return self.host.run("cat", SERVICES / f"{service}.log").stdout

    def traces(self):
        """Returns the files of Taut in the directories of the machine."""
        where = [*OWN, "/run"]
        lines = self.host.run("find", *where, "-xdev", "-name", "*taut*", check=False).stdout.splitlines()
        return {line for line in lines if not line.startswith(f"{SERVICES}/")}

    def processes(self):
        """Returns the names of the programs that run in the host."""
        pids = call("ip", "netns", "pids", self.host.namespace).stdout.split()
        return {Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids if Path(f"/proc/{pid}").exists()}
