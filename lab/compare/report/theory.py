"""What theory says of one TCP stream that only loss holds back: MSS/RTT × 1.22/√p (Mathis and others, 1997)."""

import math
import re

# What is left of 1,500 bytes after IPv4 (20), TCP (20) and its time stamps (12).
HEADERS = 52
FACTOR = 1.22
# How far from the line a stream may be and still be called on it.
NEAR = 0.25


def loss_of(profile):
    """(share of packets lost towards the right, whether loss is all that holds a stream back); None where the link loses nothing by draw or has a rate."""
    if profile["loss"]:
        return profile["loss"], True
    words = profile["link"].get("right", "")
    found = re.search(r"\bloss ([\d.]+)%", words)
    if not found or not float(found[1]) or re.search(r"\brate\b", words):
        return None
    return float(found[1]) / 100, False


def mbps(profile):
    """(Mbit/s, whether the theory holds there: constant delay and loss alone), or None where there is nothing to say."""
    loss = loss_of(profile)
    if not loss or not profile["round_trip_ms"]:
        return None
    segment = (profile["mtu"] - HEADERS) * 8
    return segment / (profile["round_trip_ms"] / 1e3) * FACTOR / math.sqrt(loss[0]) / 1e6, loss[1]
