package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/juanfont/headscale/hscontrol/types"
	"go4.org/netipx"
	"gorm.io/gorm"
	"tailscale.com/net/tsaddr"
	"tailscale.com/tailcfg"
)

// notBehindExit are the addresses that Tailscale's client takes out of a default route (shrinkDefaultRoute in ipn/ipnlocal, which cannot be called from
// here because it also looks at the host's interfaces).
var notBehindExit = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/4"),
	tsaddr.CGNATRange(),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("ff00::/8"),
	tsaddr.TailscaleULARange(),
}

// network returns headscale's users and nodes. A login without a domain is a name, any other one an address for mail.
func (asked question) network() ([]types.User, types.Nodes) {
	var users []types.User
	byLogin := map[string]*types.User{}
	for _, node := range asked.Nodes {
		if node.User == "" || byLogin[node.User] != nil {
			continue
		}
		user := types.User{Model: gorm.Model{ID: uint(len(users) + 1)}, Name: node.User}
		if strings.Contains(node.User, "@") {
			user.Name, user.Email = fmt.Sprintf("user%d", user.ID), node.User
		}
		users = append(users, user)
		byLogin[node.User] = &user
	}
	var nodes types.Nodes
	for place, node := range asked.Nodes {
		made := &types.Node{
			ID:             types.NodeID(place + 1),
			Hostname:       fmt.Sprintf("n%d", place+1),
			User:           byLogin[node.User],
			Tags:           node.Tags,
			ApprovedRoutes: node.Routes,
			Hostinfo:       &tailcfg.Hostinfo{RoutableIPs: node.Routes},
		}
		if made.User != nil {
			made.UserID = &made.User.ID
		}
		for _, address := range node.Addresses {
			if address.Is4() {
				made.IPv4 = &address
			} else {
				made.IPv6 = &address
			}
		}
		nodes = append(nodes, made)
	}
	return users, nodes
}

// behind returns the addresses for which the client of a node takes packets: its own, and those of its routes.
func behind(node *types.Node) (*netipx.IPSet, error) {
	var local netipx.IPSetBuilder
	for _, route := range node.ApprovedRoutes {
		if route.Bits() == 0 {
			local.AddPrefix(route)
		}
	}
	for _, prefix := range notBehindExit {
		local.RemovePrefix(prefix)
	}
	for _, route := range node.ApprovedRoutes {
		if route.Bits() != 0 {
			local.AddPrefix(route)
		}
	}
	for _, address := range node.IPs() {
		local.Add(address)
	}
	return local.IPSet()
}
