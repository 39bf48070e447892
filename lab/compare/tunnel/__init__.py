"""The long benchmark of tunnels (`make bench-tunnel`). Read in this order: `plan` (what is run, in which order), `site` (two hosts and their cable), `measure`
(one figure each), `summary`, `goals` (targets and verdicts), `model` (an estimate for more cores than this machine has), `page` (the document), `command` (the program).
"""
