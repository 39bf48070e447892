"""Basic measurements: CPU time, echo requests, facts of the machine, remaining time, quantiles, system calls."""
