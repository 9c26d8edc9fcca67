package main

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// A library lends books to those who may borrow some.
type library struct{}

type booksIn struct {
	_ server.ToolTag `name:"books" description:"The books that there are" readOnly:"true"`
}

// Books is for everyone who has been let in.
func (library) Books(context.Context, booksIn) ([]string, error) {
	return []string{"Emma", "Ulysses"}, nil
}

type borrowIn struct {
	_     server.ToolTag `name:"borrow" description:"Borrow a book" scopes:"books:borrow"`
	Title string         `json:"title"`
}

// Borrow is for those whose token has the scope books:borrow as well: the tag says so.
func (library) Borrow(ctx context.Context, in borrowIn) (string, error) {
	return fmt.Sprintf("%s, for %s", in.Title, oauth.FromContext(ctx).Subject), nil
}

func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "library", Version: "1.0.0"}, nil)
	server.AddService(s, library{})
	return s
}
