package mcp

// A CacheHint says how long and by whom a result may be kept (since
// 2026-07-28). The zero value says nothing, which a receiver takes as: not at
// all, and privately.
type CacheHint struct {
	// TTLMs is how long the result stays fresh, in milliseconds from its
	// arrival. A negative value counts as 0.
	TTLMs int64 `json:"ttlMs,omitzero"`
	// Scope is who may be served the kept result.
	Scope CacheScope `json:"cacheScope,omitzero"`
}

// A CacheScope is who may be served a kept result.
type CacheScope string

// The scopes.
const (
	// CachePrivate: only callers with the same authorization.
	CachePrivate CacheScope = "private"
	// CachePublic: anybody.
	CachePublic CacheScope = "public"
)
