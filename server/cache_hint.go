package server

import (
	"cmp"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// checkCacheHint refuses what clients would misread.
func checkCacheHint(hint mcp.CacheHint) error {
	if hint.TTLMs < 0 {
		return fmt.Errorf("CacheHint: a time to live is 0 or more milliseconds, not %d", hint.TTLMs)
	}
	switch hint.Scope {
	case "", mcp.CachePrivate, mcp.CachePublic:
		return nil
	}
	return fmt.Errorf("CacheHint: the scope is %q or %q, not %.40q", mcp.CachePrivate, mcp.CachePublic, hint.Scope)
}

// hinted is what a function read, with the resource's hint where it has none of its own.
// What the function returned is not changed: it may return that again.
func hinted(result *mcp.ReadResourceResult, usual mcp.CacheHint) *mcp.ReadResourceResult {
	hint := mcp.CacheHint{
		TTLMs: max(0, cmp.Or(result.TTLMs, usual.TTLMs)),
		Scope: cmp.Or(result.Scope, usual.Scope),
	}
	if hint == result.CacheHint {
		return result
	}
	with := *result
	with.CacheHint = hint
	return &with
}

// unshared is what was read behind guards. A cache would serve it to callers that they
// refuse, so it may be no public one, whatever the function or what is mounted says.
func unshared(result mcp.Result) (mcp.Result, error) {
	var text []byte
	switch result := result.(type) {
	case nil:
		return nil, nil
	case *mcp.ReadResourceResult:
		if result.Scope != mcp.CachePublic {
			return result, nil
		}
		private := *result
		private.Scope = mcp.CachePrivate
		return &private, nil
	case mcp.Raw:
		text = result
	default:
		var err error
		if text, err = result.AppendJSON(nil); err != nil {
			return nil, err
		}
	}
	members, err := jsonscan.ReadObject(text)
	if err != nil || members.Get("cacheScope") == nil {
		return result, nil // it says nothing, or is no result, which whoever sends it finds out
	}
	text, err = jsonscan.Splice(nil, text, jsonscan.Edit{Name: "cacheScope", Value: jsonscan.AppendString(nil, string(mcp.CachePrivate))})
	return mcp.Raw(text), err
}
