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
	webhooks "github.com/dovetail-go/dovetail/server/webhook/delivery"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
	"github.com/dovetail-go/dovetail/transport/store/postgres"
	"github.com/dovetail-go/dovetail/transport/store/redis"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Environment variables of a replica.
const (
	envStore    = "REPLICAS_STORE"    // URL of the store, or memoryStore
	envToken    = "REPLICAS_TOKEN"    // token of a NATS server
	envLease    = "REPLICAS_LEASE"    // the lease of the store
	envLedger   = "REPLICAS_LEDGER"   // URL of the ledger
	envListen   = "REPLICAS_LISTEN"   // address; by default any free port
	envReplica  = "REPLICAS_REPLICA"  // number of the replica
	envApprover = "REPLICAS_APPROVER" // token of the person who approves
)

// prefix begins the names of what the replicas store.
const prefix = "replicas"

// memoryStore is the URL of a store in the memory of a replica.
const memoryStore = "memory"

// userHeader names the caller.
const userHeader = "X-User"

// quiet discards the messages about replicas that cannot be reached.
var quiet = slog.New(slog.DiscardHandler)

// drain is how long a replica that ends serves requests that are on the way to it.
const drain = 200 * time.Millisecond

// runReplica serves until the standard input ends. It prints its address.
func runReplica() error {
	ctx, cancel := untilInputEnds()
	defer cancel()
	shared, err := openReplicaStore(ctx)
	if err != nil {
		return err
	}
	defer shared.Close()
	webhooks, err := newWebhooks(shared)
	if err != nil {
		return err
	}
	s := newServer(shared, webhooks)
	addJobs(s)
	addParcels(s)
	approver, err := addTransfer(s, shared)
	if err != nil {
		return err
	}
	return streamable.Serve(ctx, cmp.Or(os.Getenv(envListen), "127.0.0.1:0"), s, &streamable.ServeOptions{
		Options:    streamable.Options{Logger: quiet},
		Drain:      drain,
		Wrap:       withUser,
		Other:      approver,
		OnShutdown: approver.Close,
		OnListen:   func(address net.Addr) { fmt.Println(address) },
	})
}

// withUser takes the caller from a header. Only an example trusts its clients.
func withUser(endpoint http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), r.Header.Get(userHeader))))
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

// limitsOfLease returns the limits of the store. The lease is "" for the default.
func limitsOfLease(lease string) (limits store.Limits, err error) {
	if lease != "" {
		limits.Lease, err = time.ParseDuration(lease)
	}
	return limits, err
}

// openReplicaStore opens the store that the parent process has named.
func openReplicaStore(ctx context.Context) (closableStore, error) {
	limits, err := limitsOfLease(os.Getenv(envLease))
	if err != nil {
		return nil, err
	}
	return openStore(ctx, os.Getenv(envStore), limits)
}

func openStore(ctx context.Context, url string, limits store.Limits) (closableStore, error) {
	switch {
	case url == memoryStore:
		return store.NewMemory(&store.MemoryOptions{Limits: limits})
	case strings.HasPrefix(url, "nats://"):
		replicas := 1
		if strings.Contains(url, ",") { // a cluster of three servers
			replicas = 3
		}
		return nats.Connect(ctx, url, &nats.Options{Prefix: prefix, Token: os.Getenv(envToken), Limits: limits, Replicas: replicas})
	case strings.HasPrefix(url, "postgres://"):
		return postgres.Connect(ctx, url, &postgres.Options{Schema: prefix, Limits: limits})
	}
	return redis.Connect(ctx, url, &redis.Options{Prefix: prefix, Limits: limits})
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
func newServer(shared store.Store, webhooks webhooks.Deliverer) *server.Server {
	s := server.New(mcp.Implementation{Name: "orders", Version: "1.0.0"}, &server.Options{
		Store:    shared,
		Webhooks: webhooks,
		Logger:   quiet,
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
			if err := askIfSure(r, in.Call); err != nil {
				return "", err
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

func askIfSure(r *server.Request, call string) error {
	answer, err := server.Elicit[confirmation](r, "sure", "Order "+call+"?")
	if err == nil && !answer.Sure {
		err = fmt.Errorf("the answer to the question about %s was lost", call)
	}
	return err
}

// execute has the side effect of a call. The ledger counts it.
func execute(ctx context.Context, call string) error {
	_, err := visitLedger(ctx, http.MethodPost, os.Getenv(envReplica)+"/"+call)
	return err
}

func visitLedger(ctx context.Context, method, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, os.Getenv(envLedger)+"/"+path, nil)
	if err != nil {
		return "", err
	}
	web := httptransport.NewClient(func(settings *http.Transport) { settings.DisableKeepAlives = true })
	response, err := web.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
