"""Programs that join hosts: Taut's coordinator, relay and node, other WireGuards and other systems, and what stands around them in a network."""
