// Command control is what tailscaled needs besides its peers, for the lab: the test control server of Tailscale's own module, which lets
// everybody in and everything pass, with a relay (DERP) and STUN in one region. Everything is in memory. It ends when its standard input does.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"

	"tailscale.com/derp/derpserver"
	"tailscale.com/net/stunserver"
	"tailscale.com/tailcfg"
	"tailscale.com/tstest/integration/testcontrol"
	"tailscale.com/types/key"
)

const stunPort = 3478

func main() {
	address := flag.String("address", "", "IPv4 address to listen on")
	port := flag.Int("port", 0, "TCP port of the control server")
	flag.Parse()

	stun := stunserver.New(context.Background())
	must(stun.Listen(net.JoinHostPort(*address, strconv.Itoa(stunPort))))
	go func() { log.Fatal(stun.Serve()) }()

	listener, err := net.Listen("tcp", net.JoinHostPort(*address, strconv.Itoa(*port)))
	must(err)
	control := &testcontrol.Server{
		DERPMap:         derpMap(*address, relay(*address)),
		ExplicitBaseURL: "http://" + listener.Addr().String(),
		// As a real control server says of nodes that are connected; without it a node that restarted is found again more slowly.
		AllOnline: true,
	}
	go func() { log.Fatal(http.Serve(listener, control)) }()

	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

// relay starts a DERP server under a certificate that nobody knows, and returns its port.
func relay(address string) int {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	must(err)
	server := httptest.NewUnstartedServer(derpserver.Handler(derpserver.New(key.NewNode(), log.Printf)))
	server.Listener.Close()
	server.Listener = listener
	// HTTP/1 only: the relay takes over the connection.
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	server.StartTLS()
	return listener.Addr().(*net.TCPAddr).Port
}

// derpMap is one region with one node, whose certificate is not looked at.
func derpMap(address string, port int) *tailcfg.DERPMap {
	node := &tailcfg.DERPNode{
		Name:             "lab",
		RegionID:         1,
		HostName:         address,
		IPv4:             address,
		IPv6:             "none",
		STUNPort:         stunPort,
		DERPPort:         port,
		InsecureForTests: true,
	}
	region := &tailcfg.DERPRegion{RegionID: 1, RegionCode: "lab", Nodes: []*tailcfg.DERPNode{node}}
	return &tailcfg.DERPMap{Regions: map[int]*tailcfg.DERPRegion{1: region}}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
