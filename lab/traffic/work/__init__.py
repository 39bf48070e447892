"""Kinds of work that run over systems. All have the same interface, so that the comparison needs to know none of them.

One module per kind, one class per variant; `base.Work` defines the interface. `ALL` lists them in the order of the tables. Programs that real users run
do the work: iperf3, quinn, Apache and curl, RIST. A new kind is a class with `lacking`, `seconds` and `figures`, and a line here.
"""

from .base import Work
from .download import Download
from .memory import Memory
from .payload import Payload
from .ping import Ping, PingLoaded
from .quic import FirstByte, Quic
from .reconnect import Flap, Move, Reboot
from .tcp import Cost, Ring, Tcp
from .udp import Udp
from .video import Video

ALL = (
    Ping(),
    PingLoaded(),
    Tcp("tcp-1", "TCP, one stream"),
    Tcp("tcp-10", "TCP, ten streams", "-P", 10),
    Tcp("tcp-reverse", "TCP, one stream, reverse", "-R"),
    Tcp("tcp-both", "TCP, one stream each way at once", "--bidir"),
    Ring(),
    Cost(),
    Udp("udp-10", "UDP, 10 Mbit/s, lost", "10M"),
    Udp("udp-100", "UDP, 100 Mbit/s, lost", "100M"),
    Udp("udp-1000", "UDP, 1 Gbit/s, lost", "1G"),
    Udp("udp-unlimited", "UDP, as fast as the sender can", None),
    Quic(),
    FirstByte(),
    Download(),
    Video(),
    Reboot(),
    Flap(),
    Move(),
    Memory(),
    Payload(),
)

__all__ = [
    "ALL", "Cost", "Download", "FirstByte", "Flap", "Memory", "Move", "Payload", "Ping", "PingLoaded", "Quic", "Reboot", "Ring", "Tcp", "Udp", "Video", "Work",
]  # fmt: skip
