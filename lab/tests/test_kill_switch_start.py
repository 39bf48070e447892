"""The kill switch while the daemon starts: nothing opens it, and nothing is closed that was open."""

import sys

from lab.hosts.programs import binary
from lab.hosts.wait import LabError, wait_until
from lab.nodes.full_tunnel import FullTunnel
from lab.nodes.taut import answering

PORT = 7171
# Sends back what each connection sends.
_ECHO = (
    "import socket,sys,threading\n"
    "def serve(c):\n"
    " while data:=c.recv(99): c.sendall(data)\n"
    "s=socket.create_server(('::',int(sys.argv[1])),family=socket.AF_INET6,dualstack_ipv6=True); print('ready',flush=True)\n"
    "while True: threading.Thread(target=serve,args=(s.accept()[0],),daemon=True).start()\n"
)
# Talks over one connection without a pause, and prints how often it was answered after each line of input.
_TALK = (
    "import select,socket,sys\n"
    "s=socket.create_connection((sys.argv[1],int(sys.argv[2])),timeout=20); n=0; print('ready',flush=True)\n"
    "while True:\n"
    " s.sendall(b'x'); n+=len(s.recv(99))\n"
    " if select.select([sys.stdin],[],[],0.002)[0]:\n"
    "  if not sys.stdin.readline(): break\n"
    "  print('answers',n,flush=True)\n"
)


def test_fault_j8_a_flush_right_after_the_start_of_the_daemon_opens_nothing(lab):
    net = FullTunnel(lab)
    net.choose("exit1", "--kill-switch")
    client = net.client
    capture, talk = net.listen(), net.talk()
    for _ in range(10):
        # Waits for its orders, so that they come within a millisecond.
        nft = client.host.start("nft", "-i", name="nft")
        client.stop()
        client.process = client.host.start(binary("taut"), "daemon", "--state", client.state, "--socket", client.socket, name="daemon")
        # As soon as it can be asked.
        while not answering(client.socket):
            if not client.process.alive:
                raise LabError(client.process.tail())
        nft.write("flush ruleset\nlist tables\nquit\n")
        assert nft.wait() == 0 and "taut0_kill_twin" in nft.output(), nft.tail()
        talk.wait()
        wait_until(lambda: "taut0_kill_switch" in client.host.run("nft", "list", "tables").stdout, "the kill switch to be back")
        net.wait_for_tunnel()
    found = capture.finish()
    assert found["clear"] == 0, found


def test_fault_j10_connections_of_the_local_network_outlive_a_restart_of_the_daemon(lab):
    net = FullTunnel(lab)
    host, client = net.client.host, net.client
    net.choose("exit1", "--kill-switch", "--exit-node-allow-lan-access")
    host.start(sys.executable, "-I", "-c", _ECHO, PORT, name="echo").wait_for_output("ready")
    talks = [net.bystander.start(sys.executable, "-I", "-c", _TALK, address, PORT, name=f"talk-{number}") for number, address in enumerate((host.ipv4, host.ipv6))]
    for talk in talks:
        talk.wait_for_output("ready")
    for kill in (False, True, False):
        client.restart(kill)
        net.wait_for_tunnel()
        for talk in talks:
            said = talk.output().count("answers")
            assert talk.alive, talk.tail()
            talk.write("\n")
            wait_until(lambda talk=talk, said=said: talk.output().count("answers") > said, "the connection to go on", details=talk.tail)
