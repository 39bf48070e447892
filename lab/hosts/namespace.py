"""A network namespace: its name, its settings, and the programs that run inside it."""

import os
import re
import subprocess
from pathlib import Path

from . import leftovers
from .process import Process
from .wait import PATIENCE_S, LabError

# A switch port is named after its host, and Linux allows 15 characters for an interface name.
_HOST_NAME = re.compile(r"[a-z][a-z0-9-]{0,11}")


class Namespace:
    """The common base of hosts and switches: a namespace in which programs run."""

    def __init__(self, lab, name, settings):
        if not _HOST_NAME.fullmatch(name):
            raise LabError(f"{name!r} is not a valid host name: a letter, then at most 11 of a-z, 0-9 and -")
        if name in lab.nodes:
            raise LabError(f"two hosts of this lab are named {name!r}")
        self.lab = lab
        self.name = name
        self.namespace = leftovers.namespace_name(name)
        self.processes = []
        # Words before every command that runs in this namespace, such as `taskset -c 0`.
        self.prefix = []
        # First, so that the lab removes the namespace also after an interrupt in the middle.
        lab.nodes[name] = self
        self.make_namespace()
        writes = (f"echo {value} > /proc/sys/{key.replace('.', '/')}" for key, value in map(_split, settings))
        self.run("sh", "-ec", "\n".join(writes))
        self.ip("link set lo up")

    def make_namespace(self):
        """Makes the network namespace, under the name `namespace`."""
        call("ip", "netns", "add", self.namespace)

    @property
    def logs(self):
        """Directory for the log files of this host."""
        return self.lab.logs / self.name

    @property
    def state(self):
        """Directory for the state of programs; removed with the lab, readable by root only."""
        path = self.lab.state / self.name
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path

    def ip(self, *commands):
        """Runs `ip` commands in the namespace; each argument is a command without the word `ip`."""
        call("ip", "-n", self.namespace, "-batch", "-", text="\n".join(commands))

    def run(self, *argv, check=True, timeout=PATIENCE_S, env=None, text=None):
        """Runs a program to its end and returns its `CompletedProcess`, with output as text."""
        return call(*self._inside(argv), check=check, timeout=timeout, env=_environment(env), text=text)

    def start(self, *argv, name=None, env=None):
        """Starts a program and returns its `Process`. It ends with the lab at the latest."""
        name = name or Path(str(argv[0])).name
        process = Process(self._inside(argv), name, self.logs, _environment(env))
        self.processes.append(process)
        return process

    def _inside(self, argv):
        return ["ip", "netns", "exec", self.namespace, *self.prefix, *(str(word) for word in argv)]


def _split(setting):
    return setting.split("=")


def _environment(extra):
    return {**os.environ, **{key: str(value) for key, value in (extra or {}).items()}}


def call(*argv, check=True, timeout=PATIENCE_S, env=None, text=None):
    """Runs a program on this machine to its end; `text` is its input. Raises `LabError` if it fails, unless `check` is off."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=env,
            input=text or "",
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"no end after {timeout:.0f} s: {' '.join(map(str, argv))}\n{error.stdout}\n{error.stderr}") from None
    if check and done.returncode != 0:
        raise LabError(f"exit code {done.returncode}: {' '.join(map(str, argv))}\n{text or ''}{done.stdout}{done.stderr}")
    return done
