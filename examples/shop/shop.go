package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

//go:generate go tool mcpgen

// A Shop is what clients see: each method that takes a context.Context is a tool, a
// resource, a prompt or a completion, as the struct says that it takes. What is written
// above methods and fields is what clients are told of them, by way of mcpgen.
type Shop struct {
	everyoneIsStaff bool
	updated         func(uri string)
}

// Annotations are what all methods have in common.
func (s *Shop) Annotations() server.Annotations {
	return server.Annotations{
		Tool:    mcp.ToolAnnotations{OpenWorldHint: new(false)},
		Timeout: 10 * time.Second,
		Guards:  []mcp.Guard{staffOnly(s.everyoneIsStaff)},
	}
}

// SearchIn are the arguments of [Shop.Search].
type SearchIn struct {
	_ server.ToolTag `readOnly:"true" tags:"catalogue"`
	// Query is a part of the name or a tag, such as "bread". Empty finds everything.
	Query string `json:"query"`
	Limit int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=50,default=10"` // how many items at most
}

// Search finds items by their names and tags.
func (s *Shop) Search(ctx context.Context, in SearchIn, db *DB) ([]Item, error) {
	found := []Item{}
	for item, err := range db.items() {
		if err != nil {
			return nil, err
		}
		if item.matches(in.Query) {
			found = append(found, item)
		}
		if len(found) == in.Limit {
			break
		}
	}
	return found, ctx.Err()
}

// large is the price in cents from which an order has to be confirmed.
const large = 2000

// OrderIn are the arguments of [Shop.Order].
type OrderIn struct {
	_        server.ToolTag `destructive:"false" tags:"orders"`
	Item     int            `json:"item" jsonschema:"minimum=1"`                                     // the item's id, as search gives it
	Quantity int            `json:"quantity,omitempty" jsonschema:"minimum=1,maximum=100,default=1"` // how many of it
}

// A confirmation is what a person is asked for.
type confirmation struct {
	Sure bool `json:"sure" jsonschema_description:"really order it"`
}

// Order orders an item, which is paid and carried home at once. What costs 20 euros or
// more, the person has to confirm.
//
// It runs again from the start when the person has answered, so nothing is changed
// before.
func (s *Shop) Order(_ context.Context, r *server.Request, in OrderIn, db *DB) (Order, error) {
	item, err := db.item(in.Item)
	if err == nil {
		err = item.spare(in.Quantity)
	}
	if err != nil {
		return Order{}, err
	}
	if price := item.Price * in.Quantity; price >= large {
		question := fmt.Sprintf("%d × %s is %d.%02d €. Order?", in.Quantity, item.Name, price/100, price%100)
		answer, err := server.Elicit[confirmation](r, "confirm", question)
		if err != nil {
			return Order{}, err
		}
		if !answer.Sure {
			return Order{}, fmt.Errorf("the person does not want %d × %s", in.Quantity, item.Name)
		}
	}
	order, err := db.order(in.Item, in.Quantity)
	if err == nil {
		s.updated(item.uri())
	}
	return order, err
}

// RestockIn are the arguments of [Shop.Restock].
type RestockIn struct {
	_        server.ToolTag `scopes:"staff" idempotent:"false" tags:"stock"`
	Item     int            `json:"item" jsonschema:"minimum=1"`                  // the item's id
	Quantity int            `json:"quantity" jsonschema:"minimum=1,maximum=1000"` // how many came in
}

// Restock puts delivered items on the shelf.
func (s *Shop) Restock(_ context.Context, in RestockIn, db *DB) (Item, error) {
	item, err := db.restock(in.Item, in.Quantity)
	if err == nil {
		s.updated(item.uri())
	}
	return item, err
}

// HoursIn is the annotation of [Shop.Hours].
type HoursIn struct {
	_ server.ResourceTag `uri:"shop://hours" title:"Opening hours" mimeType:"text/plain"`
}

// Hours are when the shop is open.
func (s *Shop) Hours(context.Context, HoursIn) (string, error) {
	return "Monday to Saturday, 7 to 20 o'clock", nil
}

// ItemIn are the variables of [Shop.Item].
type ItemIn struct {
	_  server.ResourceTag `uri:"shop://items/{id}" mimeType:"application/json"`
	ID int                `json:"id"`
}

// Item is an item, with its price and how many are on the shelf.
func (s *Shop) Item(_ context.Context, in ItemIn, db *DB) (Item, error) {
	item, err := db.item(in.ID)
	if _, unknown := errors.AsType[unknownItem](err); unknown {
		return Item{}, mcp.ResourceNotFound(Item{ID: in.ID}.uri())
	}
	return item, err
}

// ItemIDIn are the arguments of [Shop.ItemID].
type ItemIDIn struct {
	_     server.CompletionTag `template:"shop://items/{id}" argument:"id"`
	Value string
}

// ItemID completes the id of an item.
func (s *Shop) ItemID(_ context.Context, in ItemIDIn, db *DB) ([]string, error) {
	return db.complete(func(item Item) (string, bool) {
		id := strconv.Itoa(item.ID)
		return id, strings.HasPrefix(id, in.Value)
	})
}

// RecipeIn are the arguments of [Shop.Recipe].
type RecipeIn struct {
	_        server.PromptTag
	Item     string  `json:"item"`     // the name of what has to be in it
	Occasion *string `json:"occasion"` // what it is for, such as "breakfast"
}

// Recipe is a request for a recipe that the shop has everything for.
func (s *Shop) Recipe(_ context.Context, in RecipeIn, db *DB) (string, error) {
	names, err := db.complete(func(item Item) (string, bool) { return item.Name, item.Stock > 0 })
	if err != nil {
		return "", err
	}
	occasion := "today"
	if in.Occasion != nil {
		occasion = *in.Occasion
	}
	return fmt.Sprintf("Suggest a dish with %s for %s. The shop has %s.", in.Item, occasion, strings.Join(names, ", ")), nil
}

// RecipeItemIn are the arguments of [Shop.RecipeItem].
type RecipeItemIn struct {
	_     server.CompletionTag `prompt:"recipe" argument:"item"`
	Value string
}

// RecipeItem completes the name of an item.
func (s *Shop) RecipeItem(_ context.Context, in RecipeItemIn, db *DB) ([]string, error) {
	names, err := db.complete(func(item Item) (string, bool) {
		return item.Name, strings.HasPrefix(strings.ToLower(item.Name), strings.ToLower(in.Value))
	})
	slices.Sort(names)
	return names, err
}
