"""The page of results, made from a file of results (lab.compare.results).

Read in this order: `formatting` (figures as text), `captions` (a computed sentence per plot), `plots` (drawn with matplotlib), `page` (one self-contained file of
HTML), `check` (the missing properties of a page). Only `plots` needs matplotlib: `tools/setup report` puts it into target/venv.
"""
