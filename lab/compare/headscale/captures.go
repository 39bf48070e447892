package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/juanfont/headscale/hscontrol/types/testcapture"
	"tailscale.com/tailcfg"
)

// onlyTests is the category of captures about a policy's own tests. They were taken before the nodes had their new rules.
const onlyTests = "policytest"

// A captured case is what Tailscale's own service answered: headscale's authors sent it policies, and recorded what each node got. The files are in
// headscale's sources.
type captured struct {
	Name    string                 `json:"name"`
	Policy  string                 `json:"policy"`
	Refused string                 `json:"refused,omitempty"`
	Nodes   []node                 `json:"nodes"`
	Rules   [][]tailcfg.FilterRule `json:"rules,omitempty"`
	Peers   [][]int                `json:"peers,omitempty"`
}

// printCaptures writes each capture of a directory as a line.
func printCaptures(directory string) error {
	files, err := filepath.Glob(filepath.Join(directory, "*.hujson"))
	if err != nil {
		return err
	}
	lines := json.NewEncoder(os.Stdout)
	for _, file := range files {
		capture, err := testcapture.Read(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if capture.CaptureError != "" {
			continue
		}
		made, err := caseOf(capture)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := lines.Encode(made); err != nil {
			return err
		}
	}
	return nil
}

func caseOf(capture *testcapture.Capture) (captured, error) {
	made := captured{Name: capture.TestID, Policy: capture.Input.FullPolicy}
	if capture.Input.APIResponseCode != 200 {
		made.Refused = fmt.Sprint("status ", capture.Input.APIResponseCode)
		if body := capture.Input.APIResponseBody; body != nil && body.Message != "" {
			made.Refused = body.Message
		}
	}
	logins := map[string]string{}
	for _, user := range capture.Topology.Users {
		logins[user.Name] = user.Email
	}
	names := slices.Sorted(maps.Keys(capture.Topology.Nodes))
	places := map[netip.Addr]int{}
	for place, name := range names {
		told := capture.Topology.Nodes[name]
		one := node{Name: name, User: logins[told.User], Tags: append([]string{}, told.Tags...), Routes: []netip.Prefix{}}
		for _, text := range []string{told.IPv4, told.IPv6} {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return made, err
			}
			one.Addresses = append(one.Addresses, address)
			places[address] = place
		}
		one.Routes = append(one.Routes, routes(capture.Captures[name])...)
		made.Nodes = append(made.Nodes, one)
	}
	if capture.Category == onlyTests {
		return made, nil
	}
	for _, name := range names {
		made.Rules = append(made.Rules, capture.Captures[name].PacketFilterRules)
		made.Peers = append(made.Peers, seen(capture.Captures[name], places))
	}
	return made, nil
}

// routes returns the approved routes of a node, as its own map tells them. The list in a capture lacks those that the policy had just approved.
func routes(of testcapture.Node) []netip.Prefix {
	var approved []netip.Prefix
	if of.Netmap == nil || !of.Netmap.SelfNode.Valid() {
		return approved
	}
	self := of.Netmap.SelfNode
	for _, prefix := range self.AllowedIPs().All() {
		if !slices.Contains(self.Addresses().AsSlice(), prefix) {
			approved = append(approved, prefix)
		}
	}
	return approved
}

// seen returns the places of the nodes that the map of a node has.
func seen(of testcapture.Node, places map[netip.Addr]int) []int {
	peers := []int{}
	if of.Netmap == nil {
		return peers
	}
	for _, peer := range of.Netmap.Peers {
		for _, address := range peer.Addresses().All() {
			if place, known := places[address.Addr()]; known && !slices.Contains(peers, place) {
				peers = append(peers, place)
			}
		}
	}
	slices.Sort(peers)
	return peers
}
