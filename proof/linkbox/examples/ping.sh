#!/bin/sh
# Two hosts in network namespaces with linkbox between them: 20 ms of delay each way, 5 % loss. Needs root.
# Usage: ping.sh LINKBOX, the path of the program.
set -eu
usage='usage: ping.sh LINKBOX, the path of the program linkbox (cargo build -p taut-linkbox; target/debug/linkbox). Needs root.'
case ${1:-} in
    -h | --help) echo "$usage"; exit 0 ;;
    '') echo "ping.sh: the path of linkbox is missing" >&2; echo "$usage" >&2; exit 2 ;;
esac
[ -x "$1" ] || { echo "ping.sh: $1 is not a program" >&2; echo "$usage" >&2; exit 2; }
linkbox=$1
left=linkbox-left-$$ right=linkbox-right-$$ middle=linkbox-middle-$$
cleanup() {
    [ -z "${bridge:-}" ] || kill "$bridge" 2>/dev/null || true
    for host in "$left" "$right" "$middle"; do ip netns delete "$host" 2>/dev/null || true; done
}
trap cleanup EXIT
for host in "$left" "$right" "$middle"; do ip netns add "$host"; done
number=1
for host in "$left" "$right"; do
    # The middle has one end of each cable, the hosts have the others. Hosts do without offloads, so that packets are those of a wire.
    ip -netns "$middle" link add "end$number" type veth peer name eth0 netns "$host"
    ip -netns "$middle" link set "end$number" up
    ip -netns "$host" address add "192.0.2.$number/24" dev eth0
    ip -netns "$host" link set eth0 up
    ip netns exec "$host" ethtool --offload eth0 tx off gso off tso off >/dev/null
    number=$((number + 1))
done
ip netns exec "$middle" "$linkbox" end1 end2 --both 'delay 20ms loss 5%' --seed 7 --report /dev/null &
bridge=$!
sleep 1
ip netns exec "$left" ping -c 20 -i 0.2 -q 192.0.2.2
