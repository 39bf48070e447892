"""Theoretical throughput of one TCP stream limited only by loss: MSS/RTT × 1.22/√p (Mathis and others, 1997)."""

import math
import re

# Bytes of IPv4 (20), TCP (20) and its timestamps (12), of 1,500.
HEADERS = 52
FACTOR = 1.22
# Distance from the line within which a stream counts as on it.
NEAR = 0.25


def loss_of(profile):
    """Returns (share of packets lost towards the right, whether only loss limits a stream), or None for a link without random loss or with a rate."""
    if profile["loss"]:
        return profile["loss"], True
    words = profile["link"].get("right", "")
    found = re.search(r"\bloss ([\d.]+)%", words)
    if not found or not float(found[1]) or re.search(r"\brate\b", words):
        return None
    return float(found[1]) / 100, False


def mbps(profile):
    """Returns (Mbit/s, whether the theory holds: only constant delay and loss), or None if it predicts nothing."""
    loss = loss_of(profile)
    if not loss or not profile["round_trip_ms"]:
        return None
    segment = (profile["mtu"] - HEADERS) * 8
    return segment / (profile["round_trip_ms"] / 1e3) * FACTOR / math.sqrt(loss[0]) / 1e6, loss[1]
