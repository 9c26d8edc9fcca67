package client

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	// maxCached is how many bytes of results, and of what they are about, a
	// session keeps.
	maxCached = 16 << 20
	// maxTTL is the longest a result is kept, whatever the server says.
	maxTTL = 24 * time.Hour
)

// A cache keeps results as long as the server says they hold, or until it says
// that they have changed. They are kept as they came: each reader decodes its own.
// MCP 2026-07-28, server/utilities/caching.
type cache struct {
	mu      sync.Mutex
	entries map[cacheKey]cached
	size    int
	changes uint64 // counts what was invalidated
}

// A cacheKey is a method with what else shapes its result: a URI or a cursor.
type cacheKey struct{ method, about string }

type cached struct {
	result  json.RawMessage
	expires time.Time
}

// ttlOf is how long a result holds, as it says itself.
func ttlOf(resp *jsonrpc.Response) time.Duration {
	var ms int64
	if json.Unmarshal(resp.Member("ttlMs"), &ms) != nil || ms <= 0 {
		return 0
	}
	return min(time.Duration(min(ms, maxTTL.Milliseconds()))*time.Millisecond, maxTTL)
}

func (c *cache) get(key cacheKey) (json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if ok && time.Now().After(e.expires) {
		c.drop(key)
		return nil, false
	}
	return e.result, ok
}

// generation changes when anything is invalidated.
func (c *cache) generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// put keeps a result, unless something was invalidated since it was asked for:
// the result may be of before.
func (c *cache) put(key cacheKey, result json.RawMessage, ttl time.Duration, asked uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := sizeOf(key, result)
	if ttl <= 0 || asked != c.changes || size > maxCached {
		return
	}
	c.drop(key)
	for other := range c.entries {
		if c.size+size <= maxCached {
			break
		}
		c.drop(other)
	}
	if c.entries == nil {
		c.entries = make(map[cacheKey]cached)
	}
	c.entries[key] = cached{result, time.Now().Add(ttl)}
	c.size += size
}

func (c *cache) drop(key cacheKey) {
	if e, ok := c.entries[key]; ok {
		c.size -= sizeOf(key, e.result)
		delete(c.entries, key)
	}
}

// sizeOf counts the key too: a cursor is as long as the server likes.
func sizeOf(key cacheKey, result json.RawMessage) int { return len(key.about) + len(result) }

// invalidate forgets what a change concerns.
func (c *cache) invalidate(change mcp.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	for key := range c.entries {
		if concerns(change, key) {
			c.drop(key)
		}
	}
}

func concerns(change mcp.Change, key cacheKey) bool {
	switch {
	case change.URI != "":
		// An update may concern what lies below a resource, or name a part of it.
		return key.method == mcp.MethodResourcesRead &&
			(strings.HasPrefix(key.about, change.URI) || strings.HasPrefix(change.URI, key.about))
	case change.Kind == mcp.KindTool:
		return key.method == mcp.MethodToolsList
	case change.Kind == mcp.KindPrompt:
		return key.method == mcp.MethodPromptsList
	default:
		return key.method == mcp.MethodResourcesList || key.method == mcp.MethodResourceTemplatesList
	}
}

// clear forgets everything: another process may answer from now on.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.size = 0
	clear(c.entries)
}
