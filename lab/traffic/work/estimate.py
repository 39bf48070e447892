"""Rough estimates of the duration of a work on a link, for planning only: no figure and no verdict depends on them."""

import math
import re

# Rate above which the bytes of one TCP stream take no noticeable time, in bits per second.
PLAIN_BPS = 1e9
# Share of the throughput allowed by the loss that remains with reordering and jitter: measured 0.95, 0.57 and 0.5 at low, medium and high.
REORDERED = 0.5
# Constants of MSS/RTT × 1.22/√p, with the segment of an MTU of 1,500.
SEGMENT_BITS, FACTOR = 1448 * 8, 1.22
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def loss(link, direction):
    """Returns the share of packets that are lost in that direction."""
    found = re.search(r"\bloss ([\d.]+)%", link.link.get(direction, ""))
    return float(found[1]) / 100 if found else 0.0


def lost_round_trips(link):
    """Returns the share of round trips that are lost."""
    return 1 - (1 - loss(link, "right")) * (1 - loss(link, "left"))


def stream_bps(link, direction):
    """Returns the throughput of one TCP stream in that direction, in bits per second."""
    words, most = link.link.get(direction, ""), PLAIN_BPS
    if rate := re.search(r"\brate ([\d.]+)(kbit|mbit|gbit)\b", words):
        most = min(most, float(rate[1]) * _UNITS[rate[2]])
    if (lost := loss(link, direction)) and link.round_trip_ms:
        share = REORDERED if re.search(r"\b(jitter|reorder)\b", words) and "keep-order" not in words else 1.0
        most = min(most, share * SEGMENT_BITS / (link.round_trip_ms / 1e3) * FACTOR / math.sqrt(lost))
    return most


def slowest_echo_ms(link):
    """Returns the duration of a slow round trip without queueing: jitter makes it about twice the mean."""
    return 2 * link.round_trip_ms
