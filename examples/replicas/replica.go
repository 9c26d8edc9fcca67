package main

import (
	"context"
	"crypto/sha256"
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
	"github.com/dovetail-go/dovetail/transport/store/redis"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Environment variables of a replica.
const (
	envStore  = "REPLICAS_STORE"  // URL of the store
	envToken  = "REPLICAS_TOKEN"  // token of a NATS server
	envLedger = "REPLICAS_LEDGER" // URL of the ledger
	envKey    = "REPLICAS_KEY"    // secret of all replicas
)

// drain is how long a replica that ends serves requests that are on the way to it.
const drain = 200 * time.Millisecond

// runReplica serves until the standard input ends. It prints its address.
func runReplica() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the parent closes it, or ends
		time.Sleep(drain)
		cancel()
	}()
	shared, err := openStore(ctx, os.Getenv(envStore))
	if err != nil {
		return err
	}
	defer shared.Close()
	srv, err := newServer(context.WithoutCancel(ctx), shared)
	if err != nil {
		return err
	}
	return streamable.Serve(ctx, "127.0.0.1:0", srv, &streamable.ServeOptions{
		OnListen: func(address net.Addr) { fmt.Println(address) },
	})
}

// A closableStore is what the engines return.
type closableStore interface {
	store.Store
	Close() error
}

func openStore(ctx context.Context, url string) (closableStore, error) {
	if strings.HasPrefix(url, "nats://") {
		return nats.Connect(ctx, url, &nats.Options{Prefix: "replicas", Token: os.Getenv(envToken)})
	}
	return redis.Connect(ctx, url, &redis.Options{Prefix: "replicas"})
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
func newServer(ctx context.Context, shared store.Store) (*server.Server, error) {
	key := sha256.Sum256([]byte(os.Getenv(envKey)))
	s := server.New(mcp.Implementation{Name: "orders", Version: "1.0.0"}, &server.Options{
		Store:     shared,
		StateKeys: [][]byte{key[:]},
		Logger:    slog.New(slog.DiscardHandler),
	})
	// A change that one replica makes is announced by all of them.
	_, err := shared.Subscribe(ctx, "orders", func(context.Context, store.Message) { s.ResourceUpdated(ordersURI) })
	if err != nil {
		return nil, err
	}
	execute := func(ctx context.Context, call string) (string, error) {
		if err := execute(ctx, call); err != nil {
			return "", err
		}
		return "done " + call, shared.Publish(ctx, "orders", nil)
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
	return s, nil
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
