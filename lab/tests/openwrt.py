"""A stand-in for OpenWrt: a root with busybox, and the parts of procd and uci that a script of /etc/init.d uses.

It is no OpenWrt. It calls the script as rc.common does, gives it the settings of /etc/config, and runs what the script tells procd to run.
"""

import shutil
import subprocess
from pathlib import Path

from lab.hosts.namespace import call
from lab.hosts.programs import ROOT, binary

# A busybox that needs no libraries, in the root that `tools/units` makes.
BUSYBOX = ROOT / "target/debian13/usr/bin/busybox"
RC_COMMON = """
initscript=$1 action=${2:-help}
. /lib/functions.sh
. /lib/procd.sh
start() { start_service; procd_keep; }
stop() { procd_kill; }
boot() { start; }
reload() { start; }
running() { procd_running; }
. $initscript
case $action in
start|stop|boot|reload|running) $action ;;
restart) stop; start ;;
*) exit 1 ;;
esac
"""
# Settings are kept as lines SECTION<tab>KIND<tab>NAME<tab>VALUE.
FUNCTIONS = """
TAB='	'
config_load() {
    local section= line
    : > /tmp/config
    while read -r line; do
        case $line in ''|'#'*) continue ;; esac
        eval "set -- $line"
        case $1 in
        config) section=$3; printf '%s\\tconfig\\t%s\\t\\n' "$section" "$2" >> /tmp/config ;;
        option|list)
            ${1}_cb "$2" "$3"
            printf '%s\\t%s\\t%s\\t%s\\n' "$section" "$1" "$2" "$3" >> /tmp/config ;;
        esac
    done < /etc/config/$1
}
config_foreach() {
    local call=$1 type=$2 name
    for name in $(awk -F '\\t' -v type="$type" '$2 == "config" && $3 == type { print $1 }' /tmp/config); do $call $name; done
}
config_get() {
    local _got
    _got=$(awk -F '\\t' -v section="$2" -v name="$3" '$1 == section && $2 == "option" && $3 == name { print $4 }' /tmp/config)
    export -n "$1=${_got:-$4}"
}
config_get_bool() {
    local found
    config_get found "$2" "$3" "$4"
    case $found in 1|on|true|yes|enabled) found=1 ;; *) found=0 ;; esac
    export -n "$1=$found"
}
config_list_foreach() {
    local call=$3 value
    awk -F '\\t' -v section="$1" -v name="$2" '$1 == section && $2 == "list" && $3 == name { print $4 }' /tmp/config > /tmp/list
    while read -r value; do $call "$value"; done < /tmp/list
}
"""
# An instance is a directory with one file per parameter, one word per line; `pid` is its process.
PROCD = """
INSTANCES=/tmp/procd
mkdir -p $INSTANCES
wanted=
procd_open_instance() { instance=$INSTANCES/$1; wanted="$wanted $1"; rm -rf $instance.new; mkdir $instance.new; }
procd_append_param() { local key=$1; shift; printf '%s\\n' "$@" >> $instance.new/$key; }
procd_set_param() { rm -f $instance.new/$1; procd_append_param "$@"; }
procd_add_reload_trigger() { :; }
procd_end() { [ ! -f $1/pid ] || { kill $(cat $1/pid); while [ -d /proc/$(cat $1/pid) ]; do sleep 0.05; done; rm $1/pid; }; }
procd_close_instance() {
    if cmp -s $instance/command $instance.new/command && cmp -s $instance/env $instance.new/env && kill -0 $(cat $instance/pid); then rm -rf $instance.new; return; fi
    procd_end $instance
    rm -rf $instance; mv $instance.new $instance
    (
        set --
        while read -r word; do set -- "$@" "$word"; done < $instance/env
        while read -r word; do set -- "$@" "$word"; done < $instance/command
        exec env "$@" > /dev/null 2>> /tmp/log < /dev/null
    ) &
    echo $! > $instance/pid
}
procd_keep() { for one in $INSTANCES/*; do case " $wanted " in *" ${one##*/} "*) ;; *) [ ! -d $one ] || { procd_end $one; rm -rf $one; } ;; esac; done; }
procd_kill() { wanted=; procd_keep; }
procd_running() { for one in $INSTANCES/*; do [ -f $one/pid ] && kill -0 $(cat $one/pid) && return; done; return 1; }
"""
# `uci` keeps the firewall's and the network's settings as lines, for `set`, `get`, `delete` and `batch`.
UCI = """#!/bin/sh
[ "$1" != -q ] || shift
store=/tmp/uci
touch $store
one() {
    case $1 in
    set) echo "$2" | tr -d "'" >> $store ;;
    get) grep -q "^$2[.=]" $store || exit 1 ;;
    delete) grep -q "^$2[.=]" $store || exit 1; grep -v "^$2[.=]" $store > $store.new; mv $store.new $store ;;
    commit) : ;;
    *) echo "uci: $1" >&2; exit 1 ;;
    esac
}
case $1 in batch) while read -r line; do [ -z "$line" ] || one $line; done ;; *) one "$@" ;; esac
"""


def make(root):
    """Makes the root, with the program in it."""
    for folder in ("bin", "sbin", "usr/bin", "etc/init.d", "etc/config", "lib", "tmp/run", "dev/net", "proc", "sys"):
        (root / folder).mkdir(parents=True)
    (root / "var").symlink_to("tmp")
    shutil.copy(BUSYBOX, root / "bin/busybox")
    for name in subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to("busybox")
    libraries = [word for word in subprocess.run(["ldd", binary("taut")], capture_output=True, text=True, check=False).stdout.split() if word.startswith("/")]
    for library in libraries:
        (root / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, root / library.lstrip("/"))
    shutil.copy(binary("taut"), root / "usr/bin/taut")
    texts = {"etc/rc.common": RC_COMMON, "lib/functions.sh": FUNCTIONS, "lib/procd.sh": PROCD, "bin/uci": UCI}
    texts |= {"etc/init.d/firewall": "#!/bin/sh\necho $1 >> /tmp/firewall\n", "sbin/procd": "", "tmp/run/ubus.sock": ""}
    for path, text in texts.items():
        (root / path).write_text(text)
        (root / path).chmod(0o755)


class OpenWrt:
    """A host whose root is the stand-in. `run` runs a command in it."""

    def __init__(self, host):
        self.host = host
        self.root = host.state / "openwrt"
        make(self.root)
        script = f"mount -t proc proc {self.root}/proc; mount --bind /sys {self.root}/sys; mount --rbind /dev {self.root}/dev; echo ready; exec cat"
        self.mounts = host.start("unshare", "--mount", "--propagation", "private", "sh", "-ec", script, name="mounts")
        self.mounts.wait_for_output("ready")
        host.prefix = ["nsenter", f"--mount=/proc/{self.mounts.pid}/ns/mnt", "chroot", str(self.root), "/bin/env", "-i", "PATH=/usr/bin:/bin:/sbin"]

    def run(self, text, check=True):
        return self.host.run("sh", "-c", text, check=check)

    def processes(self):
        """Returns the names of the programs that run in the host."""
        pids = call("ip", "netns", "pids", self.host.namespace).stdout.split()
        return {Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids if Path(f"/proc/{pid}").exists()}

    def read(self, path):
        file = Path(self.root, path)
        return file.read_text() if file.exists() else ""
