"""Power cuts of a coordinator with SQLite (fault O2): `serve` runs under strace while clients write, and from its system calls the disks are made that a power cut at any
moment could have left behind. On each of them every acknowledged write is complete, and no other one is half there."""
