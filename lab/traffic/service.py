"""A service of TCP that greets each client, and connections to it: for policies, which allow ports or do not."""

import sys

_SERVE = (
    "import socket,sys\n"
    "s=socket.create_server((sys.argv[1],int(sys.argv[2])))\n"
    "print('ready',flush=True)\n"
    "while True:\n"
    " c,_=s.accept(); c.sendall(b'hello'); c.close()\n"
)
_CONNECT = (
    "import socket,sys\n"
    "s=socket.create_connection((sys.argv[1],int(sys.argv[2])),timeout=float(sys.argv[3])); assert s.recv(9)==b'hello'\n"
)


def serve(node, port):
    """Runs the service on a node's overlay address."""
    service = node.host.start(sys.executable, "-I", "-c", _SERVE, node.ipv4, port, name=f"service-{port}")
    service.wait_for_output("ready")


def connects(source, target, port, timeout=1.5):
    """Returns true if a connection over the overlay is answered within `timeout` seconds."""
    words = (sys.executable, "-I", "-c", _CONNECT, target.ipv4, port, timeout)
    return source.host.run(*words, check=False).returncode == 0
