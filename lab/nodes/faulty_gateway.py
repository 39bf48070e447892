"""A gateway that gives false answers about port mappings: a plain program that `gateway` starts. Needs no other file.

    faulty_gateway.py OUTSIDE HOW     HOW is JSON; prints `ready`, then a word for each request; ends when standard input closes

    {"pcp": {…}}    answers PCP with `outside`, `port`, `lease`, `result`, `epoch` instead of the true values
    {"natpmp": {…}} the same for NAT-PMP
    {"upnp": {…}}   answers searches: `location` (a host instead of its own), `page` ("whole", "giant", "drip", "redirect", "garbage", "hang"),
                    `outside`, `error`, `replies` (number of replies to each search)
"""

import json
import os
import select
import socket
import struct
import sys
import threading
import time

PCP, SSDP, HTTP = 5351, 1900, 5000
SERVICE = "urn:schemas-upnp-org:service:WANIPConnection:1"
DEVICE = "urn:schemas-upnp-org:device:InternetGatewayDevice:1"


def print_line(word):
    print(word, flush=True)


def pcp(request, how, outside):
    """Returns the response to a request of version 2."""
    nonce, port = request[24:36], struct.unpack("!H", request[40:42])[0]
    lease = how.get("lease", struct.unpack("!I", request[4:8])[0])
    head = struct.pack("!BBBBII12x", 2, 0x81, 0, how.get("result", 0), lease, how.get("epoch", 1000))
    address = b"\0" * 10 + b"\xff\xff" + socket.inet_aton(how.get("outside", outside))
    return head + nonce + struct.pack("!B3xHH", 17, port, how.get("port", port)) + address


def natpmp(request, how, outside):
    """Returns the response to a request of version 0."""
    head = struct.pack("!BBHI", 0, 128 + request[1], how.get("result", 0), how.get("epoch", 1000))
    if request[1] == 0:
        return head + socket.inet_aton(how.get("outside", outside))
    port, _, lease = struct.unpack("!HHI", request[4:12])
    return head + struct.pack("!HHI", port, how.get("port", port), how.get("lease", lease))


def serve_datagrams(how, outside):
    gate = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    gate.bind(("", PCP))
    while True:
        request, sender = gate.recvfrom(2048)
        if request[0] == 2 and "pcp" in how and len(request) >= 60:
            print_line("pcp")
            gate.sendto(pcp(request, how["pcp"], outside), sender)
        elif request[0] == 0 and "natpmp" in how:
            print_line("natpmp")
            gate.sendto(natpmp(request, how["natpmp"], outside), sender)
        else:
            print_line("unanswered")


def serve_searches(how):
    gate = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    gate.bind(("", SSDP))
    # The group is joined on the interface where the searches arrive.
    group = socket.inet_aton("239.255.255.250")
    gate.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + struct.pack("@II", 0, socket.if_nametoindex("eth0")))
    while True:
        _, sender = gate.recvfrom(2048)
        print_line("search")
        own = how.get("location") or own_address(sender)
        for number in range(how.get("replies", 1)):
            page = f"http://{own}:{HTTP}/root{number}.xml"
            gate.sendto(f"HTTP/1.1 200 OK\r\nST: {DEVICE}\r\nLOCATION: {page}\r\n\r\n".encode(), sender)


def own_address(towards):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(towards)
        return probe.getsockname()[0]


def serve_pages(how, outside):
    gate = socket.create_server(("", HTTP))
    while True:
        stream, _ = gate.accept()
        threading.Thread(target=answer, args=(stream, how, outside), daemon=True).start()


def answer(stream, how, outside):
    try:
        request = stream.recv(8192).decode(errors="replace")
        print_line(f"page {request.split(' ', 2)[1]}")
        page = how.get("page", "whole")
        if page == "hang":
            time.sleep(60)
        elif page == "drip":
            stream.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                stream.sendall(b"x")
                time.sleep(0.2)
        elif page == "giant":
            stream.sendall(b"HTTP/1.1 200 OK\r\n\r\n<root>")
            while True:
                stream.sendall(b"<service><serviceType>" * 1000)
        elif page == "redirect":
            stream.sendall(f"HTTP/1.1 302 Found\r\nLocation: http://{how['elsewhere']}:{HTTP}/\r\nContent-Length: 0\r\n\r\n".encode())
        elif page == "garbage":
            stream.sendall(os.urandom(4096))
        else:
            status, body = whole(request, how, outside)
            stream.sendall(f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    except OSError:
        # The client has closed the connection.
        pass
    finally:
        stream.close()


def whole(request, how, outside):
    """Returns (status, body) of an honest gateway, except for the configured false values."""
    if request.startswith("GET"):
        control = how.get("control", "/ctl")
        return 200, f"<root><service><serviceType>{SERVICE}</serviceType><controlURL>{control}</controlURL></service></root>"
    if "#GetExternalIPAddress" in request:
        address = how.get("outside", outside)
        name = "GetExternalIPAddressResponse"
        return 200, f"<u:{name}><NewExternalIPAddress>{address}</NewExternalIPAddress></u:{name}>"
    if "error" in how:
        return 500, f"<s:Fault><errorCode>{how['error']}</errorCode></s:Fault>"
    return 200, "<u:AddPortMappingResponse/>" if "#Add" in request else "<u:DeletePortMappingResponse/>"


def main():
    outside, how = sys.argv[1], json.loads(sys.argv[2])
    parts = [(serve_datagrams, (how, outside))] if "pcp" in how or "natpmp" in how else []
    if "upnp" in how:
        parts += [(serve_searches, (how["upnp"],)), (serve_pages, (how["upnp"], outside))]
    for part, arguments in parts:
        threading.Thread(target=part, args=arguments, daemon=True).start()
    # The sockets are bound soon after this; a client that is earlier retries.
    time.sleep(0.3)
    print_line("ready")
    select.select([sys.stdin], [], [])
    while os.read(0, 4096):
        pass


if __name__ == "__main__":
    main()
