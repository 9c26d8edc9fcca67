// Replicas runs three replicas of an MCP server behind a balancer that sends each request to the
// next one, and kills and restarts them while clients of two protocol versions use them:
//
//	go run -C examples/replicas .
//
// It ends with status 0 if nothing was lost and nothing was done twice. The replicas share an
// embedded NATS server, or with -store an existing one:
//
//	go run -C examples/replicas . -store nats://127.0.0.1:4222
//	go run -C examples/replicas . -store redis://127.0.0.1:6379
//	go run -C examples/replicas . -store postgres://user@127.0.0.1:5432/database
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if os.Getenv(envStore) != "" { // this process is a replica
		if err := runReplica(); err != nil {
			log.Fatalf("replica %d: %v", os.Getpid(), err)
		}
		return
	}
	storeURL := flag.String("store", "", "`URL` of a NATS, Redis or PostgreSQL server (default: an embedded NATS server)")
	kills := flag.Int("kills", 10, "how many times a replica is killed")
	pause := flag.Duration("pause", time.Second, "time between two kills")
	flag.Parse()
	if err := run(*storeURL, *kills, *pause); err != nil {
		log.Fatal(err)
	}
}

// run starts the replicas and the clients, kills replicas, restarts all of them one after the
// other, and prints the counts.
func run(storeURL string, kills int, pause time.Duration) error {
	limit := 2*patience + time.Duration(kills)*(pause+time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()

	token := os.Getenv(envToken)
	if storeURL == "" {
		token = rand.Text()
		dir, err := os.MkdirTemp("", "replicas")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		embedded, err := nats.Embedded(dir, &nats.Options{Listen: "127.0.0.1:0", Token: token})
		if err != nil {
			return err
		}
		defer embedded.Close()
		storeURL = embedded.URL()
	}

	counts := newLedger()
	ledgerServer := httptest.NewServer(counts)
	defer ledgerServer.Close()
	balancer := newBalancer(3)
	balancerServer := httptest.NewServer(balancer)
	defer balancerServer.Close()

	fleet := &fleet{balancer: balancer, counts: counts, env: append(os.Environ(),
		envStore+"="+storeURL, envToken+"="+token, envLedger+"="+ledgerServer.URL)}
	defer fleet.stop()
	if err := fleet.start(ctx); err != nil {
		return err
	}
	fmt.Printf("three replicas of one server, behind %s\n", balancerServer.URL)

	load := &load{url: balancerServer.URL + "/mcp", counts: counts, stopping: make(chan struct{})}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		if err := load.start(ctx, era); err != nil {
			return errors.Join(err, load.stop(ctx, cancel))
		}
	}
	err := fleet.killSome(ctx, kills, pause)
	if err == nil {
		err = fleet.restartAll(ctx)
	}
	return errors.Join(err, load.stop(ctx, cancel), counts.report())
}
