package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Item is something that the shop sells.
type Item struct {
	ID    int      `json:"id"`
	Name  string   `json:"name"`
	Price int      `json:"price" jsonschema_description:"in cents"`
	Stock int      `json:"stock" jsonschema_description:"how many are on the shelf"`
	Tags  []string `json:"tags"`
}

// uri is the item's as a resource.
func (i Item) uri() string { return "shop://items/" + strconv.Itoa(i.ID) }

// spare says whether so many can be sold.
func (i Item) spare(quantity int) error {
	if i.Stock < quantity {
		return fmt.Errorf("there are only %d of %q", i.Stock, i.Name)
	}
	return nil
}

func (i Item) matches(query string) bool {
	query = strings.ToLower(query)
	return strings.Contains(strings.ToLower(i.Name), query) || slices.Contains(i.Tags, query)
}

// An unknownItem is the id of an item that there is not.
type unknownItem int

func (id unknownItem) Error() string {
	return fmt.Sprintf("there is no item %d: search lists those there are", int(id))
}

// An Order is one that has been carried out.
type Order struct {
	Number   int       `json:"number"`
	Item     int       `json:"item"`
	Quantity int       `json:"quantity"`
	Price    int       `json:"price" jsonschema_description:"of all together, in cents"`
	Time     time.Time `json:"time"`
}

// opening is what a new shop has.
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
