"""A stand-in for systemctl and journalctl in a machine of a test (machine.py): it starts and stops what the units say.

It follows the settings of a unit that decide whether a program works: its user and groups, capabilities, directories, files of variables and limit of open
files. It confines nothing else; test_units.py has systemd look at the units.
"""

import contextlib
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

SERVICES = Path("/run/services")
UNITS = (Path("/etc/systemd/system"), Path("/usr/lib/systemd/system"), Path("/lib/systemd/system"))
# Users that systemd makes for services (systemd.exec(5), DynamicUser=).
FIRST_USER = 61184
# Time in seconds for a service to end, as by default.
PATIENCE_S = 90


class Unit:
    """A service, and its unit file."""

    def __init__(self, name):
        self.name = name.removesuffix(".service")
        file = next((folder / f"{self.name}.service" for folder in UNITS if (folder / f"{self.name}.service").exists()), None)
        if not file:
            sys.exit(f"Unit {self.name}.service could not be found.")
        self.file = file
        self.settings = re.findall(r"^([A-Za-z]+)=(.*)$", file.read_text(), re.MULTILINE)
        self.user = FIRST_USER + sum(self.name.encode()) % 4000 if self.last("DynamicUser") == "yes" else 0

    def all(self, key):
        return [value for name, value in self.settings if name == key]

    def last(self, key, default=""):
        return (self.all(key) or [default])[-1]

    def pid(self):
        """Returns the main process, or None if the service does not run."""
        file = Path(self.last("PIDFile") or SERVICES / f"{self.name}.pid")
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                return pid
        return None

    def enabled(self):
        return Path("/etc/systemd/system/multi-user.target.wants") / self.file.name

    def start(self):
        if self.pid():
            return
        variables = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        for file in self.all("EnvironmentFile"):
            if Path(file.lstrip("-")).exists():
                variables |= dict(line.split("=", 1) for line in Path(file.lstrip("-")).read_text().splitlines() if "=" in line)
        self.make_directories()
        for command in self.all("ExecStartPre"):
            subprocess.run(words(command, variables), env=variables, check=True)
        log = (SERVICES / f"{self.name}.log").open("ab")
        command = [*self.confinement(), *words(self.last("ExecStart"), variables)]
        # In a container the limit may not be raised.
        files = min(int(self.last("LimitNOFILE", "1024")), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        more = {"env": variables, "stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True, "cwd": "/"}
        process = subprocess.Popen(command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)), **more)
        if self.last("Type") == "forking":
            sys.exit(f"{self.name} does not start") if process.wait() else None
        else:
            (SERVICES / f"{self.name}.pid").write_text(str(process.pid))

    def make_directories(self):
        if name := self.last("RuntimeDirectory"):
            Path("/run", name).mkdir(exist_ok=True)
        name = self.last("StateDirectory")
        if not name:
            return
        state, real = Path("/var/lib", name), Path("/var/lib", "private" if self.user else "", name)
        if self.user:
            # systemd closes this directory, and opens it to the service alone.
            real.parent.mkdir(exist_ok=True)
            real.parent.chmod(0o755)
        real.mkdir(mode=0o700, exist_ok=True)
        if self.user and not state.is_symlink():
            state.symlink_to(real)
        # As systemd does it: what is inside is left alone if the directory itself has its owner.
        if real.stat().st_uid != self.user:
            subprocess.run(["chown", "-R", f"{self.user}:{self.user}", real], check=True)

    def confinement(self):
        if not self.user:
            return []
        given = ",".join(f"+{name.lower().removeprefix('cap_')}" for name in self.last("AmbientCapabilities").split())
        granted = [f"--inh-caps={given}", f"--ambient-caps={given}"] if given else ["--inh-caps=-all", "--bounding-set=-all"]
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "--no-new-privs", *granted]

    def stop(self):
        pid, until = self.pid(), time.monotonic() + PATIENCE_S
        if pid:
            os.kill(pid, signal.SIGTERM)
        while self.pid():
            if time.monotonic() > until:
                sys.exit(f"{self.name} does not end")
            time.sleep(0.02)
        if name := self.last("RuntimeDirectory"):
            subprocess.run(["rm", "-rf", Path("/run", name)], check=True)

    def restart(self):
        self.stop()
        self.start()

    def reload(self):
        subprocess.run(words(self.last("ExecReload"), {}), check=True)

    def enable(self):
        self.enabled().parent.mkdir(exist_ok=True)
        self.enabled().unlink(missing_ok=True)
        self.enabled().symlink_to(self.file)

    def disable(self):
        self.enabled().unlink(missing_ok=True)

    def is_active(self):
        print("active" if self.pid() else "inactive")
        if not self.pid():
            sys.exit(3)


def words(command, variables):
    """Returns a command line of a unit as words; a variable may be several words."""
    given = (variables.get(word[1:], "").split() if word.startswith("$") else [word] for word in shlex.split(command.lstrip("-@!:+")))
    return [word for several in given for word in several]


def systemctl(action, *arguments):
    if action == "daemon-reload":
        return
    for unit in [Unit(name) for name in arguments if not name.startswith("-")]:
        getattr(unit, action.replace("-", "_"))()
        if "--now" in arguments:
            {"enable": unit.start, "disable": unit.stop}[action]()


def journalctl(*arguments):
    unit = arguments[arguments.index("-u") + 1]
    print((SERVICES / f"{unit}.log").read_text(), end="")


if __name__ == "__main__":
    {"systemctl": systemctl, "journalctl": journalctl}[sys.argv[1]](*sys.argv[2:])
