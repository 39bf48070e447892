"""The deb of the node on Debian systems that boot: it installs, joins, survives a reboot and an upgrade, and leaves nothing. Needs `make packages` and, for upgrades, a package of the
previous release: `make packages-previous`."""

import json
import shlex

import pytest

from lab.hosts import booted
from lab.hosts.booted import BootedHost, debian_root
from lab.hosts.programs import ROOT
from lab.hosts.wait import PATIENCE_S, wait_until
from lab.nodes import releases
from lab.nodes.taut import Coordinator, Node
from lab.traffic import flow

NEW, OLD = ROOT / "target" / "packages", ROOT / "target" / f"packages-{releases.previous()}"
SUITES = ("bookworm", "trixie")
# What a host has of networks: addresses, routes and rules of both families, and tables of nftables.
STATE = ("ip -br link", "ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all", "nft list ruleset")


def package(kind, folder=NEW, name="taut"):
    """Returns the package of a program for this machine."""
    index = json.loads((folder / "index.json").read_text())
    return folder / next(one["file"] for one in index["files"] if (one["name"], one["kind"]) == (name, kind) and "x86-64" in one["architecture"].split("+"))


def lacking():
    if booted.missing_reason():
        return booted.missing_reason()
    return "" if (NEW / "index.json").exists() else "there are no packages: make packages TARGETS=x86-64"


pytestmark = [pytest.mark.programs, pytest.mark.skipif(bool(lacking()), reason=lacking())]


class Site:
    """A coordinator, a node that pings, and a host that boots and has only what packages install."""

    def __init__(self, lab, suite, *more):
        switch = lab.switch("internet")
        self.coordinator = Coordinator(lab.host("coord", switch)).start()
        self.peer = Node(lab.host("peer", switch)).start("--advertise-exit-node")
        self.peer.up(self.coordinator.join_token)
        self.web = BootedHost(lab.host("web", switch), debian_root(suite, *more))

    def install(self, file, *command):
        self.web.copy(file, "/tmp/package")
        self.web.run(*(command or ("dpkg", "--install")), "/tmp/package", timeout=3 * PATIENCE_S)
        self.web.run("rm", "/tmp/package")

    def choose_exit(self):
        """Has the host send everything through the peer, with the kill switch."""
        wait_until(lambda: "peer" in self.coordinator.cli("routes", "list").stdout, "the coordinator to know the exit node")
        self.coordinator.cli("routes", "approve", "peer", "exit-node")
        self.peer.wait_for(lambda status: status["exit"]["is_exit"], "the peer to forward")
        wait_until(lambda: self.status()["exit"]["candidates"] == ["peer"], "the host to know the exit node", details=self.details)
        self.web.run("taut", "set", "--exit-node", "peer", "--kill-switch")
        wait_until(lambda: "kill_switch" in self.web.run("nft", "list", "tables").stdout, "the kill switch to be in force", details=self.details)

    def join(self):
        self.web.run("taut", "up", "--join", self.coordinator.join_token, "--hostname", "web", timeout=2 * PATIENCE_S)
        self.peer.wait_for_peers("web")
        return self.status()["self"]["addresses"]

    def status(self):
        return json.loads(self.web.run("taut", "status", "--json").stdout)

    def address(self):
        return next(one for one in self.peer.peer("web")["addresses"] if "." in one).partition("/")[0]

    def reach(self):
        """Waits until the peer's pings are answered."""
        wait_until(lambda: flow.answers(self.peer.host, self.address(), 5), "the peer to reach the host", details=self.details)

    def details(self):
        return self.web.run("journalctl", "--no-pager", "-n", "40", "-u", "taut", check=False).stdout

    def traces(self):
        """Returns files of ours, and what the network of the host looks like."""
        files = {path for path in self.web.files() if "taut" in path and not path.startswith("/var/log/journal")}
        return files, {command: self.web.run(*command.split()).stdout for command in STATE}


@pytest.mark.parametrize("suite", SUITES)
def test_fault_j9_a_node_from_a_deb_comes_back_after_a_reboot_and_leaves_nothing_when_it_is_purged(lab, suite):
    site = Site(lab, suite)
    with site.web as web:
        before = site.traces()
        site.install(package("deb"))
        assert web.run("systemctl", "is-active", "taut").stdout.strip() == "active"
        addresses = site.join()
        site.reach()
        web.reboot()
        # Nobody helps it.
        site.reach()
        assert site.status()["self"]["addresses"] == addresses

        web.run("dpkg", "--remove", "taut", timeout=PATIENCE_S)
        files, network = site.traces()
        assert network == before[1], "removed: no device, address, route or rule is left"
        assert web.run("ls", "/var/lib/taut").stdout, "removed, not purged: identity and state stay"
        assert not web.run("pgrep", "-x", "taut", check=False).stdout
        web.run("dpkg", "--purge", "taut")
        assert site.traces() == before


def test_fault_j9_a_package_that_is_removed_takes_its_kill_switch_along(lab):
    site = Site(lab, "trixie")
    with site.web as web:
        before = site.traces()
        site.install(package("deb"))
        site.join()
        site.choose_exit()
        # The rules outlive a daemon, and come before the network after a boot.
        web.reboot()
        assert "kill_switch" in web.run("nft", "list", "tables").stdout
        web.run("dpkg", "--remove", "taut")
        assert site.traces()[1] == before[1]
        # Installed again, the daemon puts it back.
        site.install(package("deb"))
        wait_until(lambda: "kill_switch" in web.run("nft", "list", "tables").stdout, "the kill switch to be back", details=site.details)
        web.run("dpkg", "--purge", "taut")
        assert site.traces() == before


def test_fault_l6_an_rpm_installs_works_and_leaves_nothing_but_its_state(lab):
    site = Site(lab, "trixie", "rpm")
    with site.web as web:
        before = site.traces()
        site.install(package("rpm"), "rpm", "--install", "--nodeps")
        # Debian's rpm does not know which files dpkg installed, hence --nodeps.
        assert web.run("rpm", "--verify", "taut", "--nodeps").stdout == ""
        assert web.run("systemctl", "is-active", "taut", check=False).stdout.strip() == "inactive"
        web.run("systemctl", "enable", "--now", "taut")
        site.join()
        site.reach()
        web.run("rpm", "--erase", "taut")
        files, network = site.traces()
        assert network == before[1]
        assert {path for path in files - before[0] if not path.startswith("/var/lib/taut")} == set()


def test_fault_l6_a_package_of_arch_installs_works_is_upgraded_and_leaves_nothing_but_its_state(lab):
    site = Site(lab, "bookworm", "pacman-package-manager")
    with site.web as web:
        # nfpm writes scripts of bash, which sh is on Arch.
        web.run("ln", "-sf", "bash", "/bin/sh")
        before = site.traces()
        install = ("pacman", "--upgrade", "--noconfirm")
        site.install(package("archlinux"), *install)
        assert web.run("pacman", "--query", "--check", "taut").returncode == 0
        assert web.run("systemctl", "is-active", "taut", check=False).stdout.strip() == "inactive"
        web.run("systemctl", "enable", "--now", "taut", "taut-kill-switch")
        site.join()
        site.reach()
        first = web.run("systemctl", "show", "--value", "--property=MainPID", "taut").stdout
        site.install(package("archlinux"), *install)
        assert web.run("systemctl", "show", "--value", "--property=MainPID", "taut").stdout != first, "an upgrade restarts what runs"
        site.reach()
        web.run("pacman", "--remove", "--noconfirm", "taut")
        files, network = site.traces()
        assert network == before[1]
        assert {path for path in files - before[0] if not path.startswith("/var/lib/taut")} == set()


# Makes a root with busybox and what an ipk holds (tar archives within one), as a router without glibc and systemd has it. /var is in memory there. The script before
# a removal finds no service, and so ends the daemon that `taut up` started.
_ROUTER = """
mkdir -p {root}/bin {root}/sbin {root}/dev/net {root}/proc {root}/etc {root}/tmp {root}/usr/bin
cd {root}
ln -s tmp var
touch sbin/procd
cp {busybox} bin/busybox
mount -t proc proc proc
mount -t tmpfs memory tmp
mkdir -p tmp/run tmp/lib
for node in null:1:3 urandom:1:9 net/tun:10:200; do
    name=${{node%%:*}} numbers=${{node#*:}}
    mknod -m 666 dev/$name c ${{numbers%:*}} ${{numbers#*:}}
done
chroot . /bin/busybox --install -s /bin
cp {ipk} package.ipk
chroot . /bin/sh -ec 'tar -xzOf package.ipk ./data.tar.gz | tar -xz'
chroot . /usr/bin/taut up --join {token} --hostname web
echo joined
until [ -e remove ]; do sleep 0.1; done
chroot . /bin/sh -ec 'tar -xzOf package.ipk ./control.tar.gz | tar -xzO ./prerm > /tmp/prerm; sh /tmp/prerm remove'
! chroot . /usr/bin/taut status
echo ended, and has etc/taut/state*/identity.json tmp/lib/*
exec cat
"""


@pytest.mark.parametrize("name", ("taut", "taut-tiny"))
def test_the_files_of_an_ipk_make_a_node_on_a_root_with_busybox_alone(lab, name):
    switch = lab.switch("internet")
    coordinator = Coordinator(lab.host("coord", switch)).start()
    peer, host = Node(lab.host("peer", switch)).start(), lab.host("web", switch)
    peer.up(coordinator.join_token)
    words = {"root": host.state / "router", "busybox": debian_root("trixie", "busybox-static") / "bin" / "busybox", "ipk": package("ipk", name=name), "token": coordinator.join_token}
    script = _ROUTER.format(**{key: shlex.quote(str(value)) for key, value in words.items()})
    router = host.start("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", script, name="router", env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    router.wait_for_output("joined")
    peer.wait_for_peers("web")
    assert flow.answers(peer.host, peer.peer("web")["addresses"][0].partition("/")[0], PATIENCE_S)
    (host.state / "router" / "remove").touch()
    router.wait_for_output("ended, and has etc/taut/state/identity.json tmp/lib/*")


@pytest.mark.skipif(not (OLD / "index.json").exists(), reason=f"there is no package of release {releases.previous()}: make packages-previous")
@pytest.mark.parametrize("suite", SUITES)
def test_an_upgrade_from_the_previous_release_under_traffic_keeps_identity_and_comes_up(lab, suite):
    site = Site(lab, suite)
    with site.web as web:
        site.install(package("deb", OLD))
        assert releases.previous() in web.run("taut", "--version").stdout
        addresses = site.join()
        site.reach()
        with flow.PingStream(site.peer.host, site.address()) as beat:
            first = web.run("systemctl", "show", "--value", "--property=MainPID", "taut").stdout
            site.install(package("deb"))
            wait_until(lambda: web.run("systemctl", "is-active", "taut", check=False).stdout.strip() == "active", "the unit to run again", details=site.details)
            site.reach()
            beats = beat.finish()
        assert beats["answered"]
        assert releases.previous() not in web.run("taut", "--version").stdout
        assert web.run("systemctl", "show", "--value", "--property=MainPID", "taut").stdout != first, "the daemon is the new program"
        assert site.status()["self"]["addresses"] == addresses
        web.reboot()
        site.reach()


def test_fault_l6_a_package_starts_nothing_where_the_policy_of_the_host_forbids_it(lab):
    site = Site(lab, "trixie")
    with site.web as web:
        web.run("sh", "-c", "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d")
        site.install(package("deb"))
        assert web.run("systemctl", "is-active", "taut", check=False).stdout.strip() == "inactive"
        # An administrator's choice outlives an upgrade.
        web.run("systemctl", "disable", "taut")
        site.install(package("deb"))
        assert web.run("systemctl", "is-enabled", "taut", check=False).stdout.strip() == "disabled"
        # Installation without systemd, as into an image, works too.
        web.run("dpkg", "--purge", "taut")


def test_fault_l6_scripts_of_the_servers_start_nothing_and_the_database_of_a_coordinator_outlives_a_purge(lab):
    site = Site(lab, "trixie")
    with site.web as web:
        for name in ("taut-coordinator", "taut-relay"):
            site.install(package("deb", name=name))
            assert web.run("systemctl", "is-active", name, check=False).stdout.strip() == "inactive"
        web.run("systemctl", "enable", "--now", "taut-coordinator")
        wait_until(lambda: web.run("taut-coordinator", "check", "--state", "/var/lib/taut-coordinator", check=False).returncode == 0, "a database")
        web.run("dpkg", "--purge", "taut-coordinator", "taut-relay")
        assert web.run("systemctl", "is-active", "taut-coordinator", check=False).stdout.strip() == "inactive"
        assert web.run("ls", "/var/lib/private/taut-coordinator").stdout
