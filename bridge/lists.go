package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const (
	// maxPages is how many pages of a list are read.
	maxPages = 256
	// maxEntries is how many entries of a list are offered.
	maxEntries = 10_000
)

// lists are what a server lists, read once.
type lists struct {
	catalogue server.Catalogue
	fresh     time.Duration // how long they are good for, as the server says; 0 if it does not
}

// readLists reads all lists of a server that has them.
func readLists(ctx context.Context, session *client.Session) (*lists, error) {
	has := session.Capabilities()
	l := new(lists)
	l.catalogue.Completes = has.Completions != nil
	for _, list := range []struct {
		has            bool
		method, member string
		name           string
		into           *[]server.Listed
	}{
		{has.Tools != nil, mcp.MethodToolsList, "tools", "name", &l.catalogue.Tools},
		{has.Prompts != nil, mcp.MethodPromptsList, "prompts", "name", &l.catalogue.Prompts},
		{has.Resources != nil, mcp.MethodResourcesList, "resources", "uri", &l.catalogue.Resources},
		{has.Resources != nil, mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate", &l.catalogue.Templates},
	} {
		if !list.has {
			continue
		}
		entries, err := l.read(ctx, session, list.method, list.member, list.name)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code == jsonrpc.MethodNotFound {
			continue // it has said that there are some, and has none
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list.method, err)
		}
		*list.into = entries
	}
	return l, nil
}

// read reads one list, page by page.
func (l *lists) read(ctx context.Context, session *client.Session, method, member, name string) ([]server.Listed, error) {
	var entries []server.Listed
	var params json.RawMessage
	seen := make(map[string]bool)
	for range maxPages {
		page, err := session.Call(ctx, method, params, nil)
		if err != nil {
			return nil, err
		}
		result, err := jsonscan.ReadObject(page)
		if err != nil {
			return nil, err
		}
		l.expire(result.Get("ttlMs"))
		if entries, err = appendEntries(entries, result.Get(member), name); err != nil {
			return nil, err
		}
		cursor := result.Get("nextCursor")
		if jsonscan.KindOf(cursor) != jsonscan.String {
			return entries, nil
		}
		if seen[string(cursor)] {
			return nil, errors.New("the server gives the same cursor again and again")
		}
		seen[string(cursor)] = true
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
	return nil, fmt.Errorf("the list has more than %d pages", maxPages)
}

// expire notes how long a list is good for.
func (l *lists) expire(ttl json.RawMessage) {
	ms, err := strconv.ParseInt(string(ttl), 10, 64)
	if err != nil || ms <= 0 || ms > int64(24*time.Hour/time.Millisecond) {
		return
	}
	if fresh := time.Duration(ms) * time.Millisecond; l.fresh == 0 || fresh < l.fresh {
		l.fresh = fresh
	}
}

// appendEntries appends those of one page. An entry without a name is nothing that
// could be called.
func appendEntries(entries []server.Listed, list json.RawMessage, name string) ([]server.Listed, error) {
	s := jsonscan.New(list)
	if err := s.EnterArray(); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil || !more {
			return entries, err
		}
		entry, err := s.Value()
		if err != nil {
			return nil, err
		}
		object, err := jsonscan.ReadObject(entry)
		if err != nil {
			return nil, err
		}
		named := object.Get(name)
		if jsonscan.KindOf(named) != jsonscan.String || len(named) == len(`""`) {
			continue
		}
		if len(entries) == maxEntries {
			return nil, fmt.Errorf("the list has more than %d entries", maxEntries)
		}
		entries = append(entries, server.Listed{Name: jsonscan.Unquote(named), JSON: entry})
	}
}
