"""Traffic between hosts: transfers with a checksum, probes, connection floods, and kinds of work."""
