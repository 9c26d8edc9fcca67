package search

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A query is what a caller looks for.
type query struct {
	text   string
	prefix string
	limit  int
}

func readQuery(arguments json.RawMessage) (query, error) {
	members, err := readArguments(arguments, "query", "limit", "prefix")
	if err != nil {
		return query{}, err
	}
	q := query{limit: DefaultLimit}
	if q.text, err = readText("query", members.Get("query")); err != nil {
		return query{}, err
	}
	if prefix := members.Get("prefix"); isGiven(prefix) {
		if q.prefix, err = readText("prefix", prefix); err != nil {
			return query{}, err
		}
	}
	if limit := members.Get("limit"); isGiven(limit) {
		if q.limit, err = readLimit(limit); err != nil {
			return query{}, err
		}
	}
	return q, nil
}

func isGiven(value []byte) bool { return value != nil && jsonscan.KindOf(value) != jsonscan.Null }

func readText(name string, value []byte) (string, error) {
	if jsonscan.KindOf(value) != jsonscan.String {
		return "", fmt.Errorf("%s must be a string", name)
	}
	text := jsonscan.Unquote(value)
	if len(text) > MaxQuery {
		return "", fmt.Errorf("%s must have at most %d bytes, not %d", name, MaxQuery, len(text))
	}
	return text, nil
}

func readLimit(value []byte) (int, error) {
	limit, err := strconv.Atoi(string(value))
	if err != nil || limit < 1 || limit > MaxLimit {
		return 0, fmt.Errorf("limit must be an integer from 1 to %d, not %.40s", MaxLimit, value)
	}
	return limit, nil
}
