package era

import (
	"bytes"
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Cursors are the cursors of the pages of one list that were read so far. The zero value is for a list
// of which nothing was read.
type Cursors struct {
	seen   map[string]bool
	before []byte // the entries of the page before, if its cursor was ""
}

// Reasons why a list ends although the server has named another page.
const (
	RepeatedCursor = "the server repeats a cursor, so the list ends"
	RepeatedPage   = `the server repeats a page with the cursor "", so the list ends`
)

// Add adds a page with its cursor and entries, which are nil if the page has none. It returns "",
// [RepeatedCursor] if the list ends with this page, or [RepeatedPage] if it ends with the page before.
//
// The cursor "" is a cursor (MCP 2026-07-28, server/utilities/pagination). However, some servers mean
// the last page by it, and answer it with the first page.
func (c *Cursors) Add(cursor, entries json.RawMessage) (end string) {
	if c.before != nil && bytes.Equal(c.before, entries) {
		return RepeatedPage
	}
	c.before = nil
	if jsonscan.KindOf(cursor) != jsonscan.String {
		return ""
	}
	name := jsonscan.Unquote(cursor)
	if c.seen[name] {
		return RepeatedCursor
	}
	if c.seen == nil {
		c.seen = make(map[string]bool)
	}
	c.seen[name] = true
	if name == "" {
		c.before = append([]byte{}, entries...)
	}
	return ""
}
