"""Hosts in network namespaces, and what lies between them: cables, links by profile, routers, NATs."""
