package console_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A program records the calls of its server, and serves the console beside it.
func ExampleNew() {
	record := console.NewRecorder(&console.RecorderOptions{Bodies: true})
	upstream := bridge.Config{Alias: "files", Dialer: transport.Pipe(newUpstream())}
	record.ObserveUpstream(&upstream)
	servers, err := bridge.New(nil, upstream)
	if err != nil {
		log.Fatal(err)
	}
	var options server.Options
	record.ObserveServer(&options)
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, &options)
	if err := s.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Shutdown(context.Background()) }()

	page, err := console.New(s, servers, &console.Options{Recorder: record})
	if err != nil {
		log.Fatal(err)
	}
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/console/", page)
	fmt.Println("open /console/#token= with a token of", len(page.Token()), "characters")
	// Output: open /console/#token= with a token of 52 characters
}

// Without a bridge, the calls of the server's own tools are recorded.
func ExampleNewRecorder() {
	record := console.NewRecorder(nil) // without arguments and results
	var options server.Options
	record.ObserveServer(&options)
	s := server.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, &options)
	page, err := console.New(s, nil, &console.Options{Recorder: record})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(page)
	// Output: console.Console
}
