"""Mounts that only one host of the lab sees: the machine's own directories stay as they are."""

import shlex

READ_ONLY_ROOT = """
mount --bind {state} {state}
# Every file system that is not the kernel's own and not the host's state.
while read -r _ place kind _; do
    case $kind in proc | sysfs | cgroup | cgroup2 | devtmpfs | devpts | tracefs | debugfs | mqueue | nsfs | bpf | securityfs) continue ;; esac
    case $place in {state} | /proc/* | /sys/* | /dev/*) continue ;; esac
    mount -o remount,bind,ro "$place" || test "$place" != /
done < /proc/self/mounts
"""
READ_ONLY_SYSCTLS = """
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
"""
# A /dev with what every container has, and the TUN device.
SMALL_DEV = """
mkdir -p {state}/dev
mount -t tmpfs -o mode=755 dev {state}/dev
mkdir {state}/dev/net
for name in null zero full random urandom tty net/tun; do
    touch {state}/dev/$name
    mount --bind /dev/$name {state}/dev/$name
done
mount --rbind {state}/dev /dev
"""
# /etc with changes in memory.
OWN_ETC = """
mkdir -p {state}/private
mount -t tmpfs -o mode=755 private {state}/private
mkdir {state}/private/upper {state}/private/work
mount -t overlay -o lowerdir=/etc,upperdir={state}/private/upper,workdir={state}/private/work private /etc
"""


def enter(host, *scripts):
    """Has all later programs of `host` run in a mount namespace of their own, which these scripts of the shell have set up. `{state}` is the host's state directory."""
    state = shlex.quote(str(host.state))
    script = "\n".join([*(script.format(state=state) for script in scripts), "echo ready", "# The lab closes standard input.", "exec cat"])
    mounts = host.start("unshare", "--mount", "--propagation", "private", "sh", "-ec", script, name="mounts")
    mounts.wait_for_output("ready")
    host.prefix = ["nsenter", f"--mount=/proc/{mounts.pid}/ns/mnt", *host.prefix]
