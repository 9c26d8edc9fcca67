// Shop is an MCP server with a database, written as annotated methods of a Go type. It is a
// module of its own, so that the library does not depend on the database:
//
//	go run -C examples/shop . [-db FILE] [-staff] [-http ADDRESS]
//
// It serves standard input and output, or HTTP at an address such as 127.0.0.1:8080. Without
// -db the program creates a temporary database. The tools for the staff are visible with
// -staff, and over HTTP to callers with the key in SHOP_KEY.
package main

import (
	"context"
	"crypto/subtle"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	var o options
	flag.StringVar(&o.file, "db", "", "the `file` of the database; a temporary one if it is empty")
	flag.BoolVar(&o.staff, "staff", false, "treat every caller as staff")
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
	if err := s.Start(ctx); err != nil { // fails if the database cannot be opened
		return err
	}
	return stdio.Serve(ctx, s, nil)
}

// options are the flags of the program.
type options struct {
	file  string // of the database; "" for a temporary one
	staff bool   // everyone is staff
}

// newServer returns the server of the shop. It opens the database when it starts and closes
// it at shutdown.
func newServer(o options) *server.Server {
	s := server.New(mcp.Implementation{Name: "shop", Title: "The corner shop", Version: "1.0.0"}, &server.Options{
		Instructions: "Search before you order. Prices are in cents.",
		Dependencies: []server.Dependency{
			server.Provide(func(context.Context) (*DB, func(context.Context) error, error) {
				db, err := openDB(o.file)
				if err != nil {
					return nil, nil, err
				}
				return db, func(context.Context) error { return db.Close() }, nil
			}),
		},
	})
	server.AddService(s, &Shop{everyoneIsStaff: o.staff, updated: s.ResourceUpdated})
	addStocktaking(s, o.staff)
	return s
}

// serveHTTP serves HTTP until ctx ends, and prints the address.
func serveHTTP(ctx context.Context, s *server.Server, address, staffKey string, said io.Writer) error {
	return streamable.Serve(ctx, address, s, &streamable.ServeOptions{
		Wrap:     func(endpoint http.Handler) http.Handler { return authenticated(endpoint, staffKey) },
		OnListen: func(at net.Addr) { fmt.Fprintf(said, "serving http://%s/mcp\n", at) },
	})
}

// authenticated sets the principal of callers with the key of the staff. Callers without a
// key are customers. A wrong key is refused.
func authenticated(next http.Handler, staffKey string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if given := r.Header.Get("Authorization"); given != "" {
			key, ok := strings.CutPrefix(given, "Bearer ")
			if !ok || staffKey == "" || subtle.ConstantTimeCompare([]byte(key), []byte(staffKey)) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "expected the key of the staff", http.StatusUnauthorized)
				return
			}
			r = r.WithContext(transport.WithPrincipal(r.Context(), staff))
		}
		next.ServeHTTP(w, r)
	})
}

// staff is the scope of the tools for the staff and the principal of its members.
const staff = "staff"

// staffOnly hides entries with the scope of the staff from customers.
func staffOnly(everyoneIsStaff bool) mcp.Guard {
	return mcp.Guard{Name: "staff", Visible: func(_ context.Context, caller *mcp.Caller, target *mcp.Target) bool {
		return everyoneIsStaff || !slices.Contains(target.Scopes, staff) || caller.Principal == staff
	}}
}
