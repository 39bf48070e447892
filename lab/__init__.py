"""The lab: real hosts in network namespaces, and everything that is tried on them.

Read in this order: `net` (hosts, switches, routers), `process` (programs running in a host), `taut` (coordinator and
node), `mesh` (a whole network in one call), `flow` (traffic over it), then any file of `tests/`.
"""
