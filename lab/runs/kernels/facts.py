"""What the running kernel is and has."""

import gzip
import platform
from pathlib import Path

# Options of the kernel that a part needs or that the sandbox uses.
OPTIONS = ("TUN", "WIREGUARD", "NET_SCH_NETEM", "SECURITY_LANDLOCK", "SECCOMP_FILTER", "NF_TABLES", "VETH")


def run(_lab, job, _say):
    config = _config(job)
    modules = Path("/sys/kernel/security/lsm")
    return {
        "ok": True,
        "kernel": platform.release(),
        "package": platform.version(),
        "options": {name: config.get(f"CONFIG_{name}", "n") for name in OPTIONS},
        "security_modules": modules.read_text().strip() if modules.exists() else None,
    }


def _config(job):
    """Returns the settings that the kernel was built with."""
    own = Path("/proc/config.gz")
    text = gzip.decompress(own.read_bytes()).decode() if own.exists() else Path(job["config"]).read_text(encoding="utf-8")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
