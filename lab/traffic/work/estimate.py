"""What a link makes of a work, roughly: to tell beforehand how long it takes. No figure is made of it, and no run is judged by it."""

import math
import re

# More than this one TCP stream need not carry for its bytes to take no time that counts.
PLAIN_BPS = 1e9
# What reordering and jitter leave of what the loss alone would let through: measured 0.95, 0.57 and 0.5 at low, medium and high.
REORDERED = 0.5
# MSS/RTT × 1.22/√p, with the segment of an MTU of 1,500.
SEGMENT_BITS, FACTOR = 1448 * 8, 1.22
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def loss(link, direction):
    """Share of packets that get lost that way."""
    found = re.search(r"\bloss ([\d.]+)%", link.link.get(direction, ""))
    return float(found[1]) / 100 if found else 0.0


def lost_round_trips(link):
    """Share of round trips that never come back."""
    return 1 - (1 - loss(link, "right")) * (1 - loss(link, "left"))


def stream_bps(link, direction):
    """What one TCP stream carries that way, in bits per second."""
    words, most = link.link.get(direction, ""), PLAIN_BPS
    if rate := re.search(r"\brate ([\d.]+)(kbit|mbit|gbit)\b", words):
        most = min(most, float(rate[1]) * _UNITS[rate[2]])
    if (lost := loss(link, direction)) and link.round_trip_ms:
        share = REORDERED if re.search(r"\b(jitter|reorder)\b", words) and "keep-order" not in words else 1.0
        most = min(most, share * SEGMENT_BITS / (link.round_trip_ms / 1e3) * FACTOR / math.sqrt(lost))
    return most


def slowest_echo_ms(link):
    """A round trip that is late, where nothing queues: jitter makes it about twice the mean."""
    return 2 * link.round_trip_ms
