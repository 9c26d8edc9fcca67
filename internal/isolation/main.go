// Isolation kills servers behind examples/bridge while calls go on, and measures what
// their callers and those of the others notice of it. It is run by .ci/bridge, on Linux:
//
//	isolation -bridge PROGRAM -config mcp.json
//
// Calls at other servers must all succeed, and hardly take longer. Calls at the one that
// is killed must fail soon, in words that a program can read, and succeed again later.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"
)

func main() {
	program := flag.String("bridge", "", "the `program` of the bridge")
	config := flag.String("config", "", "its configuration `file`")
	kills := flag.Int("kills", 20, "how many servers to kill")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := run(ctx, *program, *config, *kills); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, program, config string, kills int) (err error) {
	b, err := startBridge(ctx, program, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	sessions, err := connect(ctx, b.url)
	if err != nil {
		return err
	}
	defer sessions.close()
	for _, v := range victims {
		if err := sessions.awaitBack(ctx, v); err != nil {
			return err
		}
	}
	if err := disturb(ctx, b, sessions); err != nil {
		return fmt.Errorf("calls at other servers: %w", err)
	}
	if err := bury(ctx, b, sessions, kills); err != nil {
		return fmt.Errorf("calls at a server that is killed: %w", err)
	}
	return nil
}
