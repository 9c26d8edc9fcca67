package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

//go:generate go tool mcpgen

// A Shop is the service. Each method with a context.Context is a tool, a resource, a prompt
// or a completion; the first field of its arguments says which. Clients see the comments of
// methods and fields as descriptions, which mcpgen generates.
type Shop struct {
	everyoneIsStaff bool
	updated         func(uri string)
}

// Annotations returns what all methods have in common.
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
	Limit int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=50,default=10"` // maximum number of items
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

// large is the price in cents from which an order must be confirmed.
const large = 2000

// OrderIn are the arguments of [Shop.Order].
type OrderIn struct {
	_        server.ToolTag `destructive:"false" tags:"orders"`
	Item     int            `json:"item" jsonschema:"minimum=1"`                                     // id of the item, from search
	Quantity int            `json:"quantity,omitempty" jsonschema:"minimum=1,maximum=100,default=1"` // number of pieces
}

// A confirmation is the form for the user.
type confirmation struct {
	Sure bool `json:"sure" jsonschema_description:"confirms the order"`
}

// Order orders an item. The user must confirm an order of 20 euros or more.
//
// The method runs again from its start when the user has answered, so it changes nothing
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
			return Order{}, fmt.Errorf("the user declined to order %d × %s", in.Quantity, item.Name)
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
	Item     int            `json:"item" jsonschema:"minimum=1"`                  // id of the item
	Quantity int            `json:"quantity" jsonschema:"minimum=1,maximum=1000"` // number of delivered pieces
}

// Restock adds delivered items to the stock.
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

// Hours returns the opening hours.
func (s *Shop) Hours(context.Context, HoursIn) (string, error) {
	return "Monday to Saturday, 7 to 20 o'clock", nil
}

// ItemIn are the variables of [Shop.Item].
type ItemIn struct {
	_  server.ResourceTag `uri:"shop://items/{id}" mimeType:"application/json"`
	ID int                `json:"id"`
}

// Item returns an item with its price and stock.
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
	Item     string  `json:"item"`     // name of an ingredient
	Occasion *string `json:"occasion"` // occasion, such as "breakfast"
}

// Recipe asks for a recipe with ingredients that the shop has in stock.
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

// An Item is a product of the shop.
type Item struct {
	ID    int      `json:"id"`
	Name  string   `json:"name"`
	Price int      `json:"price" jsonschema_description:"in cents"`
	Stock int      `json:"stock" jsonschema_description:"number of pieces in stock"`
	Tags  []string `json:"tags"`
}

// uri returns the URI of the item as a resource.
func (i Item) uri() string { return "shop://items/" + strconv.Itoa(i.ID) }

// spare returns an error if the stock is smaller than quantity.
func (i Item) spare(quantity int) error {
	if i.Stock < quantity {
		return fmt.Errorf("only %d of %q are in stock", i.Stock, i.Name)
	}
	return nil
}

func (i Item) matches(query string) bool {
	query = strings.ToLower(query)
	return strings.Contains(strings.ToLower(i.Name), query) || slices.Contains(i.Tags, query)
}

// An unknownItem is the error for an id without an item.
type unknownItem int

func (id unknownItem) Error() string {
	return fmt.Sprintf("there is no item %d: use search to find items", int(id))
}

// An Order is a completed order.
type Order struct {
	Number   int       `json:"number"`
	Item     int       `json:"item"`
	Quantity int       `json:"quantity"`
	Price    int       `json:"price" jsonschema_description:"total in cents"`
	Time     time.Time `json:"time"`
}

// opening returns the items of a new shop.
func opening() []Item {
	return []Item{
		{Name: "Rye bread", Price: 420, Stock: 8, Tags: []string{"bread", "fresh"}},
		{Name: "Baguette", Price: 180, Stock: 12, Tags: []string{"bread", "fresh"}},
		{Name: "Butter", Price: 350, Stock: 20, Tags: []string{"dairy"}},
		{Name: "Goat cheese", Price: 690, Stock: 5, Tags: []string{"dairy", "fresh"}},
		{Name: "Honey", Price: 850, Stock: 6, Tags: []string{"sweet"}},
		{Name: "Green tea", Price: 1290, Stock: 9, Tags: []string{"tea"}},
	}
}

// A Count is one step of stocktaking.
type Count struct {
	Name  string `json:"name"`
	Stock int    `json:"stock"`
	Value int    `json:"value" jsonschema_description:"in cents"`
}

// A Stock is the sum of all counts.
type Stock struct {
	Items int `json:"items" jsonschema_description:"number of all pieces"`
	Value int `json:"value" jsonschema_description:"in cents"`
}

// addStocktaking adds a tool that streams its counts.
func addStocktaking(s *server.Server, everyoneIsStaff bool) {
	server.AddStream(s, server.Tool{
		Name: "take_stock", Description: "Counts the stock, item by item.",
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
