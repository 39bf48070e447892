"""Runs a program under the seccomp profile and with the capabilities that podman gives a container: `container_rules.py PROFILE CAPABILITIES PROGRAM …`.

The profile is the JSON file of containers/common (docker's has the same form). libseccomp, which container runtimes use, compiles it for the kernel. A rule
may be for some capabilities or processors only, and then counts if the container has them.
"""

import ctypes
import json
import os
import platform
import sys

# Names of libseccomp (seccomp.h).
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NO_NEW_PRIVS = 3
_UNKNOWN_CALL = -1
_COMPARE = {"SCMP_CMP_NE": 1, "SCMP_CMP_LT": 2, "SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4, "SCMP_CMP_GE": 5, "SCMP_CMP_GT": 6, "SCMP_CMP_MASKED_EQ": 7}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_EPERM = 1
# linux/prctl.h, linux/capability.h
_CAPBSET_DROP, _CAPBSET_READ = 24, 23
_NAMES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE"),
    *("NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN"),
    *("SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE"),
    *("MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"),
)


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp"""

    _fields_ = [("argument", ctypes.c_uint), ("operator", ctypes.c_int), ("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


def counts(rule, capabilities):
    """Returns true if a rule is for a container with these capabilities on this processor."""

    def named(what):
        where = rule.get(what) or {}
        return set(where.get("caps", ())), set(where.get("arches", ()))

    processor = _ARCHITECTURES[platform.machine()]
    needed, processors = named("includes")
    against, not_on = named("excludes")
    return needed <= capabilities and (not processors or processor in processors) and not against & capabilities and processor not in not_on


def action(name, number):
    return {"SCMP_ACT_ALLOW": _ALLOW, "SCMP_ACT_ERRNO": _ERRNO | number, "SCMP_ACT_KILL_PROCESS": _KILL}[name]


def confine(profile, capabilities):
    """Loads the profile's rules for this process and its successors; returns how many calls have a rule."""
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    default = action(profile["defaultAction"], profile.get("defaultErrnoRet", _EPERM))
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(default)))
    # Container runtimes load it while they still have all rights, so that set-user-ID programs work inside.
    checked(library.seccomp_attr_set(context, _NO_NEW_PRIVS, 0), "no_new_privs")
    made = 0
    for rule in profile["syscalls"]:
        does = action(rule["action"], rule.get("errnoRet", _EPERM))
        if not counts(rule, capabilities) or does == default:
            continue
        compared = rule.get("args") or []
        array = (Comparison * len(compared))(*(Comparison(one["index"], _COMPARE[one["op"]], one["value"], one.get("valueTwo", 0)) for one in compared))
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            # This library may not know a newer call; a runtime with the same library leaves it out, too.
            if number != _UNKNOWN_CALL:
                checked(library.seccomp_rule_add_array(context, ctypes.c_uint32(does), number, len(compared), array), name)
                made += 1
    checked(library.seccomp_load(context), "the filter")
    return made


def checked(code, what):
    if code != 0:
        sys.exit(f"container_rules: {what}: {os.strerror(-code)}")


def drop(capabilities):
    """Leaves programs that this process starts these capabilities only."""
    library = ctypes.CDLL(None, use_errno=True)
    for number, name in enumerate(_NAMES):
        if f"CAP_{name}" not in capabilities and library.prctl(_CAPBSET_READ, number, 0, 0, 0) == 1 and library.prctl(_CAPBSET_DROP, number, 0, 0, 0):
            sys.exit(f"container_rules: CAP_{name}: {os.strerror(ctypes.get_errno())}")


def main():
    path, names, *program = sys.argv[1:]
    capabilities = {f"CAP_{name}" for name in names.split(",")}
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)
    drop(capabilities)
    confine(profile, capabilities)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
