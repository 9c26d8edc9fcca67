// Compose makes one MCP server of two: a clock and a board for notes, each a server by
// itself, stand in a third under prefixes.
//
//	go run ./examples/compose
//
// It speaks over standard input and output, and says on standard error who calls what.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/transport/stdio"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	desk, err := newDesk(time.Now, log.Default())
	if err != nil {
		return err
	}
	if err := desk.Start(ctx); err != nil {
		return err
	}
	return stdio.Serve(ctx, desk, nil)
}
