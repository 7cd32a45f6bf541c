// Command dns is CoreDNS with the plugins that a cluster's own names need and no others: the full
// set compiles for minutes.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which a query passes the plugins; CoreDNS generates this list from its full set.
	dnsserver.Directives = []string{
		"health", "ready", "log", "errors", "cache", "loadbalance", "kubernetes",
	}
	coremain.Run()
}
