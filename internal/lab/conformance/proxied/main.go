// Proxied is a proxy of the program everything, which must be in the same folder, for the
// conformance suite:
//
//	proxied -http ADDRESS
//
// The environment variable PROXIED_ERA selects the protocol era between the proxy and
// everything: modern (default) or legacy.
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

// detach disconnects the client during the call of test_reconnection, as the tool itself
// does. A proxy cannot forward the disconnection.
func detach(next mcp.Handler) mcp.Handler {
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
	frontend := server.New(mcp.Implementation{Name: "proxied", Version: "1.0.0"}, &server.Options{
		Middleware: []mcp.Middleware{detach},
	})
	era := client.Modern
	if os.Getenv("PROXIED_ERA") == "legacy" {
		era = client.Legacy
	}
	if err := frontend.Mount(bridge.Proxy(everything, &bridge.ProxyOptions{Era: era}), nil); err != nil {
		return err
	}
	if err := frontend.Start(ctx); err != nil {
		return err
	}
	endpoint := streamable.Handler(frontend, nil)
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
		return errors.Join(err, frontend.Shutdown(ctx), endpoint.Close())
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(frontend.Shutdown(ending), endpoint.Close(), web.Close())
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
