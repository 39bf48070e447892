"""`taut update`: a newer release is told and installed, and whatever is wrong with it leaves this host as it was (fault L6)."""

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from lab.hosts.needs import found
from lab.hosts.programs import binary
from lab.hosts.wait import wait_until
from lab.nodes.release_folder import ReleaseFolder, WebServer
from lab.nodes.taut import Coordinator
from lab.tests.machine import Machine

pytestmark = [pytest.mark.programs, pytest.mark.skipif(not found("openssl"), reason="the program openssl is missing: apt-get install openssl")]
# Starts, says its version, and has no daemon.
NO_DAEMON = b"""#!/bin/sh
[ "$1" = version ] && echo '{"schema":1,"version":"0.9.0","daemon":null}' && exit
exit 1
"""
# Answers on its socket for a moment: the real program, which ends soon.
SHORT = b"""#!/bin/sh
[ "$1" = daemon ] || exec %s "$@"
exec timeout 2 %s "$@"
"""


def own_version():
    done = subprocess.run([binary("taut"), "version", "--json", "--socket", "/dev/null"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["version"]


def of_version(version):
    """Returns this program with another version of the same length."""
    own = own_version()
    assert len(version) == len(own)
    return binary("taut").read_bytes().replace(own.encode(), version.encode())


def newer():
    """Returns a version of the same length that is newer than this program."""
    return "9" + own_version()[1:]


def older():
    return own_version().replace(".2.", ".1.", 1)


class Host:
    """A program in a folder of a test, with a state directory, and releases."""

    def __init__(self, folder):
        self.folder = folder
        self.releases = ReleaseFolder(folder / "www" / "releases")
        self.program = folder / "bin" / "taut"
        self.program.parent.mkdir()
        shutil.copy(binary("taut"), self.program)
        (folder / "state").mkdir()

    def update(self, *words, source=None):
        """Runs `taut update`; returns (exit status, object, standard error)."""
        place = {"TAUT_STATE_DIR": str(self.folder / "state"), "TAUT_SOCKET": str(self.folder / "taut.sock"), "TAUT_CONFIG": "/dev/null"}
        command = [self.program, "update", "--json", "--from", source or self.releases.folder, "--key", self.releases.key, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **place})
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def files(self):
        """Returns the content of every file beside the program."""
        return {path.name: path.read_bytes() for path in self.program.parent.iterdir()}


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_a_check_tells_of_a_newer_release_and_changes_nothing(host):
    host.releases.publish(newer(), b"never run")
    before = host.files()
    with WebServer(host.releases.folder.parent) as server:
        for source in (host.releases.folder, f"file://{host.releases.folder}", f"{server.url}/releases/"):
            code, said, error = host.update(source=source)
            assert code == 0, error
            assert (said["schema"], said["update_available"], said["newest"], said["version"]) == (1, True, newer(), own_version())
            assert said["installed_as"] == "plain" and "taut update --install --yes" in said["hint"] and said["made"] == "2026-09-21T14:13:20Z"
    assert host.files() == before
    for version in (own_version(), older()):
        # Of a host that has seen nothing newer.
        shutil.rmtree(host.folder / "state", ignore_errors=True)
        host.releases.publish(version, b"never run")
        code, said, error = host.update("--check")
        assert (code, said["update_available"]) == (0, False), error


def test_the_package_of_this_very_program_is_not_newer(host):
    own = own_version()
    # Before a release, packages have a moment that the program does not report.
    packaged = f"{own}.202611290412" if "-" in own else own
    host.releases.publish(packaged, host.program.read_bytes())
    assert host.update()[1]["update_available"] is False
    host.releases.publish(packaged, b"another program")
    assert host.update()[1]["update_available"] is ("-" in own)


def test_without_a_place_or_a_key_it_says_how_to_name_them(host):
    bare = {"PATH": os.environ["PATH"], "TAUT_CONFIG": "/dev/null"}
    for words, hint in ((["--from", str(host.releases.folder)], "--key FILE"), ([], "--from URL")):
        done = subprocess.run([host.program, "update", *words], capture_output=True, text=True, check=False, env=bare)
        assert done.returncode == 1 and hint in done.stderr and "/etc/taut/release." in done.stderr
    assert host.update("--install")[0] == 2 and host.update("--check", "--install", "--yes")[0] == 2


def refused(host, *words, **where):
    """Runs an update that must fail and change nothing; returns its message."""
    before = host.files()
    code, said, error = host.update("--install", "--yes", *words, **where)
    assert code == 1 and said["error"]["message"] in error.replace("\n", " ") + error, error
    assert host.files() == before, "nothing of it is left"
    return error


def test_fault_l6_a_list_with_a_wrong_signature_is_refused(host):
    host.releases.publish(newer(), of_version(newer()))
    listed = host.releases.folder / "RELEASE"
    whole = listed.read_bytes()
    for changed in (whole.replace(b"made 179", b"made 189"), whole[:-1], b"", whole + b"x\n"):
        listed.write_bytes(changed)
        assert "its signature is not one of the key" in refused(host)
    listed.write_bytes(whole)
    host.releases.make_key()
    assert "its signature is not one of the key" in refused(host)
    (host.releases.folder / "RELEASE.sig").unlink()
    assert "RELEASE.sig" in refused(host)


def test_fault_l6_a_truncated_or_changed_program_is_refused(host):
    program = of_version(newer())
    file = host.releases.publish(newer(), program)
    for cut in (0, 1, len(program) // 2, len(program) - 1):
        file.write_bytes(program[:cut])
        assert f"it has {cut} bytes" in refused(host)
    file.write_bytes(program + b"x")
    assert "bytes" in refused(host)
    file.write_bytes(b"X" + program[1:])
    assert "its checksum is not that of the release" in refused(host)
    host.releases.publish(newer(), program, sha256="0" * 64)
    assert "its checksum is not that of the release" in refused(host)
    host.releases.publish(newer(), program, architecture="s390x")
    assert "no program for" in refused(host)
    host.releases.publish(newer(), program)
    with WebServer(host.releases.folder, cut=100) as server:
        assert "only 100 of" in refused(host, source=server.url)
    file.unlink()
    with WebServer(host.releases.folder) as server:
        assert "no such file" in refused(host, source=server.url)
    assert "No such file" in refused(host)


def test_fault_l6_an_old_list_and_an_older_release_are_refused(host):
    host.releases.publish(older(), of_version(older()))
    assert "an older release is not installed" in refused(host)
    host.releases.publish(newer(), of_version(newer()))
    assert host.update()[0] == 0
    host.releases.publish(own_version(), of_version(own_version()))
    assert "somebody shows an old list" in refused(host)
    assert "somebody shows an old list" in host.update()[2], "a check says so, too"
    host.releases.publish(newer(), of_version(newer()), made=1_780_000_000)
    assert "somebody shows an old list" in refused(host)


def test_fault_l6_a_program_that_does_not_start_is_not_installed(host):
    for program, why in ((b"#!/bin/sh\nexit 3\n", "failed"), (b"\x7fELF garbage", "does not start"), (of_version("8" + own_version()[1:]), "it says that it is taut 8")):
        host.releases.publish(newer(), program)
        assert why in refused(host)


def test_a_plain_file_is_replaced_and_the_former_one_is_kept(host):
    former, program = host.program.read_bytes(), of_version(newer())
    host.releases.publish(newer(), program)
    with WebServer(host.releases.folder) as server:
        code, said, error = host.update("--install", "--yes", source=server.url)
    assert code == 0, error
    assert (said["outcome"], said["from"], said["to"]) == ("installed", own_version(), newer())
    assert host.files() == {"taut": program, "taut.previous": former}
    assert stat.S_IMODE(host.program.stat().st_mode) == 0o755
    code, said, _ = host.update("--install", "--yes")
    assert (code, said["outcome"]) == (0, "nothing-to-do")


def service(lab, folder):
    """Returns a machine with a node whose program was installed by `taut service install`, and the releases for it."""
    host, other = (lab.host(name, switch) for switch in [lab.switch("internet")] for name in ("node", "coordinator"))
    coordinator = Coordinator(other).start()
    machine = Machine(host, "")
    machine.run(f"install {binary('taut')} /usr/local/bin/taut; mkdir -p /run/systemd/system; taut service install --manager systemd")
    machine.run(f"taut up --join {coordinator.join_token} --timeout 30s")
    releases = ReleaseFolder(folder / "releases" / "www")
    machine.run(f"mkdir -p /etc/taut; cp {releases.key} /etc/taut/release.pub; echo file://{releases.folder} > /etc/taut/release.url")
    return machine, releases


def status(machine):
    return json.loads(machine.run("taut status --json"))


def test_a_service_is_updated_and_goes_on_with_its_node(lab, tmp_path):
    machine, releases = service(lab, tmp_path)
    before = status(machine)
    releases.publish(newer(), of_version(newer()))
    assert "is newer than this program" in machine.run("taut update")
    said = json.loads(machine.run("taut update --install --yes --json"))
    assert (said["outcome"], said["restarted"], said["previous"]) == ("installed", ["taut"], "/usr/local/bin/taut.previous")
    wait_until(lambda: status(machine)["state"] == "running", "the node to be up again")
    after = status(machine)
    assert (after["version"], after["self"]["id"], after["self"]["addresses"]) == (newer(), before["self"]["id"], before["self"]["addresses"])


@pytest.mark.parametrize("kind", ["no-daemon", "ends-soon"])
def test_fault_l6_a_daemon_that_does_not_come_up_is_rolled_back(lab, tmp_path, kind):
    machine, releases = service(lab, tmp_path)
    before = status(machine)["self"]["id"]
    version = "0.9.0"
    program = NO_DAEMON
    if kind == "ends-soon":
        version, real = newer(), tmp_path / "real"
        real.write_bytes(of_version(newer()))
        real.chmod(0o755)
        program = SHORT % (str(real).encode(), str(real).encode())
    releases.publish(version, program)
    said = machine.run("taut update --install --yes --json || true")
    assert f"taut {own_version()} is back, and answers" in said, said
    assert ("no longer does" in said) == (kind == "ends-soon")
    assert machine.host.run("cmp", binary("taut"), "/usr/local/bin/taut", check=False).returncode == 0
    wait_until(lambda: status(machine)["state"] == "running", "the former node to be up again")
    assert (status(machine)["version"], status(machine)["self"]["id"]) == (own_version(), before)


def test_a_program_of_a_package_is_left_to_the_package_manager(lab, tmp_path):
    machine, releases = service(lab, tmp_path)
    releases.publish(newer(), of_version(newer()))
    machine.run("mkdir -p /var/lib/dpkg/info; echo /usr/local/bin/taut > /var/lib/dpkg/info/taut.list")
    said = json.loads(machine.run("taut update --json"))
    assert said["installed_as"] == "package" and "apt install" in said["hint"]
    assert "apt install" in machine.run("taut update --install --yes || true")
    assert Path(f"/proc/{machine.host.processes[0].pid}/root/usr/local/bin/taut").read_bytes() == binary("taut").read_bytes()
