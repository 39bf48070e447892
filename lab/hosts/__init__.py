"""Hosts in network namespaces and what connects them: cables, links by profile, routers, NATs."""
