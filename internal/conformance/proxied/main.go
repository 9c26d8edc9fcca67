// Proxied serves what the program everything, which lies beside it, serves: through a
// proxy, for the conformance suite.
//
//	proxied -http ADDRESS
//
// The variable PROXIED_ERA says in which era the two speak with each other: modern, the
// default, or legacy. All else is as in everything.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	address := flag.String("http", "127.0.0.1:0", "the `address` to serve at")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *address)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxied:", err)
		os.Exit(1)
	}
}

// hangUp does on this hop what the tool does on its own: whether a client is sent away
// while a call runs is nothing that a proxy could pass on.
func hangUp(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if string(call.Member("name")) == `"test_reconnection"` {
			call.Detach(500 * time.Millisecond)
		}
		return next(ctx, call)
	}
}

func serve(ctx context.Context, address string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	everything := stdio.Command(filepath.Join(filepath.Dir(self), "everything"), nil, nil)
	face := server.New(mcp.Implementation{Name: "proxied", Version: "1.0.0"}, &server.Options{
		Middleware: []mcp.Middleware{hangUp},
	})
	era := client.Modern
	if os.Getenv("PROXIED_ERA") == "legacy" {
		era = client.Legacy
	}
	if err := face.Mount(bridge.Proxy(everything, &bridge.ProxyOptions{Era: era}), nil); err != nil {
		return err
	}
	if err := face.Start(ctx); err != nil {
		return err
	}
	endpoint := streamable.Handler(face, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	fmt.Fprintf(os.Stderr, "serving http://%s/mcp\n", listener.Addr())
	select {
	case err := <-served:
		return errors.Join(err, face.Shutdown(ctx), endpoint.Close())
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(face.Shutdown(ending), endpoint.Close(), web.Close())
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
