package postgres_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dovetail-go/dovetail/transport/store/postgres"
)

func ExampleConnect() {
	ctx := context.Background()
	s, err := postgres.Connect(ctx, os.Getenv("DATABASE_URL"), &postgres.Options{Schema: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	revision, err := s.Create(ctx, "session/1", []byte("open"), 0)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Update(ctx, "session/1", []byte("closed"), revision, 0); err != nil {
		log.Fatal(err)
	}
	item, err := s.Get(ctx, "session/1")
	fmt.Println(string(item.Value), err)
	// Output: closed <nil>
}

func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL")) // that the program uses, too
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	s, err := postgres.New(ctx, pool, &postgres.Options{Schema: "jobs"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	if err := s.Push(ctx, "mail", "order-1", []byte("Your order has been sent.")); err != nil {
		log.Fatal(err)
	}
	job, err := s.Pull(ctx, "mail")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", job.ID, job.Data)
	fmt.Println(s.Ack(ctx, job))
	// Output:
	// order-1: Your order has been sent.
	// <nil>
}
