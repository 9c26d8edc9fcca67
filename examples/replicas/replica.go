package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
	"github.com/dovetail-go/dovetail/transport/store/postgres"
	"github.com/dovetail-go/dovetail/transport/store/redis"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Environment variables of a replica.
const (
	envStore  = "REPLICAS_STORE"  // URL of the store
	envToken  = "REPLICAS_TOKEN"  // token of a NATS server
	envLedger = "REPLICAS_LEDGER" // URL of the ledger
	envListen = "REPLICAS_LISTEN" // address; by default any free port
)

// drain is how long a replica that ends serves requests that are on the way to it.
const drain = 200 * time.Millisecond

// runReplica serves until the standard input ends. It prints its address.
func runReplica() error {
	ctx, cancel := untilInputEnds()
	defer cancel()
	shared, err := openStore(ctx, os.Getenv(envStore), store.Limits{})
	if err != nil {
		return err
	}
	defer shared.Close()
	return streamable.Serve(ctx, cmp.Or(os.Getenv(envListen), "127.0.0.1:0"), newServer(shared), &streamable.ServeOptions{
		Drain:    drain,
		OnListen: func(address net.Addr) { fmt.Println(address) },
	})
}

// untilInputEnds returns a context that ends when the parent process closes the standard input, or ends.
func untilInputEnds() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}

// A closableStore is what the engines return.
type closableStore interface {
	store.Store
	Close() error
}

func openStore(ctx context.Context, url string, limits store.Limits) (closableStore, error) {
	switch {
	case strings.HasPrefix(url, "nats://"):
		return nats.Connect(ctx, url, &nats.Options{Prefix: "replicas", Token: os.Getenv(envToken), Limits: limits})
	case strings.HasPrefix(url, "postgres://"):
		return postgres.Connect(ctx, url, &postgres.Options{Schema: "replicas", Limits: limits})
	}
	return redis.Connect(ctx, url, &redis.Options{Prefix: "replicas", Limits: limits})
}

type callIn struct {
	Call string `json:"call" jsonschema_description:"id of the call"`
}

type confirmation struct {
	Sure bool `json:"sure"`
}

const (
	ordersURI = "orders://count"
	stages    = 10 // of a report
)

// newServer returns the server of which every replica runs a copy.
func newServer(shared store.Store) *server.Server {
	s := server.New(mcp.Implementation{Name: "orders", Version: "1.0.0"}, &server.Options{
		Store:  shared,
		Logger: slog.New(slog.DiscardHandler),
	})
	execute := func(ctx context.Context, call string) (string, error) {
		if err := execute(ctx, call); err != nil {
			return "", err
		}
		s.ResourceUpdated(ordersURI) // for the subscribers of all replicas
		return "done " + call, nil
	}

	server.AddTool(s, server.Tool{Name: "order", Description: "Place an order."},
		func(ctx context.Context, _ *server.Request, in callIn) (string, error) {
			return execute(ctx, in.Call)
		})

	server.AddTool(s, server.Tool{Name: "ask", Description: "Place an order after a question."},
		func(ctx context.Context, r *server.Request, in callIn) (string, error) {
			answer, err := server.Elicit[confirmation](r, "sure", "Order "+in.Call+"?")
			if err != nil {
				return "", err
			}
			if !answer.Sure {
				return "", fmt.Errorf("the answer to the question about %s was lost", in.Call)
			}
			return execute(ctx, in.Call)
		})

	// A client of 2025-11-25 is disconnected in the middle, and resumes the stream at another
	// replica.
	server.AddTool(s, server.Tool{Name: "stream", Description: "Place an order in stages."},
		func(ctx context.Context, r *server.Request, in callIn) (string, error) {
			for stage := 1; stage <= stages; stage++ {
				if err := r.Progress(ctx, float64(stage), stages, in.Call); err != nil {
					return "", err
				}
				if stage == stages/2 {
					r.Detach(10 * time.Millisecond)
				}
				time.Sleep(10 * time.Millisecond) // the work of a stage
			}
			return execute(ctx, in.Call)
		})

	server.AddResource(s, server.Resource{URI: ordersURI, Description: "The number of orders."},
		func(ctx context.Context, _ *server.Request) (string, error) {
			return visitLedger(ctx, http.MethodGet, "")
		})
	return s
}

// execute has the side effect of a call. The ledger counts it.
func execute(ctx context.Context, call string) error {
	_, err := visitLedger(ctx, http.MethodPost, call)
	return err
}

func visitLedger(ctx context.Context, method, call string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, os.Getenv(envLedger)+"/"+call, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
