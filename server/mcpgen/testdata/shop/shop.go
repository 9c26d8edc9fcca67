package main

import (
	"context"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

//go:generate go run github.com/dovetail-go/dovetail/server/mcpgen

// A shop is registered as a pointer.
type shop struct{ till[int] }

type searchIn struct {
	_ server.ToolTag `readOnly:"true"`
	paging
	// Query is what to look for.
	Query string `json:"query"`
	Tag   string `json:"tag,omitempty" jsonschema_description:"a tag wins"` // over the comment
	Any   any    `json:"any,omitempty"`                                     // whatever it is
}

type paging struct {
	Size int `json:"size,omitempty"` // at most so many items
}

// Search finds items by
// their words.
//
// It is slow.
func (s *shop) Search(context.Context, *server.Request, searchIn) ([]string, error) { return nil, nil }

type closeIn struct {
	_ server.ToolTag `description:"Closes the shop. A tag wins."`
}

// CloseUp closes the shop.
func (s *shop) CloseUp(context.Context, closeIn) error { return nil }

type greetIn struct {
	_    server.PromptTag
	Name string `json:"name"` // of the customer
}

// Greet is a greeting.
func (s *shop) Greet(context.Context, greetIn) (string, error) { return "", nil }

type hoursIn struct {
	_ server.ResourceTag `uri:"shop://hours"`
}

// Hours says when the shop is open.
func (s *shop) Hours(context.Context, hoursIn) (string, error) { return "", nil }

type itemIn struct {
	_  server.ResourceTag `uri:"shop://items/{id}"`
	ID int                `json:"id"`
}

// Item is an item of the catalogue.
func (s *shop) Item(context.Context, itemIn) (*mcp.ReadResourceResult, error) { return nil, nil }

// A till is embedded, and generic.
type till[T any] struct{}

type payIn[T any] struct {
	_      server.ToolTag
	Amount T `json:"amount"` // in cents
}

// Pay pays the bill.
func (till[T]) Pay(context.Context, payIn[T]) error { return nil }

// A door is registered by its value.
type door struct{}

type openIn struct {
	_ server.ToolTag
}

// Open opens the door.
func (door) Open(context.Context, openIn) error { return nil }
