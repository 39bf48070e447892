"""The image of the node, by the commands of docs/install.md and docs/containers.md, and the examples of dist/containers as they stand, on a Debian 13 that boots: its docker, its podman with and without root, and its buildah. Needs `make packages`. A small web server has the
names of the examples' images of nginx, because there is no registry."""

import json
import re
import shlex

import pytest

from lab.hosts import needs
from lab.hosts.booted import debian_root
from lab.hosts.programs import ROOT
from lab.hosts.wait import PATIENCE_S, LabError, wait_until
from lab.tests import transcript
from lab.tests.test_packages import NEW, Site, lacking, package

EXAMPLES = ROOT / "dist" / "containers"
DOCKER = ("docker.io", "docker-cli", "docker-compose", "iptables", "curl")
PODMAN = ("podman", "buildah", "crun", "uidmap", "netavark", "aardvark-dns", "passt", "podman-compose", "catatonit", "dbus-user-session", "libpam-systemd", "curl")
# Images of the examples, and the ports of their servers.
SERVERS = {"docker.io/library/nginx:stable": 80, "docker.io/nginxinc/nginx-unprivileged:stable": 8080}
PAGE_OF_PEER = "the page of the peer\n"
# The examples are for a reader at a terminal.
WITHOUT_TERMINAL = {" exec ": " exec -T "}
# A command of an example, in its first lines.
_COMMAND = re.compile(r"^#   (\S.*)$", re.MULTILINE)
# The root lies on an overlay already, and one overlay does not lie on another; and not every machine has the controllers of groups that crun sets limits with.
_PODMAN_SETTINGS = """
printf '[storage]\\ndriver = "vfs"\\nrunroot = "/run/containers/storage"\\ngraphroot = "/var/lib/containers/storage"\\n' > /etc/containers/storage.conf
printf '[containers]\\ncgroups = "disabled"\\n[engine]\\ncgroup_manager = "cgroupfs"\\n' > /etc/containers/containers.conf
"""
_SERVER = """
mkdir -p /srv/bin /srv/www /srv/tmp
cp /tmp/busybox /srv/bin/busybox
echo 'the page' > /srv/www/index.html
chmod -R a+rX /srv
"""
# What `podman` and `docker` have in common: an image out of a folder.
_IMPORT = "tar -C /srv -c . | {engine} import --change 'CMD [\"/bin/busybox\",\"httpd\",\"-f\",\"-p\",\"{port}\",\"-h\",\"/www\"]' - {name}"

pytestmark = [pytest.mark.programs, pytest.mark.skipif(bool(lacking() or needs.missing_reason("curl")), reason=lacking() or needs.missing_reason("curl"))]


class ContainerHost:
    """A host with containers in a network with one other node. `user` is who runs them."""

    def __init__(self, lab, engine, *packages, user=None):
        self.engine = engine
        self.user = user
        self.site = Site(lab, "trixie", *packages)
        self.image = ""

    def __enter__(self):
        self.web = self.site.web.__enter__()
        for file in EXAMPLES.iterdir():
            self.web.copy(file, f"/tmp/{file.name}")
        self.web.copy(package("oci"), "/tmp/image.tar")
        self.web.copy(debian_root("trixie", "busybox-static") / "bin" / "busybox", "/tmp/busybox")
        self.web.run("sh", "-ec", f"chmod 755 /tmp/busybox; chmod a+r /tmp/*\n{_SERVER}")
        if self.engine == "podman":
            self.web.run("sh", "-ec", f"mkdir -p /etc/containers{_PODMAN_SETTINGS}")
        if self.user:
            self.web.run("useradd", "--create-home", self.user)
            # A session of its own, as a user of a host has it who may leave services running.
            self.web.run("loginctl", "enable-linger", self.user)
            wait_until(lambda: self.web.run("systemctl", "is-active", f"user@{self._uid()}", check=False).stdout.strip() == "active", "the user's session")
        for name, port in SERVERS.items():
            self.run(_IMPORT.format(engine=self.engine, port=port, name=name))
        if self.engine == "docker":
            self.image = re.search(r"Loaded image: (\S+)", self.run("docker load -i /tmp/image.tar"))[1]
        else:
            self.image = self.run("podman pull --quiet oci-archive:/tmp/image.tar").split()[-1]
        return self

    def __exit__(self, *failure):
        self.web.__exit__(*failure)

    def _uid(self):
        return self.web.run("id", "-u", self.user).stdout.strip()

    def run(self, script):
        """Runs commands as who runs the containers, and returns their output."""
        words = ["sh", "-ec", f"exec 2>&1\n{script}"]
        if self.user:
            home, runtime = f"/home/{self.user}", f"/run/user/{self._uid()}"
            words = ["runuser", "-u", self.user, "--", "env", "-C", home, f"HOME={home}", f"XDG_RUNTIME_DIR={runtime}", f"DBUS_SESSION_BUS_ADDRESS=unix:path={runtime}/bus", *words]
        done = self.web.run(*words, check=False, timeout=3 * PATIENCE_S)
        if done.returncode != 0:
            raise LabError(f"exit status {done.returncode} of\n{script}\n{done.stdout}{done.stderr}")
        return done.stdout

    def follow(self, name, others):
        """Runs the commands in the first lines of an example, with this image and token, from the folder of the examples. `others` are words that are others here."""
        commands = "\n".join(_COMMAND.findall((EXAMPLES / name).read_text(encoding="utf-8")))
        for written, meant in others.items():
            assert written in commands, commands
            commands = commands.replace(written, meant)
        for written, meant in {"IMAGE": self.image, "TOKEN": self.site.coordinator.join_token}.items():
            commands = re.sub(rf"\b{written}\b", meant, commands)
        return self.run(f"cd /tmp\n{commands}")

    def serves(self):
        """Waits until the other node is shown the page at the address of this one."""
        self.site.peer.wait_for_peers("web")
        url = f"http://{self.site.address()}/"
        wait_until(lambda: self.fetch(self.site.peer.host, url) == "the page\n", "the peer to be shown the page", details=lambda: self.run(f"{self.engine} ps -a"))

    @staticmethod
    def fetch(host, url):
        return host.run("curl", "-sS", "--noproxy", "*", "--max-time", "10", url, check=False).stdout

    def serve_files(self, port):
        """Starts a web server with a page on the other node."""
        host = self.site.peer.host
        (host.state / "www").mkdir(exist_ok=True)
        (host.state / "www" / "index.html").write_text(PAGE_OF_PEER)
        host.start(debian_root("trixie", "busybox-static") / "bin/busybox", "httpd", "-f", "-p", port, "-h", host.state / "www", name=f"httpd-{port}")

    def reaches(self, port=8000):
        """A program of this host reaches the other node through the proxy on port 1080."""
        self.serve_files(port)
        found = wait_until(lambda: self.web.run("curl", "-sS", "--socks5-hostname", "127.0.0.1:1080", f"http://peer:{port}/", check=False).stdout, "an answer through the proxy")
        assert found == PAGE_OF_PEER


@pytest.mark.parametrize(("engine", "packages"), [("podman", PODMAN), ("docker", DOCKER)], ids=("podman", "docker"))
def test_the_commands_of_the_page_run_the_image_with_a_device(lab, engine, packages):
    steps = [step.command for step in transcript.steps(ROOT / "docs" / "install.md") if step.section == "Containers"]
    version = json.loads((NEW / "index.json").read_text())["version"]
    loads = {step.split()[0]: step.replace("VERSION", version) for step in steps[:2]}
    assert list(loads) == ["podman", "docker"]
    name = loads[engine].rpartition("IMAGE is ")[2]
    with ContainerHost(lab, engine, *packages) as host:
        # As if nothing was loaded yet.
        host.run(f"{engine} rmi --force {host.image}\ncd /tmp\ncp image.tar taut_{version}.oci.tar\n{loads[engine]}")
        for step in steps[2:]:
            assert step.startswith("podman ")
            command = step.replace("podman", engine, 1).replace("IMAGE", name).replace("TOKEN", f"{host.site.coordinator.join_token} --hostname web")
            host.run(command)
        host.site.peer.wait_for_peers("web")
        host.site.reach()
        host.run(f"{engine} restart taut")
        host.site.reach()


@pytest.mark.parametrize(("engine", "packages", "user"), [("podman", PODMAN, "user"), ("docker", DOCKER, None)], ids=("podman-rootless", "docker"))
def test_the_script_for_a_node_without_a_device_makes_one_that_serves_and_has_a_proxy(lab, engine, packages, user):
    with ContainerHost(lab, engine, *packages, user=user) as host:
        before = host.site.traces()[1] if user else None
        host.run(f"CONTAINERS={engine} sh /tmp/userspace.sh {host.image} {shlex.quote(host.site.coordinator.join_token)} web")
        assert before is None or host.site.traces()[1] == before, "nothing of the host's network is changed"
        host.web.run("/tmp/busybox", "httpd", "-p", "127.0.0.1:8080", "-h", "/srv/www")
        host.serves()
        host.reaches()
        host.run(f"{engine} restart web")
        host.serves()


@pytest.mark.parametrize("example", ["compose.yaml", "shared-namespace.yaml"])
def test_docker_compose_runs_the_examples(lab, example):
    with ContainerHost(lab, "docker", *DOCKER) as host:
        host.follow(example, WITHOUT_TERMINAL)
        host.serves()
        # One after the other: a container in the network of another one loses it when that one starts again.
        host.run(f"cd /tmp\nexport TAUT_IMAGE={host.image}\ndocker compose -p {'taut-web' if example == 'compose.yaml' else 'taut-shared'} -f {example} restart")
        host.serves()


@pytest.mark.parametrize(("example", "user"), [("compose.yaml", "user"), ("shared-namespace.yaml", None)])
def test_podman_compose_runs_the_examples(lab, example, user):
    with ContainerHost(lab, "podman", *PODMAN, user=user) as host:
        host.follow(example, {"docker compose": "podman-compose", **WITHOUT_TERMINAL})
        host.serves()


@pytest.mark.parametrize("user", ["user", None], ids=("rootless", "root"))
def test_podman_runs_the_pod_of_the_example_for_kubernetes(lab, user):
    with ContainerHost(lab, "podman", *PODMAN, user=user) as host:
        host.run(f"sed 's|image: IMAGE|image: {host.image}|' /tmp/kubernetes-sidecar.yaml > /tmp/pod.yaml")
        host.follow("kubernetes-sidecar.yaml", {"kubectl apply -f kubernetes-sidecar.yaml": "podman kube play pod.yaml", "kubectl exec web -c taut --": "podman exec web-taut"})
        host.serves()
        # The probes of the example, which podman runs only in part.
        assert "taut_" in host.run("podman exec web-taut /usr/bin/taut metrics --socket /run/taut/taut.sock")
        host.run("podman exec web-taut /usr/bin/taut status --socket /run/taut/taut.sock")


def test_buildah_runs_the_program_of_the_image_and_puts_it_into_another_one(lab):
    with ContainerHost(lab, "podman", *PODMAN) as host:
        # Not every machine lets root raise the limits that buildah has as defaults.
        run, limits = "buildah run --isolation chroot", "--ulimit nofile=1024 --ulimit nproc=1024"
        said = host.run(f"node=$(buildah from {limits} oci-archive:/tmp/image.tar)\n{run} $node /usr/bin/taut version")
        other = f"other=$(buildah from {limits} scratch)\nbuildah copy --quiet --from oci-archive:/tmp/image.tar $other /usr/bin/taut /taut\n{run} $other /taut version"
        assert version_in(said) == version_in(host.run(other))


def version_in(output):
    """Returns the version that `taut version` printed."""
    return re.search(r"^taut (\S+)$", output, re.MULTILINE)[1]


def test_a_user_without_a_right_follows_the_page_from_the_packages_to_the_proxies(lab):
    steps = [step for step in transcript.steps(ROOT / "docs" / "containers.md") if step.section == "Userspace"]
    with ContainerHost(lab, "podman", *PODMAN, user="user") as host:
        for file in (package("deb"), package("deb", name="taut-userspace")):
            host.web.copy(file, f"/root/{file.name}")
        host.web.run("sh", "-ec", f"cd\n{steps[0].command}", timeout=3 * PATIENCE_S)
        for port in (80, 22):
            host.serve_files(port)
        said = [said_in(step) for step in steps[1:]]
        assert [command.split()[0] for command in said] == ["export", "taut", "curl", "curl", "ssh"]
        meant = {"TOKEN": f"{host.site.coordinator.join_token} --hostname web", "nas": "peer", "ssh -p 2222 127.0.0.1": "curl -sSf http://127.0.0.1:2222/"}
        script = "\n".join(said)
        for written, here in meant.items():
            script = script.replace(written, here)
        # Two pages by the proxies, and one by the forward to port 22, where a page is here.
        assert host.run(script).count(PAGE_OF_PEER) == 3
        host.web.run("/tmp/busybox", "httpd", "-p", "127.0.0.1:8080", "-h", "/srv/www")
        host.serves()


def said_in(step):
    """Returns a command with the lines on which it goes on."""
    return "\n".join([step.command, *(step.shown if step.command.endswith("\\") else ())])
