// Observe runs a server, a bridge and a client that report to OpenTelemetry, and prints what they
// report: the trace of two calls, and the metrics as Prometheus reads them. It does so once in each era
// of the protocol.
//
//	go run -C examples/observe .
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/mcp/otelmcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		if err := observe(ctx, era, os.Stdout); err != nil {
			log.Fatal(err)
		}
	}
}

// observe starts a shop, a bridge to it and a client of the bridge, and buys tea and gold.
func observe(ctx context.Context, era client.Era, out io.Writer) error {
	all := new(collector)
	shop, err := newService("shop", all)
	if err != nil {
		return err
	}
	front, err := newService("bridge", all)
	if err != nil {
		return err
	}
	agent, err := newService("agent", all)
	if err != nil {
		return err
	}

	shopURL, stopShop, err := serve(newShop(shop))
	if err != nil {
		return err
	}
	bridged, err := newBridge(front, streamable.Dial(shopURL, nil), era)
	if err != nil {
		return errors.Join(err, stopShop())
	}
	bridgeURL, stopBridge, err := serve(bridged)
	if err != nil {
		return errors.Join(err, stopShop())
	}
	err = buy(ctx, agent, streamable.Dial(bridgeURL, nil), era)
	if err = errors.Join(err, stopBridge(), stopShop()); err != nil {
		return err
	}

	fmt.Fprintf(out, "── a trace, era %v ──\n", era)
	all.print(out, "buy")
	for _, s := range []*service{agent, front, shop} {
		fmt.Fprintf(out, "── metrics of %s, era %v ──\n", s.name, era)
		if err := s.print(out); err != nil {
			return err
		}
	}
	return nil
}

// newShop returns a server that reports its calls and sessions. Spans of its functions are children of the spans of the
// calls.
func newShop(s *service) *server.Server {
	telemetry := otelmcp.NewServer(&s.options)
	shop := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, &server.Options{
		Middleware: []mcp.Middleware{telemetry.Middleware},
		OnSession:  telemetry.OnSession,
	})
	type buyIn struct {
		Item string `json:"item" description:"what to buy"`
	}
	server.AddTool(shop, server.Tool{Name: "buy", Description: "Buy an item."}, func(ctx context.Context, _ *server.Request, in buyIn) (string, error) {
		_, span := s.tracer().Start(ctx, "look into the stock")
		defer span.End()
		if in.Item == "gold" {
			span.SetStatus(codes.Error, "sold out")
			return "", fmt.Errorf("%s is sold out: choose another item", in.Item)
		}
		return "bought " + in.Item, nil
	})
	return shop
}

// newBridge returns a server with the tools of another one. It reports the calls that it gets, and
// those that it makes.
func newBridge(s *service, shop transport.Dialer, era client.Era) (*server.Server, error) {
	serving, calling := otelmcp.NewServer(&s.options), otelmcp.NewClient(&s.options)
	logger := slog.New(slog.DiscardHandler)
	servers, err := bridge.New(&bridge.Options{Logger: logger}, bridge.Config{
		Alias: "shop", Dialer: shop, Required: true,
		ProxyOptions: bridge.ProxyOptions{
			Era:        era,
			Middleware: []mcp.Middleware{calling.Middleware},
			OnSession:  calling.OnSession,
		},
	})
	if err != nil {
		return nil, err
	}
	front := server.New(mcp.Implementation{Name: "bridge", Version: "1.0.0"}, &server.Options{
		Middleware: []mcp.Middleware{serving.Middleware},
		OnSession:  serving.OnSession,
		Logger:     logger,
	})
	return front, front.Mount(servers, nil)
}

// buy makes two calls in one trace. The second one fails.
func buy(ctx context.Context, s *service, to transport.Dialer, era client.Era) error {
	telemetry := otelmcp.NewClient(&s.options)
	session, err := client.Connect(ctx, to, &client.Options{
		Era:        era,
		Middleware: []mcp.Middleware{telemetry.Middleware},
		OnSession:  telemetry.OnSession,
	})
	if err != nil {
		return err
	}
	defer session.Close()
	ctx, span := s.tracer().Start(ctx, "buy", trace.WithSpanKind(trace.SpanKindInternal))
	defer span.End()
	for _, item := range []string{"tea", "gold"} {
		if _, err := session.CallTool(ctx, "shop__buy", map[string]string{"item": item}, nil); err != nil {
			return err
		}
	}
	return nil
}

// serve serves over HTTP at a free loopback port.
func serve(s *server.Server) (url string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	endpoint := streamable.Handler(s, nil)
	web := httptransport.NewServer(endpoint)
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	stop = func() error {
		ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := errors.Join(s.Shutdown(ending), endpoint.Close(), web.Shutdown(ending))
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}
	return "http://" + listener.Addr().String(), stop, nil
}
