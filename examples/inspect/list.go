package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// maxPages is how many pages are merged.
const maxPages = 64

// list prints a list, all pages merged into the first.
func list(method, member string) verb {
	return func(ctx context.Context, i *inspection, args []string) error {
		if err := takes(args, 0, 0, member); err != nil {
			return err
		}
		merged, err := mergedPages(ctx, i, method, member)
		if err != nil {
			return err
		}
		return i.encode(merged)
	}
}

func mergedPages(ctx context.Context, i *inspection, method, member string) (map[string]json.RawMessage, error) {
	var merged map[string]json.RawMessage
	entries := []json.RawMessage{}
	params := json.RawMessage("{}")
	seen := make(map[string]bool)
	for range maxPages {
		result, err := i.session.Call(ctx, method, params, nil)
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, err
		}
		var more []json.RawMessage
		if err := json.Unmarshal(page[member], &more); err != nil {
			return nil, fmt.Errorf("%s: %s is no list: %w", method, member, err)
		}
		entries = append(entries, more...)
		cursor := page["nextCursor"]
		if merged == nil {
			merged = page
		}
		if cursor == nil || string(cursor) == "null" {
			delete(merged, "nextCursor")
			merged[member], err = json.Marshal(entries)
			return merged, err
		}
		if seen[string(cursor)] {
			return nil, fmt.Errorf("%s: the server gives the same cursor again and again", method)
		}
		seen[string(cursor)] = true
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
	return nil, fmt.Errorf("%s: more than %d pages", method, maxPages)
}
