#!/bin/sh
# A node in a container without a TUN device, a capability or root. Programs of this host reach the network by the SOCKS5 proxy on port 1080, and peers reach port 8080 of this host
# at port 80 of the node.
#
#   userspace.sh IMAGE TOKEN [NAME]
#
# NAME is the container's, its volume's and the node's; without it the container is `taut`, and the node has this host's name. podman or docker: CONTAINERS=docker userspace.sh …
set -eu
image=$1 token=$2 name=${3:-taut}
run=${CONTAINERS:-podman}

# The host's network: a port that the container listens on at 127.0.0.1 is one of this host. The state survives in the volume; the runtime directory is in memory.
"$run" run --detach --name "$name" --network host --read-only --cap-drop all --security-opt no-new-privileges \
    --volume "$name:/var/lib/taut" --tmpfs /run "$image" \
    daemon --tun userspace --socks5 1080 --publish 80=8080
# By standard input: users of this host see the words of commands.
printf '%s\n' "$token" | "$run" exec -i "$name" /usr/bin/taut up --join - ${3:+--hostname "$3"}
"$run" exec "$name" /usr/bin/taut status
