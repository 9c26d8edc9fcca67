// Replicas runs three replicas of an MCP server behind a balancer that sends each request to the
// next one, and kills, stops and restarts them while clients of two protocol versions use them: with calls,
// tasks, approvals, events and webhooks at the same time.
//
//	go run -C examples/replicas .
//
// It ends with status 0 if nothing was lost, nothing was done twice, and nothing without its approval. The
// replicas share an embedded NATS server, or with -store an existing one:
//
//	go run -C examples/replicas . -store nats://127.0.0.1:4222
//	go run -C examples/replicas . -store redis://127.0.0.1:6379
//	go run -C examples/replicas . -store postgres://user@127.0.0.1:5432/database
//	go run -C examples/replicas . -store memory -kills 0    # one replica
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// options are the options of the command line.
type options struct {
	store        string
	kills, stops int
	lease, pause time.Duration
}

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if os.Getenv(envStore) != "" { // this process is a replica
		if err := runReplica(); err != nil {
			log.Fatalf("replica %d: %v", os.Getpid(), err)
		}
		return
	}
	var o options
	flag.StringVar(&o.store, "store", "", "`URL` of a NATS, Redis or PostgreSQL server, or "+memoryStore+" (default: an embedded NATS server)")
	flag.IntVar(&o.kills, "kills", 10, "how many times a replica is killed")
	flag.IntVar(&o.stops, "stops", 2, "how many times a replica is stopped, for at most four times the lease")
	flag.DurationVar(&o.lease, "lease", 2*time.Second, "how long a task stays with a replica that is silent")
	flag.DurationVar(&o.pause, "pause", 400*time.Millisecond, "time between two kills, and between two stops")
	flag.Parse()
	if err := run(&o); err != nil {
		log.Fatal(err)
	}
}

// run starts the replicas and the clients, kills and stops replicas, restarts all of them one after the
// other, and prints the counts.
func run(o *options) error {
	limit := 4*patience + time.Duration(o.kills)*(o.pause+2*time.Second) + time.Duration(o.stops)*(o.pause+4*o.lease+time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()

	storeURL, token, replicas := o.store, os.Getenv(envToken), 3
	switch storeURL {
	case memoryStore:
		if o.kills > 0 {
			return errors.New("a store in memory ends with its replica: set -kills 0")
		}
		replicas = 1
	case "":
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
	ledgerServer := serve(counts)
	defer ledgerServer.Close()
	balancer := newBalancer(replicas, counts)
	balancerServer := serve(balancer)
	defer balancerServer.Close()

	approverToken := rand.Text()
	fleet := newFleet(replicas, balancer, counts, append(os.Environ(), envStore+"="+storeURL, envToken+"="+token, envLease+"="+o.lease.String(),
		envLedger+"="+ledgerServer.URL, envApprover+"="+approverToken))
	defer fleet.close()
	if err := fleet.start(ctx); err != nil {
		return err
	}
	fmt.Printf("%d replicas of one server, behind %s\n", replicas, balancerServer.URL)

	load := newLoad(balancerServer.URL, counts)
	err := load.start(ctx, approverToken)
	for err == nil && !counts.hasEachLoad() {
		err = wait(ctx, retry)
	}
	if err == nil {
		err = fleet.inject(ctx, faults{o.kills, o.stops, o.pause, 4 * o.lease})
	}
	if err == nil && o.store != memoryStore {
		err = fleet.restartAll(ctx)
	}
	return errors.Join(err, load.stop(ctx, cancel), counts.report())
}
