"""The node's service under OpenRC of Debian, in a root of its own (tools/roots.py): not run on Alpine or Gentoo."""

import json

import pytest

from lab.hosts.programs import ROOT, binary
from lab.hosts.wait import wait_until
from lab.nodes.taut import Coordinator

OPENRC = ROOT / "target/openrc"
pytestmark = pytest.mark.skipif(not OPENRC.exists(), reason="the root target/openrc is missing: tools/roots.py openrc")
# The root is an overlay in memory. A shell is process 1 of its own process namespace, and all ends with it.
_MOUNTS = """
mount -t tmpfs -o mode=755 openrc {state}
mkdir {state}/upper {state}/work {state}/root
mount -t overlay -o lowerdir={lower},upperdir={state}/upper,workdir={state}/work openrc {state}/root
mount -t proc proc {state}/root/proc
mount --bind /sys {state}/root/sys
mount --rbind /dev {state}/root/dev
mount -t tmpfs -o mode=755 run {state}/root/run
mkdir -p {state}/root/var/log
# What OpenRC makes at boot, and a service that Debian has under another name.
for name in daemons exclusive failed hotplugged inactive init.d options scheduled started starting stopping tmp wasinactive; do mkdir -p {state}/root/run/openrc/$name; done
printf '#!/sbin/openrc-run\nstart() {{ return 0; }}\n' > {state}/root/etc/init.d/localmount
chmod 755 {state}/root/etc/init.d/localmount
touch {state}/root/run/openrc/softlevel
install {program} {state}/root/usr/local/bin/taut
# As in a container: file systems and devices are those of the host.
echo 'rc_sys="lxc"' >> {state}/root/etc/rc.conf
echo ready
# The shell is process 1, and reaps what has lost its parent: OpenRC waits for that.
cat
true
"""


class OpenRc:
    """A host whose root has OpenRC."""

    def __init__(self, host):
        self.host = host
        host.state.joinpath("machine").mkdir()
        state = host.state / "machine"
        script = _MOUNTS.format(state=state, lower=OPENRC, program=binary("taut"))
        self.first = host.start("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-ec", script, name="mounts")
        self.first.wait_for_output("ready")
        [inside] = map(int, open(f"/proc/{self.first.pid}/task/{self.first.pid}/children", encoding="ascii").read().split())
        spaces = [f"--mount=/proc/{inside}/ns/mnt", f"--pid=/proc/{inside}/ns/pid"]
        host.prefix = ["nsenter", *spaces, "chroot", str(state / "root"), "env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]

    def run(self, text, check=True):
        return self.host.run("sh", "-c", text, check=check)


def test_a_node_is_installed_comes_back_after_a_crash_and_is_removed(lab):
    switch = lab.switch("internet")
    machine, other = OpenRc(lab.host("node", switch)), lab.host("coordinator", switch)
    coordinator = Coordinator(other).start()
    before = machine.run("find /etc /run /var/lib -name '*taut*' | sort").stdout
    said = machine.run("taut service install").stdout
    assert "started" in said and "/etc/init.d/taut" in said, said
    machine.run(f"taut up --join {coordinator.join_token} --timeout 30s")
    state = json.loads(machine.run("taut service status --json").stdout)
    assert (state["manager"], state["installed_by"], state["enabled"], state["active"]) == ("openrc", "taut-service", True, True)
    pid = json.loads(machine.run("taut status --json").stdout)["pid"]
    machine.run(f"kill -KILL {pid}")

    def is_back():
        done = machine.run("taut status --json", check=False)
        return done.returncode == 0 and json.loads(done.stdout)["state"] == "running" and json.loads(done.stdout)["pid"] != pid

    wait_until(is_back, "the daemon to be back after a crash")
    # Settings of the file and of conf.d; a wrong file keeps the service from a start, and is named.
    machine.run("echo 'TAUT_FLAGS=\"--mtu 1300\"' > /etc/conf.d/taut; mkdir -p /etc/taut; echo 'portmap = false' > /etc/taut/taut.toml; rc-service taut restart")
    wait_until(is_back, "the daemon to be back after a restart")
    now = {one["name"]: one for one in json.loads(machine.run("taut set --json").stdout)["settings"]}
    assert now["mtu"]["origin"] == "flag" and now["portmap"]["origin"] == "file"
    machine.run("echo 'portmpa = false' > /etc/taut/taut.toml; rc-service taut stop")
    refused = machine.run("rc-service taut start 2>&1", check=False)
    assert refused.returncode != 0 and "did you mean `portmap`?" in refused.stdout, refused.stdout
    machine.run("rm -r /etc/taut; rc-service taut start")
    wait_until(is_back, "the daemon to start again")
    machine.run("taut leave; taut service uninstall; rm -r /etc/conf.d/taut /var/lib/taut")
    assert machine.run("find /etc /run /var/lib -name '*taut*' | sort").stdout == before
    assert "taut daemon" not in machine.run("ps -e -o args").stdout
