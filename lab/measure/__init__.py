"""What every measurement of the lab reads with: processor time, echo requests, facts of the machine, the time that is left, quantiles."""
