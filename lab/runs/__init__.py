"""Programs that make or a person starts: the demo, floods, soaks, tables of measurements."""
