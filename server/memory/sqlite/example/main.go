// Example is a memory server with a SQLite file:
//
//	go run ./example -db memory.db
//
// It serves on standard input and output. Several clients may start it with the same file.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/sqlite"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

func main() {
	path := flag.String("db", "memory.db", "the SQLite `file`; it is made if it is not there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *path); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string) error {
	store, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	err = stdio.Serve(ctx, memory.New(store, nil), nil)
	if ctx.Err() != nil {
		err = nil // interrupted
	}
	return errors.Join(err, store.Close())
}
