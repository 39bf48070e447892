"""What hosts send each other: flows with a checksum, probes, floods of connections, and kinds of work."""
