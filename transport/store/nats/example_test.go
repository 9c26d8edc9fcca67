package nats_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// What is stored exists after a restart.
func ExampleEmbedded() {
	dir, err := os.MkdirTemp("", "nats")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	for range 2 {
		s, err := nats.Embedded(dir, nil)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := s.Append(ctx, "events/42", []byte("started")); err != nil {
			log.Fatal(err)
		}
		for entry, err := range s.Read(ctx, "events/42", 0) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s\n", entry.Data)
		}
		if err := s.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// started
	// started
	// started
}

// Two replicas use one server.
func ExampleConnect() {
	dir, err := os.MkdirTemp("", "nats")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	first, err := nats.Embedded(dir, &nats.Options{Listen: "127.0.0.1:0", Token: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()

	ctx := context.Background()
	second, err := nats.Connect(ctx, first.URL(), &nats.Options{Token: "secret"}) // usually in another process
	if err != nil {
		log.Fatal(err)
	}
	defer second.Close()
	if _, err := first.Create(ctx, "sessions/42", []byte("open"), time.Hour); err != nil {
		log.Fatal(err)
	}
	item, err := second.Get(ctx, "sessions/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", item.Value)
	// Output: open
}
