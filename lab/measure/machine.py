"""Facts about the machine that a table was made on."""

import ctypes
import fcntl
import os
import platform
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

from .cpu import accounting

# linux/sockios.h, linux/ethtool.h: reads one feature flag of an interface.
_SIOCETHTOOL = 0x8946
_SWITCHES = {"rx-checksum": 0x14, "tx-checksum": 0x16, "scatter-gather": 0x18, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}


def facts():
    """Returns CPU, kernel and limits: everything that a figure may depend on."""
    info = Path("/proc/cpuinfo").read_text()
    return {
        "cpu": _first(r"model name\s*: (.*)", info),
        "cpu_flags": [flag for flag in ("aes", "vaes", "avx2", "avx512f", "vpclmulqdq") if re.search(rf"\b{flag}\b", info)],
        "cores": os.cpu_count(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not visible (virtual machine)",
        "memory_mb": int(_first(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())) * 1024 // 1_000_000,
        "kernel": platform.release(),
        "kernel_wireguard": Path("/sys/module/wireguard").exists(),
        "iperf3": _first(r"iperf (\S+)", _said("iperf3", "--version")),
        "soft_interrupts": accounting(),
        "rmem_max": int(_read("/proc/sys/net/core/rmem_max")),
        "wmem_max": int(_read("/proc/sys/net/core/wmem_max")),
    }


def offloads(host, interface="eth0"):
    """Returns the feature flags of an interface of a host, as `ethtool -k` prints them."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); from lab.measure.machine import read; print(read({interface!r}))"
    return host.run(sys.executable, "-c", code).stdout.strip()


def read(interface):
    """Returns `name on|off` for each feature flag of an interface in this namespace."""
    words = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for name, command in _SWITCHES.items():
            value = (ctypes.c_uint32 * 2)(command, 0)
            try:
                fcntl.ioctl(asked, _SIOCETHTOOL, struct.pack("16sP", interface.encode(), ctypes.addressof(value)) + bytes(16))
            except OSError:
                continue
            words.append(f"{name} {'on' if value[1] else 'off'}")
    return ", ".join(words)


def socket_buffers(host):
    """Returns (receive, send) buffer bytes of each bound UDP socket of a host, as the kernel applies them."""
    text = host.run("ss", "-H", "-u", "-n", "-a", "-m").stdout
    return [[int(a), int(b)] for a, b in re.findall(r"skmem:\(r\d+,rb(\d+),t\d+,tb(\d+)", text)]


def _first(pattern, text):
    found = re.search(pattern, text)
    return found[1].strip() if found else "unknown"


def _read(path):
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
