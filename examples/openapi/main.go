// Openapi offers a REST service to MCP clients, from its OpenAPI document:
//
//	go run ./examples/openapi [-http ADDRESS]
//
// The service stores notes in memory. It runs in the same program and requires a key. The
// MCP server serves standard input and output, or HTTP at an address such as 127.0.0.1:8080.
package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/openapi"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	address := flag.String("http", "", "the `address` to serve MCP over HTTP at; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

// run starts the REST service and serves MCP until ctx ends.
func run(ctx context.Context, address string, said io.Writer) (err error) {
	key := rand.Text()
	notes, err := listen("127.0.0.1:0", newService(key))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, notes.close()) }()
	fmt.Fprintf(said, "the REST service is at %s; its key is %s\n", notes.url, key)

	s, err := newServer(notes.url, key)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil { // so that the first list is complete
		return err
	}
	if address == "" {
		return stdio.Serve(ctx, s, nil)
	}
	return streamable.Serve(ctx, address, s, &streamable.ServeOptions{
		Path:     "/",
		OnListen: func(at net.Addr) { fmt.Fprintf(said, "serving MCP at http://%s\n", at) },
	})
}

// document describes the service. Most services publish theirs.
//
//go:embed notes.yaml
var document []byte

// newServer returns an MCP server for the service at a URL.
func newServer(url, key string) (*server.Server, error) {
	notes, err := openapi.New(document, &openapi.Options{
		BaseURL:   url,
		Authorize: openapi.Credentials{"key": key}.Authorize,
		Rules: []openapi.Rule{
			{Tags: []string{"admin"}, Expose: openapi.Excluded},
			{Path: regexp.MustCompile(`^/notes/\{id\}$`), Methods: []string{"GET"}, Expose: openapi.AsResource},
			{
				OperationID: regexp.MustCompile("^listNotes$"), Name: "search",
				Description: "Find notes by their tags. Each note can be read as a resource.",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	s := server.New(mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	return s, s.Mount(notes, nil)
}

// A listener is a web server at its own address.
type listener struct {
	url   string
	web   *http.Server
	ended chan struct{} // closed when the server has ended
	err   error         // reason, set before ended is closed
}

func listen(address string, handler http.Handler) (*listener, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &listener{
		url:   "http://" + socket.Addr().String(),
		web:   httptransport.NewServer(handler),
		ended: make(chan struct{}),
	}
	go func() {
		defer close(l.ended)
		if err := l.web.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			l.err = err
		}
	}()
	return l, nil
}

// close waits up to one second for requests and ends the listener.
func (l *listener) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.web.Shutdown(ctx) != nil {
		l.web.Close()
	}
	<-l.ended
	return l.err
}
