"""Bulk data over the overlay arrives unchanged, in both directions at once."""

from lab.traffic.flow import Transfer


def test_bulk_transfers_in_both_directions_arrive_whole(mesh):
    net = mesh(nodes=2)
    one, two = net.nodes
    net.connect()
    size = 100_000_000
    there = Transfer(one.host, two.host, two.ipv4, size=size)
    back = Transfer(two.host, one.host, one.ipv6, size=size)
    for transfer in (there, back):
        result = transfer.finish()
        assert result["equal"]
        assert result["bytes"] == size
        print(f"{size * 8 / result['seconds'] / 1e6:.0f} Mbit/s")
    counted = two.peer(one.name)
    assert counted["rx_bytes"] > size and counted["tx_bytes"] > size


def test_one_node_serves_several_peers_at_once(mesh):
    net = mesh(nodes=3)
    hub, *others = net.nodes
    net.connect()
    transfers = [Transfer(other.host, hub.host, hub.ipv4, size=20_000_000) for other in others]
    assert all(transfer.finish()["equal"] for transfer in transfers)
