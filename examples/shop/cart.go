package main

import (
	"context"
	_ "embed"

	"github.com/dovetail-go/dovetail/server"
)

// CartIn are the arguments of [Shop.Cart].
type CartIn struct {
	_     server.ToolTag `readOnly:"true" tags:"orders" ui:"ui://shop/cart"`
	Items []CartItem     `json:"items" jsonschema:"maxItems=20"` // what the user wants to buy; may be empty
}

// A CartItem is an item in a cart.
type CartItem struct {
	Item     int `json:"item" jsonschema:"minimum=1" jsonschema_description:"id of the item, from search"`
	Quantity int `json:"quantity" jsonschema:"minimum=1,maximum=100" jsonschema_description:"number of pieces"`
}

// A Cart is what the items of a cart cost.
type Cart struct {
	Lines []CartLine `json:"lines"`
	Total int        `json:"total" jsonschema_description:"in cents"`
}

// A CartLine is an item in a cart with its name and price.
type CartLine struct {
	CartItem
	Name  string `json:"name"`
	Price int    `json:"price" jsonschema_description:"of one piece, in cents"`
}

// Cart shows a cart with its total, and lets the user change it. It orders nothing.
func (s *Shop) Cart(_ context.Context, in CartIn, db *DB) (Cart, error) {
	cart := Cart{Lines: []CartLine{}}
	for _, of := range in.Items {
		item, err := db.item(of.Item)
		if err == nil {
			err = item.spare(of.Quantity)
		}
		if err != nil {
			return Cart{}, err
		}
		cart.Lines = append(cart.Lines, CartLine{of, item.Name, item.Price})
		cart.Total += item.Price * of.Quantity
	}
	return cart, nil
}

// cartView is an HTML document that shows results of [Shop.Cart].
//
//go:embed cart.html
var cartView string

// CartViewIn is the annotation of [Shop.CartView].
type CartViewIn struct {
	_ server.ResourceTag `uri:"ui://shop/cart" title:"Cart"`
}

// CartView is the view of a cart.
func (s *Shop) CartView(context.Context, CartViewIn) (string, error) { return cartView, nil }
