package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	entries   []listed
	completes bool
	cached    bool          // of an earlier run: the server may have others now
	fresh     time.Duration // how long they are good for, as the server says; 0 if it does not
}

// A listed entry is as it stands in a list.
type listed struct {
	kind       mcp.Kind
	name       string
	definition json.RawMessage
}

// isSame reports whether the same is listed.
func (l *lists) isSame(other *lists) bool {
	return other != nil && l.cached == other.cached && l.completes == other.completes && slices.EqualFunc(l.entries, other.entries, func(a, b listed) bool {
		return a.kind == b.kind && a.name == b.name && bytes.Equal(a.definition, b.definition)
	})
}

// cachedLists are those of an earlier run.
func cachedLists(c *server.Catalog) *lists {
	l := &lists{cached: true}
	for kind := mcp.KindTool; kind <= mcp.KindResourceTemplate; kind++ {
		for e := range c.All(kind) {
			l.entries = append(l.entries, listed{kind, e.Name, e.Definition.JSON()})
			l.completes = l.completes || e.Complete != nil
		}
	}
	return l
}

// readLists reads all lists of a server that has them.
func readLists(ctx context.Context, session *client.Session) (*lists, error) {
	has := session.Capabilities()
	l := &lists{completes: has.Completions != nil}
	for _, list := range []struct {
		kind           mcp.Kind
		has            bool
		method, member string
		name           string
	}{
		{mcp.KindTool, has.Tools != nil, mcp.MethodToolsList, "tools", "name"},
		{mcp.KindPrompt, has.Prompts != nil, mcp.MethodPromptsList, "prompts", "name"},
		{mcp.KindResource, has.Resources != nil, mcp.MethodResourcesList, "resources", "uri"},
		{mcp.KindResourceTemplate, has.Resources != nil, mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate"},
	} {
		if !list.has {
			continue
		}
		entries, err := l.read(ctx, session, list.kind, list.method, list.member, list.name)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code == jsonrpc.MethodNotFound {
			continue // it has declared the kind, and has no list of it
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list.method, err)
		}
		l.entries = append(l.entries, entries...)
	}
	return l, nil
}

// read reads one list, page by page.
func (l *lists) read(ctx context.Context, session *client.Session, kind mcp.Kind, method, member, name string) ([]listed, error) {
	var entries []listed
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
		if entries, err = appendEntries(entries, kind, result.Get(member), name); err != nil {
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

// appendEntries appends those of one page. An entry without a name cannot be called.
func appendEntries(entries []listed, kind mcp.Kind, list json.RawMessage, name string) ([]listed, error) {
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
		entries = append(entries, listed{kind, jsonscan.Unquote(named), entry})
	}
}
