"""Asks a service from a socket that is bound to an interface (a plain program that runs in a host's namespace).

    bound.py INTERFACE tcp|udp ADDRESS PORT [MARK]

Prints the answer, or the name of the error, such as ConnectionRefusedError.
"""

import socket
import sys

TIMEOUT_S = 2


def main():
    interface, kind, address, port = sys.argv[1:5]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        if len(sys.argv) > 5:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, int(sys.argv[5], 0))
        one.settimeout(TIMEOUT_S)
        try:
            one.connect((address, int(port)))
            one.send(b"hello")
            print(one.recv(99).decode().split()[0])
        except OSError as error:
            print(type(error).__name__)


if __name__ == "__main__":
    main()
