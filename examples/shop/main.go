// Shop is an MCP server over a database: a small shop whose offer is a Go value with
// annotated methods. It has a module of its own, so that users of the library do not
// get the database's dependencies:
//
//	go run -C examples/shop . [-db FILE] [-staff] [-http ADDRESS]
//
// It speaks over standard input and output, or over HTTP at an address such as
// 127.0.0.1:8080. Without -db the shop is a new one each time. What is for the staff
// is there with -staff, and over HTTP for callers with the key in SHOP_KEY.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/transport/stdio"
)

func main() {
	var o options
	flag.StringVar(&o.file, "db", "", "the `file` that keeps the shop; none makes a shop for this run")
	flag.BoolVar(&o.staff, "staff", false, "everyone is staff")
	address := flag.String("http", "", "the `address` to serve HTTP at; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, *address); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options, address string) error {
	s := newServer(o)
	if address != "" {
		return serveHTTP(ctx, s, address, os.Getenv("SHOP_KEY"), os.Stderr)
	}
	if err := s.Start(ctx); err != nil { // a database that does not open ends the program
		return err
	}
	return stdio.Serve(ctx, s, nil)
}
