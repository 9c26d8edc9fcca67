// Client is the client of docs/start.md. It calls the tool divide of a server that it
// starts, or that serves HTTP at a URL:
//
//	go run ./docs/start/client COMMAND [ARGUMENT...]
//	go run ./docs/start/client http://127.0.0.1:8080/mcp
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: client COMMAND [ARGUMENT...] or client URL")
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	var dialer transport.Dialer
	if strings.HasPrefix(args[0], "http") {
		dialer = streamable.Dial(args[0], nil)
	} else {
		dialer = stdio.Command(args[0], args[1:], nil)
	}
	session, err := client.Connect(ctx, dialer, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	fmt.Println(session.Server().Name, "speaks", session.Version())

	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", tool.Name, tool.Description)
	}
	for _, divisor := range []any{8, 0, "two"} {
		quotient, err := client.CallAs[float64](ctx, session, "divide", map[string]any{"dividend": 1, "divisor": divisor}, nil)
		if failed, ok := errors.AsType[*client.ToolError](err); ok {
			fmt.Println(failed)
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println("the quotient is", quotient)
	}
	return nil
}
