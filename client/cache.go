package client

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Limits of the cache.
const (
	// maxCached bounds the bytes of results and their keys.
	maxCached = 16 << 20
	// maxTTL bounds how long a result is kept.
	maxTTL = 24 * time.Hour
)

// A cache keeps results until they expire or the server reports a change. It keeps them encoded, so
// that each reader decodes its own. MCP 2026-07-28, server/utilities/caching.
type cache struct {
	mu      sync.Mutex
	entries map[cacheKey]cached
	size    int
	changes uint64 // number of invalidations
}

// A cacheKey is a method with the URI or cursor of the request.
type cacheKey struct{ method, arguments string }

type cached struct {
	uri     string // the canonical URI of a resource
	result  json.RawMessage
	expires time.Time
}

// ttlOf returns how long a result may be kept.
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

// generation returns a number that changes with each invalidation.
func (c *cache) generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// put keeps a result. It does nothing if there was an invalidation since the given generation: the
// result may be older than the change.
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
	var uri string
	if key.method == mcp.MethodResourcesRead {
		uri = uritemplate.Equivalent(key.arguments)
	}
	c.entries[key] = cached{uri, result, time.Now().Add(ttl)}
	c.size += size
}

func (c *cache) drop(key cacheKey) {
	if e, ok := c.entries[key]; ok {
		c.size -= sizeOf(key, e.result)
		delete(c.entries, key)
	}
}

// sizeOf includes the key, since the server chooses the length of cursors.
func sizeOf(key cacheKey, result json.RawMessage) int { return len(key.arguments) + len(result) }

// invalidate removes the results that a change affects.
func (c *cache) invalidate(change mcp.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	change.URI = uritemplate.Equivalent(change.URI) // a server may notify with another spelling than that of the request
	for key, e := range c.entries {
		if isAffected(change, key.method, e.uri) {
			c.drop(key)
		}
	}
}

// isAffected reports whether a change affects a result. The URI of the change is canonical.
func isAffected(change mcp.Change, method, uri string) bool {
	switch {
	case change.TaskID != "":
		return false
	case change.URI != "":
		// The URI may name a parent or a part of the resource.
		return uri != "" && (strings.HasPrefix(uri, change.URI) || strings.HasPrefix(change.URI, uri))
	default:
		return era.IsStale(method, change.Kind)
	}
}

// clear removes all results. After a reconnect, another process may answer.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.size = 0
	clear(c.entries)
}
