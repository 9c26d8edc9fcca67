// Stored serves three replicas of the features for the conformance suite, on a store that is not in memory:
//
//	stored -http ADDRESS [-store redis://HOST:PORT]
//
// Without -store it starts an embedded NATS server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/internal/lab/conformance/features"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
	"github.com/dovetail-go/dovetail/transport/store/redis"
)

func main() {
	address := flag.String("http", "127.0.0.1:0", "the `address` to serve at")
	url := flag.String("store", "", "the `URL` of a Redis server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *address, *url)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stored:", err)
		os.Exit(1)
	}
}

const replicas = 3

func serve(ctx context.Context, address, url string) error {
	dir, err := os.MkdirTemp("", "stored")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	shared, err := open(ctx, dir, url)
	if err != nil {
		return err
	}
	return errors.Join(features.ServeReplicas(ctx, replicas, address, shared, os.Stderr), shared.Close())
}

// A closableStore is what the engines return.
type closableStore interface {
	store.Store
	io.Closer
}

func open(ctx context.Context, dir, url string) (closableStore, error) {
	if url != "" {
		shared, err := redis.Connect(ctx, url, &redis.Options{Prefix: "stored"})
		return shared, err
	}
	shared, err := nats.Embedded(dir, nil)
	return shared, err
}
