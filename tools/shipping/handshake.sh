# Two nodes of another processor shake hands and ping each other through their tunnel, in network namespaces of their own. Runs in the root, in namespaces that end with it.
#
#   handshake.sh PROGRAM REGISTRATION     REGISTRATION for binfmt_misc; - where the program runs without qemu
set -eu
umask 077
program=$1 registration=$2
mount -t tmpfs tmpfs /run
[ -e /dev/net/tun ] || { echo 'handshake: /dev/net/tun is missing' >&2; exit 2; }
if [ "$registration" != - ]; then
    # `taut wg` starts itself again, so qemu alone is not enough. The registration belongs to this user namespace (Linux 6.7).
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || { echo 'handshake: binfmt_misc of its own needs Linux 6.7' >&2; exit 2; }
    printf '%s' "$registration" >/proc/sys/fs/binfmt_misc/register
fi
unshare --net sleep 600 & one=$!
unshare --net sleep 600 & two=$!
until [ "$(readlink /proc/$one/ns/net)" != "$(readlink /proc/$$/ns/net)" ] && [ "$(readlink /proc/$two/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
in_one() { nsenter --net=/proc/$one/ns/net "$@"; }
in_two() { nsenter --net=/proc/$two/ns/net "$@"; }
ip link add cable1 netns $one type veth peer name cable2 netns $two
in_one ip link set lo up; in_two ip link set lo up
in_one ip address add 192.0.2.1/24 dev cable1; in_one ip link set cable1 up
in_two ip address add 192.0.2.2/24 dev cable2; in_two ip link set cable2 up
in_one "$program" wg wg1
in_two "$program" wg wg2
wg genkey >/tmp/one; wg genkey >/tmp/two; wg genpsk >/tmp/shared
public_one=$(wg pubkey </tmp/one) public_two=$(wg pubkey </tmp/two)
in_one wg set wg1 private-key /tmp/one listen-port 51820 peer "$public_two" preshared-key /tmp/shared endpoint 192.0.2.2:51820 allowed-ips 10.9.0.2/32
in_two wg set wg2 private-key /tmp/two listen-port 51820 peer "$public_one" preshared-key /tmp/shared endpoint 192.0.2.1:51820 allowed-ips 10.9.0.1/32
in_one ip address add 10.9.0.1/24 dev wg1; in_one ip link set wg1 up
in_two ip address add 10.9.0.2/24 dev wg2; in_two ip link set wg2 up
in_one ping -c 5 -i 0.2 -W 5 10.9.0.2 >/tmp/ping || { cat /tmp/ping >&2; exit 1; }
in_one ping -c 3 -i 0.2 -W 5 -s 1372 10.9.0.2 >>/tmp/ping || { cat /tmp/ping >&2; exit 1; }
[ "$(wg show wg1 latest-handshakes | cut -f 2)" -gt 0 ]
tail -n 1 /tmp/ping
