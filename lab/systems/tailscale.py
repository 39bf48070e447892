"""Tailscale: its nodes need a control server, and none can be had where only package registries are reached."""

from .base import System


class Tailscale(System):
    name = "tailscaled"
    title = "tailscaled"

    def lacking(self):
        return "not measured: no control server is at hand (headscale is neither in Debian 12 nor to be had as a Go module)"

    def version(self):
        return "-"
