package main

import (
	"context"
	"iter"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Count is one step of stocktaking.
type Count struct {
	Name  string `json:"name"`
	Stock int    `json:"stock"`
	Value int    `json:"value" jsonschema_description:"in cents"`
}

// A Stock is what they come to.
type Stock struct {
	Items int `json:"items" jsonschema_description:"how many there are in all"`
	Value int `json:"value" jsonschema_description:"in cents"`
}

// addStocktaking adds a tool that tells what it counts as it counts.
func addStocktaking(s *server.Server, everyoneIsStaff bool) {
	server.AddStream(s, server.Tool{
		Name: "take_stock", Description: "Counts what is on the shelves, item by item.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)},
		Guards:      []mcp.Guard{staffOnly(everyoneIsStaff)},
		Scopes:      []string{staff},
	}, takeStock, total)
}

func takeStock(ctx context.Context, r *server.Request, _ struct{}) iter.Seq2[Count, error] {
	return func(yield func(Count, error) bool) {
		for item, err := range server.Value[*DB](r).items() {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(Count{item.Name, item.Stock, item.Stock * item.Price}, err) || err != nil {
				return
			}
		}
	}
}

func total(counts iter.Seq[Count]) Stock {
	var sum Stock
	for count := range counts {
		sum.Items += count.Stock
		sum.Value += count.Value
	}
	return sum
}
