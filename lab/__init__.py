"""The lab: hosts in network namespaces that run the real programs, and the tests and measurements made on them.

The rooms, lowest first: `hosts`, `measure`, `traffic`, `nodes`, `compare`, `runs` (README.md). Read in this order: `hosts.net` (hosts, switches,
routers), `hosts.process` (a program in a host), `nodes.taut` (coordinator and node), `nodes.mesh` (a whole network in one call), `traffic.flow`
(transfers and probes), then any file of `tests/`.

"""
