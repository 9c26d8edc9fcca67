package main

import (
	"context"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// options are the program's.
type options struct {
	file  string // of the database; "" makes one that is removed at the end
	staff bool   // everyone is staff
}

// newServer is the shop as a server. Its database is opened when the server starts and
// closed when it is shut down.
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
