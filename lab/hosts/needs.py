"""Requirements of the lab on the machine. Commands check them first, so that a missing one is reported at once."""

import os
import shutil
import subprocess

from . import leftovers

# Program and the Debian package that contains it.
PROGRAMS = {
    "apache2": "apache2-bin",
    "chromium": "chromium",
    "curl": "curl",
    "ethtool": "ethtool",
    "haproxy": "haproxy",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "iptables-legacy": "iptables",
    "iptables-nft": "iptables",
    "java": "default-jre-headless",
    "jq": "jq",
    "miniupnpd": "miniupnpd-nftables",
    "nft": "nftables",
    "nginx": "nginx-light",
    "openssl": "openssl",
    "ping": "iputils-ping",
    "prlimit": "util-linux",
    "ristreceiver": "rist-tools",
    "ristsender": "rist-tools",
    "ss": "iproute2",
    "taskset": "util-linux",
    "tc": "iproute2",
    "wg": "wireguard-tools",
}
TUN = "/dev/net/tun"


def missing(*programs):
    """Returns a sentence for each missing requirement: root, a TUN device, namespaces, the given programs."""
    if os.geteuid() != 0:
        return ["needs root, to make network namespaces and TUN devices: run it with sudo"]
    lacks = [lacking(name) for name in ("ip", *programs) if not found(name)]
    lacks += _lacking_tun()
    if shutil.which("ip"):
        lacks += _lacking_namespaces()
    return list(dict.fromkeys(lacks))


def found(name):
    """Returns true if this program is installed."""
    return shutil.which(name) is not None


def missing_reason(*names):
    """Returns an error message for the first of these programs that is not installed, or an empty string."""
    return next((lacking(name) for name in names if not found(name)), "")


def lacking(name):
    """Returns the error message for a missing program of `PROGRAMS`."""
    return f"the program {name} is missing: apt-get install {PROGRAMS[name]}"


def _lacking_tun():
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError as error:
        how = "load the module (modprobe tun); in a container, start it with --device /dev/net/tun --cap-add NET_ADMIN"
        return [f"{TUN} cannot be opened ({error.strerror}): {how}"]
    return []


def _lacking_namespaces():
    name = leftovers.namespace_name("check")
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    if made.returncode == 0:
        return []
    why = made.stderr.strip() or "no reason given"
    return [f"network namespaces cannot be made ({why}): use a dedicated machine or a privileged container"]
