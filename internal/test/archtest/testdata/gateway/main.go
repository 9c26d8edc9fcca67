// Gateway is a bridge with a policy, approvals and accepted definitions, over HTTP. A test measures what the console adds to it.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/approval/page"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	parsed, err := policy.Parse([]byte(`{"rules": [{"effect": "ask"}]}`))
	if err != nil {
		log.Fatal(err)
	}
	rules, err := policy.Compile(parsed)
	if err != nil {
		log.Fatal(err)
	}
	asked, err := channel.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	servers, err := bridge.New(nil, bridge.Config{Alias: "files", Dialer: streamable.Dial("http://localhost:8080/mcp", nil)})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, &server.Options{Guards: []mcp.Guard{approval.Guard(rules, asked, nil)}})
	lock := pin.NewLock("mcp.lock")
	if err := s.Mount(pin.Wrap(servers, "all", lock, nil), nil); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", streamable.Handler(s, nil))
	mux.Handle("/approval", asked)
	mux.Handle("/approvals/", page.Handler(nil))
	addConsole(mux, s, servers, lock)
	web := &http.Server{Addr: "localhost:8900", Handler: mux, ReadHeaderTimeout: time.Minute}
	log.Fatal(web.ListenAndServe())
}
