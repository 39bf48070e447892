"""The comparison: every system, on every link, for every kind of work, by one method (docs/bench.md).

Read in this order: `plan` (what is run, in which order), `testbed` (the hosts), `run` (the rounds, and their failures), `rows` and `cost` (what is recorded of
each work), `results` (the file), `summary` (from rows to figures), `ranking` (whether two runs agree), `scenarios` (published set-ups), `session` (start and
end), `pages` (its files), `command` (the arguments of `python3 -m lab`). `lab.compare.report` makes the page; `lab.compare.tunnel` is the long benchmark
of tunnels.
"""
