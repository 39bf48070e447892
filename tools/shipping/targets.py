"""The processors that packages are built for, the kinds of packages, and the pinned versions of what builds them."""

from dataclasses import dataclass

# The Debian release of the root in which everything is built: its Rust is new enough, and has the source of the standard library.
SUITE = "trixie"
# Packages of that root. Rust and the source of its standard library, a C compiler for what runs during a build, Python for zig, Go for nfpm, and what runs
# two nodes of another processor.
ROOT_PACKAGES = (
    *("ca-certificates", "cargo-web", "rustc-web", "rust-web-src", "gcc", "libc6-dev", "python3", "python3-pip", "golang-go"),
    *("mount", "qemu-user", "iproute2", "iputils-ping", "wireguard-tools"),
)
# zig is the C compiler and the linker for every target. The files are pinned by their hashes, in requirements.txt.
NFPM = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0"


@dataclass(frozen=True)
class Program:
    """A program, which is a package and an image of its own."""

    name: str
    # The package of cargo.
    crate: str
    summary: str
    # Features of that package, where it is not built with its own choice.
    features: tuple | None = None
    # The package that this one stands in for: its program has that name, and a host has one of the two.
    instead_of: str = ""
    # Kinds of packages. A program without oci has no image.
    kinds: tuple = ("deb", "rpm", "apk", "archlinux", "ipk", "oci")

    @property
    def installed(self):
        """The name of the program on a host."""
        return self.instead_of or self.name


NODE = Program("taut", "taut", "node of Taut, an encrypted overlay network that speaks WireGuard")
TINY = Program("taut-tiny", "taut", "node of Taut for routers with little flash, without TLS and what the router's own system does", features=(), instead_of="taut", kinds=("ipk",))
RELAY = Program("taut-relay", "taut-relay-server", "relay for nodes of Taut networks that no direct path connects")
COORDINATOR = Program("taut-coordinator", "taut-coordinator", "coordinator of Taut networks: members, addresses and policy")
# A package of its own, because a router has a TUN device and no room to waste; and in the image of the node, because containers often have no TUN device.
USERSPACE = Program("taut-userspace", "taut-userspace", "network of a Taut node without a TUN device: proxies and port forwards")
PROGRAMS = (NODE, TINY, USERSPACE, RELAY, COORDINATOR)


@dataclass(frozen=True)
class Target:
    """A processor."""

    name: str
    rust: str
    programs: tuple
    # The processor's name in each kind of package. A kind without a name is not made: no system with such packages runs on this processor.
    deb: str = ""
    rpm: str = ""
    apk: str = ""
    archlinux: str = ""
    ipk: str = ""
    # Architecture and variant of an image (OCI image specification, config.md). Empty: no image.
    oci: str = ""
    # The program of qemu that runs this target's programs elsewhere.
    qemu: str = ""
    # True if its programs can only run at the address for which they were linked.
    fixed: bool = False
    # True if LLVM outlines what is marked for that (SELDOM in programs.py).
    outlined: bool = False


TARGETS = (
    Target("x86-64", "x86_64-unknown-linux-musl", PROGRAMS, "amd64", "x86_64", "x86_64", "x86_64", "x86_64", "amd64", outlined=True),
    Target("aarch64", "aarch64-unknown-linux-musl", PROGRAMS, "arm64", "aarch64", "aarch64", "aarch64", "aarch64_generic", "arm64", "qemu-aarch64"),
    # Raspberry Pi 2 and later with a 32-bit system. A coordinator belongs on a larger host.
    Target("armv7", "armv7-unknown-linux-musleabihf", (NODE, TINY, USERSPACE, RELAY), "armhf", "armv7hl", "armv7", "armv7h", "arm_cortex-a7_neon-vfpv4", "arm/v7", "qemu-arm"),
    # Routers: MediaTek MT7621 and older Ralinks, and the big-endian Atheros AR71xx to QCA95xx. Nobody builds other packages for them.
    Target("mipsel", "mipsel-unknown-linux-musl", (NODE, TINY, RELAY), ipk="mipsel_24kc", qemu="qemu-mipsel", fixed=True),
    Target("mips", "mips-unknown-linux-musl", (NODE, TINY, RELAY), ipk="mips_24kc", qemu="qemu-mips", fixed=True),
)
KINDS = ("deb", "rpm", "apk", "archlinux", "ipk")


def there(source, programs):
    """Returns those of these programs that a source has: release 0.1.0 had no userspace network."""
    return tuple(program for program in programs if program is not USERSPACE or (source / "apps" / "userspace").exists())


def named(name):
    """Returns the target of this name."""
    found = [target for target in TARGETS if target.name == name]
    if not found:
        raise SystemExit(f"packages: there is no target {name}; there are {', '.join(target.name for target in TARGETS)}")
    return found[0]
