"""`taut service`: the files of a service for each service manager, in a root of a test and on a machine with a stand-in for systemctl (fault L6)."""

import json
import os
import shutil
import stat
import subprocess

import pytest

from lab.hosts.programs import ROOT, binary
from lab.nodes.taut import Coordinator
from lab.tests.machine import Machine

pytestmark = pytest.mark.programs
MARK = "# Written by `taut service install`"
# What shows which service manager a system has, and the first file of the service.
MANAGERS = {
    "systemd": ("usr/lib/systemd/systemd", "etc/systemd/system/taut.service"),
    "openrc": ("sbin/openrc-run", "etc/init.d/taut"),
    "procd": ("sbin/procd", "etc/init.d/taut"),
}


def image(folder, manager):
    """Makes the parts of a system that `taut service --root` looks at."""
    for path in (MANAGERS[manager][0], "usr/bin/taut"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")
    return folder


def service(root, *words):
    """Runs `taut service` for a root; returns (exit status, object or None, standard error)."""
    done = subprocess.run([binary("taut"), "service", *words, "--root", root, "--json"], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def contents(root):
    """Returns every file and link below a root, with its text or target."""
    found = {}
    for folder, folders, files in os.walk(root):
        for path in (os.path.join(folder, name) for name in [*folders, *files]):
            if os.path.islink(path):
                found[os.path.relpath(path, root)] = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, encoding="utf-8") as file:
                    found[os.path.relpath(path, root)] = file.read()
    return found


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_service_is_installed_once_and_removed_without_a_trace(tmp_path, manager):
    root = image(tmp_path, manager)
    before = contents(root)
    code, done, _ = service(root, "install")
    assert (code, done["schema"], done["manager"]) == (0, 1, manager), done
    first = contents(root)
    unit = first[MANAGERS[manager][1]]
    assert MARK in unit and "/usr/bin/taut" in unit and "/usr/local/bin/taut" not in unit
    links = {link: target for link, target in first.items() if (root / link).is_symlink()}
    assert links and all((root / link).parent.joinpath(target.lstrip("/") if target.startswith("..") else root / target.lstrip("/")).exists() for link, target in links.items())
    scripts = [path for path in first if "/init.d/" in path and path not in links]
    assert all(os.stat(root / path).st_mode & stat.S_IXUSR for path in scripts) and bool(scripts) == (manager != "systemd")
    assert all(subprocess.run(["sh", "-n", root / path], check=False).returncode == 0 for path in scripts)
    # Again: nothing changes. A file that is not as it was written is replaced, and one that users change stays.
    code, done, _ = service(root, "install")
    assert code == 0 and contents(root) == first and {step["action"] for step in done["steps"]} <= {"unchanged", "kept"}
    (root / MANAGERS[manager][1]).write_text(MARK + "\n")
    kept = [path for path, text in first.items() if MARK not in text and path not in before and path not in links]
    for path in kept:
        (root / path).write_text("# mine\n")
    assert service(root, "install")[0] == 0
    assert contents(root) == first | dict.fromkeys(kept, "# mine\n")
    state = service(root, "status")[1]
    assert state["installed_by"] == "taut-service" and state["enabled"] and state["active"] is None
    code, done, _ = service(root, "uninstall")
    assert code == 0 and contents(root) == before | dict.fromkeys(kept, "# mine\n")
    assert service(root, "status")[1]["installed_by"] is None
    assert service(root, "uninstall")[1]["hints"] == ["there was nothing of `taut service install`"]


def test_fault_l6_another_service_is_left_alone(tmp_path):
    root = image(tmp_path / "package", "systemd")
    unit = root / "usr/lib/systemd/system/taut.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    before = contents(root)
    code, done, error = service(root, "install")
    assert code == 1 and "a package installed" in error and "systemctl enable --now taut" in error and "error" in done
    assert contents(root) == before and service(root, "status")[1]["installed_by"] == "package"
    for manager in ("systemd", "openrc"):
        root = image(tmp_path / manager, manager)
        mine = root / MANAGERS[manager][1]
        mine.parent.mkdir(parents=True)
        mine.write_text("# by hand\n")
        before = contents(root)
        code, _, error = service(root, "install")
        assert code == 1 and "did not write it" in error and contents(root) == before
        assert service(root, "status")[1]["installed_by"] == "other"


def test_fault_l6_a_host_without_a_service_manager_or_program_says_so(tmp_path):
    code, _, error = service(tmp_path, "install")
    assert code == 1 and "no service manager" in error and "taut daemon" in error
    code, _, error = service(tmp_path, "install", "--manager", "systemd")
    assert code == 1 and "there is no program `taut`" in error
    assert not list(tmp_path.iterdir())
    assert service(tmp_path, "install", "--manager", "upstart")[0] == 2


def test_fault_l6_a_program_that_the_unit_would_not_see_is_refused(lab):
    machine = Machine(lab.host("node", lab.switch("internet")), "")
    machine.run(f"mkdir -p /run/systemd/system; install {binary('taut')} /root/taut")
    said = machine.run("/root/taut service install --manager systemd || true")
    assert "/root/taut is below /root, which the service does not see" in said and "/usr/local/bin/taut" in said
    assert machine.traces() == machine.before | {"/root/taut"}


def test_another_network_has_a_service_of_its_own(tmp_path):
    for manager, link in (("systemd", "etc/systemd/system/multi-user.target.wants/taut@work.service"), ("openrc", "etc/runlevels/default/taut.work")):
        root = image(tmp_path / manager, manager)
        before = contents(root)
        assert service(root, "install", "--network", "work")[0] == 0 and (root / link).is_symlink()
        assert service(root, "status", "--network", "work")[1]["enabled"] and not service(root, "status")[1]["enabled"]
        assert service(root, "install")[0] == 0
        assert service(root, "uninstall")[0] == 0
        assert {path for path in contents(root) if "conf.d" not in path} == set(before)


def test_a_node_is_installed_started_and_removed_on_a_machine(lab):
    host, other = (lab.host(name, switch) for switch in [lab.switch("internet")] for name in ("node", "coordinator"))
    coordinator = Coordinator(other).start()
    machine = Machine(host, "")
    machine.run(f"install {binary('taut')} /usr/local/bin/taut; mkdir -p /run/systemd/system")
    said = machine.run("taut service install --manager systemd")
    assert "started" in said and "/etc/systemd/system/taut.service" in said and "taut service uninstall" in said
    machine.run(f"taut up --join {coordinator.join_token} --timeout 30s")
    state = json.loads(machine.run("taut service status --manager systemd --json"))
    assert state["active"] and state["enabled"] and state["daemon_answers"]
    assert "it runs already" in machine.run("taut service install --manager systemd")
    machine.run("taut leave; taut service uninstall --manager systemd; rm -rf /usr/local/bin/taut /var/lib/taut")
    assert machine.traces() == machine.before and "taut" not in machine.processes()


def test_openwrt_knows_every_setting():
    text = (ROOT / "dist/openwrt/taut.init").read_text(encoding="utf-8")
    names = text.partition('OPTIONS="')[2].partition('"')[0].split() + text.partition('LISTS="')[2].partition('"')[0].split()
    checked = subprocess.run([binary("taut"), "config", "check", "--config", "/dev/null", "--state", "/nonexistent", "--json"], capture_output=True, text=True, check=True)
    settings = {one["name"] for one in json.loads(checked.stdout)["settings"]} - {"state", "socket"}
    assert sorted(names) == sorted(name.replace("-", "_") for name in settings)


def test_shell_scripts_of_the_services_have_no_mistake():
    scripts = [*(ROOT / "dist/openrc/init.d").iterdir(), ROOT / "dist/openwrt/taut.init", ROOT / "dist/openwrt/taut.firewall"]
    for script in scripts:
        for shell in filter(None, (shutil.which("dash"), shutil.which("busybox"))):
            words = [shell, "sh", "-n"] if shell.endswith("busybox") else [shell, "-n"]
            assert subprocess.run([*words, script], check=False).returncode == 0, script
