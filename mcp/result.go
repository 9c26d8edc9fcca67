package mcp

// PaginatedParams are the parameters of list methods.
type PaginatedParams struct {
	// Cursor is the NextCursor of the previous page, or nil for the first page. It is opaque. "" is
	// a valid cursor.
	Cursor *string `json:"cursor,omitzero"`
	Meta   Meta    `json:"_meta,omitzero"`
	Extra  Extra   `json:",embed"`
}

// A Page has the members that the results of all list methods share.
type Page struct {
	// NextCursor is the cursor of the next page, or nil on the last page.
	NextCursor *string `json:"nextCursor,omitzero"`
	CacheHint
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// EmptyParams are parameters without members of their own: the parameters of ping, roots/list,
// server/discover and the list_changed notifications.
type EmptyParams struct {
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Extra `json:",embed"`
}

// An EmptyResult is the result of ping, resources/subscribe and logging/setLevel, and of
// subscriptions/listen when it ends.
type EmptyResult struct {
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// A ResultType says how a result is read (since 2026-07-28). Leave it empty when sending: the
// protocol layer sets it. An empty type that was received means complete.
type ResultType string

// The types of results that the protocol defines. Extensions add others.
const (
	ResultComplete      ResultType = "complete"
	ResultInputRequired ResultType = "input_required"
)

// A CacheHint says how long, and for whom, a result may be cached (since 2026-07-28). The zero
// value means that it may not be cached.
type CacheHint struct {
	// TTLMs is how long the result stays fresh, in milliseconds after its arrival. A negative value
	// means 0.
	TTLMs int64 `json:"ttlMs,omitzero"`
	// Scope says to which callers the cached result may be sent. "" means private.
	Scope CacheScope `json:"cacheScope,omitzero"`
}

// A CacheScope says to which callers a cached result may be sent.
type CacheScope string

// The cache scopes.
const (
	// CachePrivate: only callers with the same authorization.
	CachePrivate CacheScope = "private"
	// CachePublic: all callers.
	CachePublic CacheScope = "public"
)
