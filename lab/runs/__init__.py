"""Programs that `make` or a person starts: the demo, floods, soaks, measurements."""
