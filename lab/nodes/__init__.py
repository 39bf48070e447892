"""Programs that join hosts: Taut's coordinator, relay and node, other WireGuards and other systems; and the proxies and gateways around them."""
