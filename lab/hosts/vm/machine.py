"""Runs a virtual machine with qemu: with KVM if this machine has it, else emulated."""

import fcntl
import json
import os
import queue
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

from ..wait import LabError
from . import initramfs

QEMU = "qemu-system-x86_64"
KVM = Path("/dev/kvm")
CPU_INFO = Path("/proc/cpuinfo")
# Memory in MB: Python, a network of three hosts and what they write.
MEMORY_MB = 1536
# An emulated processor is that many times slower, so that waits for the machine are that many times longer.
SLOWNESS = 10
# An emulated processor. Without VAES: qemu 7.2 computes its 256-bit form wrongly, as the tests of sys/aegis show.
EMULATED = "max,-vaes"
# What begins a line that is for the caller.
MARK = "@taut "
_KVM_CREATE_VM = 0xAE01
_TAIL_LINES = 30


def missing_reason():
    """Returns why no machine can be started here, or an empty string."""
    lacks = next((name for name in (QEMU, "setpriv") if not shutil.which(name)), None)
    packages = {QEMU: "qemu-system-x86", "setpriv": "util-linux"}
    return f"the program {lacks} is missing: apt-get install {packages[lacks]}" if lacks else ""


def accelerator():
    """Returns `kvm` if this process can make a virtual machine with it, else `tcg`.

    A /dev/kvm on a processor without Intel's or AMD's extension is that of a host which is a virtual machine itself (kvm_pvm). It runs only kernels that were built for it.
    """
    flags = re.search(r"^flags\s*:(.*)$", CPU_INFO.read_text(), re.MULTILINE)
    if not flags or not {"vmx", "svm"} & set(flags[1].split()):
        return "tcg"
    try:
        device = os.open(KVM, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return "tcg"
    try:
        os.close(fcntl.ioctl(device, _KVM_CREATE_VM, 0))
        return "kvm"
    except OSError:
        return "tcg"
    finally:
        os.close(device)


class Machine:
    """A running virtual machine. It ends with the block of its `with`, and with this process."""

    def __init__(self, kernel, command, job, logs, cores=2):
        self.kernel, self.command, self.job, self.logs, self.cores = kernel, command, job, Path(logs), cores
        self.console = self.logs / "console.log"
        self.how = accelerator()
        self._messages = queue.Queue()

    def __enter__(self):
        self.logs.mkdir(parents=True, exist_ok=True)
        self._first_files = self.logs / "initramfs"
        initramfs.build(self.kernel, self.command, self.job, self._first_files)
        self._errors = (self.logs / "qemu.log").open("wb")
        # The end of this process, however it comes, ends the machine.
        words = ["setpriv", "--pdeathsig", "KILL", *self._words()]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_):
        self._first_files.unlink(missing_ok=True)
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._errors.close()

    def messages(self, timeout):
        """Yields the messages of the command until the machine ends, for at most `timeout` seconds with KVM, and `SLOWNESS` times that without."""
        deadline = time.monotonic() + timeout * (1 if self.how == "kvm" else SLOWNESS)
        while True:
            try:
                message = self._messages.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                raise LabError(f"the virtual machine did not end within {timeout:.0f} s\n{self.tail()}") from None
            if message is None:
                return
            yield message

    def tail(self):
        """Returns the last lines of the console and of qemu."""
        parts = []
        for file in (self.console, self.logs / "qemu.log"):
            lines = file.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if file.exists() else []
            parts += [f"--- {file}", *lines] if lines else []
        return "\n".join(parts)

    def _words(self):
        return [
            *(QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-accel", self.how),
            *("-cpu", "host" if self.how == "kvm" else EMULATED, "-smp", str(self.cores), "-m", str(MEMORY_MB)),
            *("-kernel", str(self.kernel.image), "-initrd", str(self._first_files), "-append", "console=ttyS0 panic=-1 loglevel=4"),
            *("-serial", f"file:{self.console}", "-chardev", "stdio,id=out,signal=off", "-serial", "chardev:out"),
            *("-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap", "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"),
            *("-device", "virtio-rng-pci"),
        ]

    def _read(self):
        for line in self._process.stdout:
            text = line.decode(errors="replace").strip()
            if text.startswith(MARK):
                try:
                    self._messages.put(json.loads(text[len(MARK) :]))
                except ValueError:
                    self._messages.put({"kind": "garbled", "text": text})
        self._messages.put(None)
