package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

func ExampleNewMemory() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	revision, err := s.Create(ctx, "sessions/42", []byte("open"), time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Update(ctx, "sessions/42", []byte("busy"), revision, time.Hour)
	fmt.Println(err)
	_, err = s.Update(ctx, "sessions/42", []byte("done"), revision, time.Hour)
	fmt.Println(err, errors.Is(err, store.ErrConflict))

	first, err := s.Append(ctx, "events/42", []byte("first"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Append(ctx, "events/42", []byte("second")); err != nil {
		log.Fatal(err)
	}
	for entry, err := range s.Read(ctx, "events/42", first) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", entry.Data)
	}
	// Output:
	// <nil>
	// store: the value has been changed true
	// second
}

func ExampleSealed() {
	ctx := context.Background()
	engine, err := store.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	key := make([]byte, 32)
	rand.Read(key) // all replicas read the same key from their configuration
	s, err := store.Sealed(engine, key)
	if err != nil {
		log.Fatal(err)
	}

	if _, err := s.Create(ctx, "sessions/42", []byte("open"), time.Hour); err != nil {
		log.Fatal(err)
	}
	item, err := s.Get(ctx, "sessions/42")
	fmt.Printf("%s %v\n", item.Value, err)
	_, err = engine.Get(ctx, "sessions/42")
	fmt.Println(err)
	// Output:
	// open <nil>
	// store: the key does not exist
}

func ExampleCheckName() {
	fmt.Println(store.CheckName("sessions/42/state"))
	fmt.Println(store.CheckName("sessions/*"))
	// Output:
	// <nil>
	// store: "sessions/*" is no name: expected segments of ASCII letters, digits, - and _, separated by /, of at most 200 bytes
}

func ExampleObserved() {
	ctx := context.Background()
	engine, err := store.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	s := store.Observed(engine, func(_ context.Context, o store.Operation) {
		fmt.Printf("%s %q\n", o.Name, o.Failure()) // o.Took is for a histogram
	})
	fmt.Println(store.Check(ctx, s))
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	_, err = s.Get(ctx, "sessions/42")
	fmt.Println(err)
	// Output:
	// create ""
	// <nil>
	// get "closed"
	// store: the store is closed
}
