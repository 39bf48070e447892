"""The comparison: every system, on every link, for every kind of work, by one method (docs/bench.md).

Read in this order: `plan` (what is run, in which order), `rig` (where it takes place), `run` (the rounds, and what fails in them),
`rows` and `cost` (what is kept of each work), `results` (the file), `summary` (one figure each), `ranking` (whether two runs agree), `scenarios` (set-ups that others publish),
`sitting` (what begins and ends it), `pages` (its files), `command` (the words of `python3 -m lab`). The page that people read is made by `lab.compare.report`.
"""
