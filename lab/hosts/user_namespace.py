"""A host in a user namespace of its own, as containers without root's rights are: its root may do everything with the host's network, and nothing with the machine's."""

import os
import shlex

from .namespace import call
from .net import Host
from .process import Process

_ALONE = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "--net")


class UserNamespaceHost(Host):
    """A host whose network namespace belongs to a user namespace, in which root is the machine's. The scripts set up its mounts, as in `private_mounts.enter`."""

    def __init__(self, lab, name, switches, *scripts):
        self._scripts = scripts
        super().__init__(lab, name, switches)

    def make_namespace(self):
        state = shlex.quote(str(self.state))
        script = "\n".join([*(script.format(state=state) for script in self._scripts), "echo ready", "# The lab closes standard input.", "exec cat"])
        owner = Process([*_ALONE, "sh", "-ec", script], "namespaces", self.logs, dict(os.environ))
        self.processes.append(owner)
        owner.wait_for_output("ready")
        call("ip", "netns", "attach", self.namespace, str(owner.pid))
        self.prefix = ["nsenter", f"--user=/proc/{owner.pid}/ns/user", f"--mount=/proc/{owner.pid}/ns/mnt"]
