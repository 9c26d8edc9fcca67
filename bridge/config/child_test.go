package config_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// child is a server that tells how it was started.
func child() int {
	if err := stdio.Serve(context.Background(), teller{}, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A start is how a child was started.
type start struct {
	Args []string
	Env  []string
	Dir  string
}

type teller struct{}

func (s teller) Bind(transport.Link) jsonrpc.Handler { return s }

func (teller) Handle(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	text, err := json.Marshal(start{Args: os.Args[1:], Env: os.Environ(), Dir: dir})
	if err != nil {
		return err
	}
	return reply.Write(jsonrpc.Raw(text))
}

func (teller) Notified(jsonrpc.Peer, *jsonrpc.Request) {}
