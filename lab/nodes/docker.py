"""Docker's bridge, its chains and one container on a host, made by the commands that Docker 24 runs (`iptables -S` and `iptables -t nat -S` of a host with it), without Docker."""

# The network of Docker's bridge, and the container's addresses.
GATEWAY, CONTAINER, PREFIX = ("172.17.0.1", "fd00:d::1"), ("172.17.0.2", "fd00:d::2"), ("172.17.0.0/16", "fd00:d::/64")
_FILTER = """
-P FORWARD DROP
-N DOCKER
-N DOCKER-ISOLATION-STAGE-1
-N DOCKER-ISOLATION-STAGE-2
-N DOCKER-USER
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER -j RETURN
-t nat -N DOCKER
-t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-t nat -A OUTPUT ! -d {loopback} -m addrtype --dst-type LOCAL -j DOCKER
-t nat -A POSTROUTING -s {prefix} ! -o docker0 -j MASQUERADE
-t nat -A DOCKER -i docker0 -j RETURN
"""
# `docker run --publish PORT:TO`, of the family's container.
_PUBLISH = """
-t nat -A POSTROUTING -s {container} -d {container} -p tcp -m tcp --dport {to} -j MASQUERADE
-t nat -A DOCKER ! -i docker0 -p tcp -m tcp --dport {port} -j DNAT --to-destination {target}:{to}
-A DOCKER -d {container} ! -i docker0 -o docker0 -p tcp -m tcp --dport {to} -j ACCEPT
"""
# What Docker removes when it starts again, before it makes its rules.
_FLUSH = ("-F DOCKER", "-F DOCKER-ISOLATION-STAGE-1", "-F DOCKER-ISOLATION-STAGE-2", "-F DOCKER-USER", "-F FORWARD", "-t nat -F")
_CHAINS = ("-X DOCKER", "-X DOCKER-ISOLATION-STAGE-1", "-X DOCKER-ISOLATION-STAGE-2", "-X DOCKER-USER", "-t nat -X DOCKER")


class Docker:
    """Docker on `host` with one `container`. `variant` is nft or legacy, the two kinds of iptables."""

    def __init__(self, lab, host, variant="nft"):
        self.host = host
        self.variant = variant
        self.container = lab.host("container")
        host.ip(
            "link add docker0 type bridge stp_state 0 mcast_snooping 0",
            *(f"address add {gateway}/{prefix.partition('/')[2]} dev docker0 {'nodad' if ':' in gateway else ''}" for gateway, prefix in zip(GATEWAY, PREFIX, strict=True)),
            "link set docker0 up",
            f"link add veth0 type veth peer name eth0 netns {self.container.namespace}",
            "link set veth0 master docker0",
            "link set veth0 up",
        )
        self.container.ip(
            "link set eth0 up",
            f"address add {CONTAINER[0]}/16 dev eth0",
            f"address add {CONTAINER[1]}/64 dev eth0 nodad",
            *(f"route add default via {gateway}" for gateway in GATEWAY),
        )
        # Docker switches IPv4 on for the whole host, and IPv6 if it is told to use it.
        host.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        self.make_rules()

    def make_rules(self):
        """Runs the commands of Docker's start."""
        for six in (False, True):
            self._run(six, _FILTER.format(loopback="::1/128" if six else "127.0.0.0/8", prefix=PREFIX[six]).strip().splitlines())

    def restart(self):
        """Makes Docker's rules again, as at its start."""
        for six in (False, True):
            self._run(six, (*_FLUSH, *_CHAINS))
        self.make_rules()

    def publish(self, port, to):
        """Leads a port of the host to one of the container."""
        for six in (False, True):
            target = f"[{CONTAINER[1]}]" if six else CONTAINER[0]
            self._run(six, _PUBLISH.format(container=CONTAINER[six], target=target, port=port, to=to).strip().splitlines())

    def _run(self, six, commands):
        program = f"{'ip6tables' if six else 'iptables'}-{self.variant}"
        self.host.run("sh", "-ec", "\n".join(f"{program} --wait {command}" for command in commands))
