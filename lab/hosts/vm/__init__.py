"""A virtual machine with one of Debian's kernels, whose files are those of this machine, read-only, with changes in memory only.

    kernel = archive.fetch("5.10")
    with machine.Machine(kernel, ["python3", "-m", "lab.runs.kernels.guest"], {"parts": ["facts"]}, logs) as vm:
        for message in vm.messages(timeout=600):
            …

The machine has no network and no disk. What the command prints for the caller goes over a serial port (guest.py); everything else is in `console.log`.
"""
