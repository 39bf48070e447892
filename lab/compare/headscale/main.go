// Command verdicts says which packets pass under a policy, by other people's code: headscale compiles the policy for each node, and the packet filter of
// Tailscale's client applies the result, as it does on a node.
//
// It reads one case per line from standard input and writes one answer per line; core/policy/examples/headscale compares them with Taut's. With a directory as
// its argument it writes the cases that headscale's authors captured from Tailscale's service. It holds no rules
// of its own: the sources of headscale and of the client are used as they are. `tools/peers headscale` builds it inside headscale's module, so that every
// library has the version that headscale names.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	policy "github.com/juanfont/headscale/hscontrol/policy/v2"
	"github.com/juanfont/headscale/hscontrol/types"
	"github.com/rs/zerolog"
	"go4.org/netipx"
	"gorm.io/gorm"
	"tailscale.com/net/tsaddr"
	"tailscale.com/tailcfg"
	"tailscale.com/types/ipproto"
	"tailscale.com/wgengine/filter"
)

// longestLine limits a case, 64 MiB: far more than a policy with its nodes and packets needs.
const longestLine = 64 << 20

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

// A question is one case: a policy, the nodes of a network, and packets. With rules, one list per node, the policy is not compiled.
type question struct {
	Policy  string                 `json:"policy"`
	Nodes   []node                 `json:"nodes"`
	Packets []sentToANode          `json:"packets"`
	Rules   [][]tailcfg.FilterRule `json:"rules"`
}

type node struct {
	Name      string         `json:"name"`
	Addresses []netip.Addr   `json:"addresses"`
	User      string         `json:"user"`
	Tags      []string       `json:"tags"`
	Routes    []netip.Prefix `json:"routes"`
}

type sentToANode struct {
	Node  int        `json:"node"`
	Src   netip.Addr `json:"src"`
	Dst   netip.Addr `json:"dst"`
	Proto uint8      `json:"proto"`
	Port  uint16     `json:"port"`
}

// An answer has the reason for which the policy was refused; or one character per packet, 1 if it passes, else 0, and for each node the places of the nodes
// that it knows.
type answer struct {
	Refused  string  `json:"refused,omitempty"`
	Verdicts string  `json:"verdicts,omitempty"`
	Peers    [][]int `json:"peers,omitempty"`
}

func main() {
	zerolog.SetGlobalLevel(zerolog.Disabled)
	if len(os.Args) > 1 {
		if err := printCaptures(os.Args[1]); err != nil {
			stop(err)
		}
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			stop(err)
		}
		if err := answers.Encode(asked.judge()); err != nil {
			stop(err)
		}
	}
	if err := lines.Err(); err != nil {
		stop(err)
	}
}

func stop(err error) {
	fmt.Fprintln(os.Stderr, "verdicts:", err)
	os.Exit(1)
}

func (asked question) judge() answer {
	users, nodes := asked.network()
	rulesOf := func(place int) ([]tailcfg.FilterRule, error) { return asked.Rules[place], nil }
	var known [][]int
	if asked.Rules == nil {
		manager, err := policy.NewPolicyManager([]byte(asked.Policy), users, nodes.ViewSlice())
		if err != nil {
			return answer{Refused: err.Error()}
		}
		rulesOf = func(place int) ([]tailcfg.FilterRule, error) { return manager.FilterForNode(nodes[place].View()) }
		known = peers(manager, nodes)
	}
	filters := make([]*filter.Filter, len(nodes))
	verdicts := make([]byte, len(asked.Packets))
	for place, packet := range asked.Packets {
		if filters[packet.Node] == nil {
			rules, err := rulesOf(packet.Node)
			if err != nil {
				return answer{Refused: err.Error()}
			}
			filters[packet.Node], err = applied(rules, nodes[packet.Node])
			if err != nil {
				return answer{Refused: err.Error()}
			}
		}
		verdicts[place] = '0'
		if filters[packet.Node].Check(packet.Src, packet.Dst, packet.Port, ipproto.Proto(packet.Proto)) == filter.Accept {
			verdicts[place] = '1'
		}
	}
	return answer{Verdicts: string(verdicts), Peers: known}
}

func peers(manager *policy.PolicyManager, nodes types.Nodes) [][]int {
	known := manager.BuildPeerMap(nodes.ViewSlice())
	all := make([][]int, len(nodes))
	for place, node := range nodes {
		all[place] = []int{}
		for _, peer := range known[node.ID] {
			all[place] = append(all[place], int(peer.ID())-1)
		}
		slices.Sort(all[place])
	}
	return all
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

// applied returns the filter of a node, as its client makes it of the rules that it gets.
func applied(rules []tailcfg.FilterRule, node *types.Node) (*filter.Filter, error) {
	matches, err := filter.MatchesFromFilterRules(rules)
	if err != nil {
		return nil, err
	}
	local, err := behind(node)
	if err != nil {
		return nil, err
	}
	return filter.New(matches, nil, local, nil, nil, nil), nil
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
