"""One page that people read, made from a file of results (lab.compare.results).

Read in this order: `words` (figures as text), `sentences` (what a plot shows, computed), `plots` (drawn with matplotlib), `page` (one file of HTML that
needs no other), `check` (what a page lacks). Only `plots` needs matplotlib: `tools/setup report` puts it into target/venv.
"""
