"""Measurements that compare systems. Read in this order: `plan` (what is run, in which order), `site` (two hosts and their cable), `measure`
(one figure each), `summary`, `goals` (what is to be reached), `model` (more
cores than this machine has), `page` (the document), `tunnel` (the program)."""
