"""The first files of a virtual machine: busybox, the modules to reach the files of the host, and a script that goes on from there."""

import json
import shutil
import subprocess
from pathlib import Path

from ..namespace import call
from ..programs import ROOT
from ..wait import LabError
from . import archive

# What the host's files arrive through, and what lies over them so that they can be changed in memory. In Debian's kernels these are modules.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
# Modules that the lab uses and that no kernel loads by itself, before programs look for the device or the file system.
LATER = ("tun", "veth", "bridge", "virtio_rng")
# Runs as process 1. The command's end, whatever it is, is the machine's end. Mounts are moved into the new root, and process 1 stays the shell.
INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /host /memory /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
end() { echo "taut: $1" > /dev/console; sync; poweroff -f; }
for module in @modules@; do modprobe "$module" || end "no module $module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host || end "the files of the host cannot be mounted"
mount -t tmpfs -o mode=755,size=60% memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work root /root || end "no overlay"
mount -t tmpfs -o mode=755 run /root/run
mount -t tmpfs -o mode=1777 tmp /root/tmp
mkdir -p /root/lib/modules /root/run/vm /root/dev/pts
mount --bind "/host@folder@/lib/modules" /root/lib/modules || end "no modules"
cp /bin/busybox /job.json /root/run/vm/
ln -s busybox /root/run/vm/modprobe
mount -o move /proc /root/proc
mount -o move /sys /root/sys
mount -o move /dev /root/dev
mkdir -p /root/dev/pts /root/dev/shm
# udev makes this one elsewhere; shells open pipes by it, as wg-quick's does.
ln -s /proc/self/fd /root/dev/fd
mount -t devpts -o ptmxmode=666 pts /root/dev/pts
mount -t tmpfs -o mode=1777 shm /root/dev/shm
mount -t cgroup2 groups /root/sys/fs/cgroup
exec switch_root /root /bin/sh /run/vm-init
"""
# Runs in the files of the host.
INSIDE = """#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
echo /run/vm/modprobe > /proc/sys/kernel/modprobe
for module in @later@; do /run/vm/modprobe -q "$module"; done
ip link set lo up
stty raw -echo < /dev/ttyS1
cd @root@
@command@ < /dev/null > /dev/console 2>&1
echo "taut: the command ended with $?" > /dev/console
sync
exec /run/vm/busybox poweroff -f
"""


def build(kernel, command, job, target):
    """Writes the initramfs to the file `target`. `command` is a line for the shell; it finds `job` in /run/vm/job.json."""
    tree = target.with_name(target.name + ".tree")
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "bin").mkdir(parents=True)
    shutil.copy(archive.busybox(), tree / "bin" / "busybox")
    _copy_modules(kernel, tree)
    (tree / "job.json").write_text(json.dumps(job))
    inside = INSIDE.replace("@later@", " ".join(LATER)).replace("@root@", str(ROOT)).replace("@command@", command)
    (tree / "inside").write_text(inside)
    words = INIT.replace("@modules@", " ".join(MODULES)).replace("@folder@", str(kernel.folder))
    init = tree / "init"
    init.write_text(words.replace("exec switch_root", "cp /inside /root/run/vm-init\nexec switch_root"))
    init.chmod(0o755)
    _pack(tree, target)
    shutil.rmtree(tree)


def _copy_modules(kernel, tree):
    """Copies the modules that are needed before the host's files are there, with those that they need."""
    source = kernel.folder / "lib" / "modules" / kernel.release
    needs = dict(line.split(":", 1) for line in (source / "modules.dep").read_text().splitlines())
    by_name = {Path(file).name.split(".")[0].replace("-", "_"): file for file in needs}
    for name in MODULES:
        file = by_name.get(name)
        if file is None:
            if name in _built_in(source):
                continue
            raise LabError(f"the kernel {kernel.release} has no module {name}")
        for one in (file, *needs[file].split()):
            copy = tree / "lib" / "modules" / kernel.release / one
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / one, copy)
    (tree / "lib" / "modules" / kernel.release / "modules.dep").write_text((source / "modules.dep").read_text())


def _built_in(source):
    return {Path(line).name.split(".")[0].replace("-", "_") for line in (source / "modules.builtin").read_text().splitlines()}


def _pack(tree, target):
    names = "\n".join(sorted(str(path.relative_to(tree)) for path in tree.rglob("*")))
    packed = subprocess.run([str(archive.busybox()), "cpio", "-o", "-H", "newc"], cwd=tree, input=names.encode(), capture_output=True, check=False)
    if packed.returncode:
        raise LabError(f"the initramfs could not be made: {packed.stderr.decode(errors='replace')}")
    target.write_bytes(packed.stdout)


