// Command verdicts says which packets pass under a policy, by other people's code: headscale compiles the policy for each node, and the packet filter of
// Tailscale's client applies the result, as it does on a node.
//
// It reads one case per line from standard input and writes one answer per line; core/policy/examples/headscale compares them with Taut's. With a directory as
// its argument it writes the cases that headscale's authors captured from Tailscale's service. It holds no rules of its own: the sources of headscale and of
// the client are used as they are. `tools/peers headscale` builds it inside headscale's module, so that every library has the version that headscale names.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"

	policy "github.com/juanfont/headscale/hscontrol/policy/v2"
	"github.com/juanfont/headscale/hscontrol/types"
	"github.com/rs/zerolog"
	"tailscale.com/tailcfg"
	"tailscale.com/types/ipproto"
	"tailscale.com/wgengine/filter"
)

// longestLine limits a case, 64 MiB: far more than a policy with its nodes and packets needs.
const longestLine = 64 << 20

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

// judge returns the answer to a question.
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

// peers returns for each node the places of the nodes that headscale tells it of.
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
