// Oauth shows a server that lets nobody in without a token, and how a client gets one:
//
//	go run ./examples/oauth [-http ADDRESS]
//
// The server, the authorization server and the person who logs in are all in this
// program; nobody needs an account anywhere. With an address, such as 127.0.0.1:8080, the
// first two serve there until they are told to end, and the client is for you to bring.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/internal/authserver"
)

func main() {
	address := flag.String("http", "", "the `address` to serve MCP over HTTP at; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, os.Stdout, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

// run serves at an address until ctx ends, and says where; without one it shows what a
// client does.
func run(ctx context.Context, address string, out, said io.Writer) (err error) {
	issuer, err := authserver.Start(&authserver.Options{Subject: "ada"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, issuer.Close()) }()
	if address == "" {
		library, err := serve("127.0.0.1:0", issuer.URL)
		if err != nil {
			return err
		}
		return errors.Join(visit(ctx, library.url, out), library.close())
	}
	library, err := serve(address, issuer.URL)
	if err != nil {
		return err
	}
	fmt.Fprintf(said, "the authorization server is %s\nserving MCP at %s\n", issuer.URL, library.url)
	select {
	case <-ctx.Done():
	case <-library.ended:
	}
	return library.close()
}
