"""A node without a TUN device, whose daemon runs as a user without any right: `taut daemon --tun userspace`."""

import os
import shutil
import tempfile
from pathlib import Path

from .taut import Node

# A user id that no account of the machine has.
USER = 54_321


class UserspaceNode(Node):
    """A node as a user, without /dev/net/tun. `services` are the flags of its proxies and forwards. `close` removes its files."""

    def __init__(self, host, *services, env=None):
        super().__init__(host, env)
        self.services = services
        # The lab's own directories are for root alone.
        self.folder = Path(tempfile.mkdtemp(prefix="tautlab-user-"))
        os.chown(self.folder, USER, USER)

    @property
    def socket(self):
        return self.folder / "taut.sock"

    @property
    def state(self):
        return self.folder / "node"

    def start(self, *options):
        before = self.host.prefix
        # The mount hides the device from this daemon alone. Then the process loses every right, and cannot get one back.
        hide = 'mount -t tmpfs none /dev/net && exec "$@"'
        drop = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
        self.host.prefix = [*before, "unshare", "--mount", "sh", "-c", hide, "sh", *drop]
        try:
            return super().start("--tun", "userspace", *self.services, *options)
        finally:
            self.host.prefix = before

    @property
    def helper(self):
        """Process id of `taut-userspace`; None while it does not run."""
        for path in Path("/proc").glob("[0-9]*/comm"):
            try:
                if path.read_text().strip() == "taut-userspace" and self._is_mine(path.parent):
                    return int(path.parent.name)
            except OSError:
                continue
        return None

    def _is_mine(self, path):
        inside = (path / "ns/net").stat().st_ino
        return inside == Path(f"/proc/{self.process.pid}/ns/net").stat().st_ino

    def close(self):
        # A daemon that runs would write its files again.
        if self.process and self.process.alive:
            self.process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
