"""Taut on Debian's older kernels, in virtual machines of this machine (`make kernels`, docs/kernels.md).

`command.py` runs here and starts a machine per kernel. `inside.py` runs in the machine: parts of `PARTS`, one after the other, each with a result that is sent at its end.
"""

# The parts, in the order in which they run: what the kernel is, tests of the crates of sys/, a network of two nodes, tests of the lab, the kernel's own WireGuard
# beside `taut wg`, and netem beside linkbox.
PARTS = ("facts", "tests", "network", "lab", "wireguard", "links")
# Version of the results in JSON.
SCHEMA = 1
