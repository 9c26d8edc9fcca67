package era

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// An envelope has the members that the modern era adds to a result of the core: that it
// is complete, how long it may be cached, and which server made it.
type envelope struct {
	serverInfo json.RawMessage
	ttl, scope json.RawMessage // the cache hint, nil on results that have none
}

// What results say when the core has said nothing.
var (
	resultComplete = json.RawMessage(`"complete"`)
	ttlNone        = json.RawMessage(`0`)
	scopePrivate   = json.RawMessage(`"private"`)
	scopePublic    = json.RawMessage(`"public"`)
)

// append appends a result, which is in other memory, with the envelope's members.
func (e envelope) append(dst, result []byte) ([]byte, error) {
	has, err := jsonscan.ReadObject(result)
	if err != nil {
		return dst, err
	}
	meta := has.Get("_meta")
	if meta == nil && has.Get("resultType") == nil && has.Get("ttlMs") == nil && has.Get("cacheScope") == nil {
		return e.appendMembers(append(dst, result...)), nil
	}
	if meta == nil {
		meta = json.RawMessage("{}")
	}
	edits := []jsonscan.Edit{{Name: "resultType", Value: resultComplete}}
	if e.ttl != nil && has.Get("ttlMs") == nil {
		edits = append(edits, jsonscan.Edit{Name: "ttlMs", Value: e.ttl})
	}
	if e.ttl != nil && has.Get("cacheScope") == nil {
		edits = append(edits, jsonscan.Edit{Name: "cacheScope", Value: e.scope})
	}
	if meta, err = jsonscan.Splice(nil, meta, jsonscan.Edit{Name: mcp.MetaServerInfo, Value: e.serverInfo}); err != nil {
		return dst, err
	}
	edits = append(edits, jsonscan.Edit{Name: "_meta", Value: meta})
	return jsonscan.Splice(dst, result, edits...)
}

// apply adds the members to the result that begins at start and ends the buffer.
func (e envelope) apply(buf []byte, start int) ([]byte, error) {
	return e.append(buf[:start], bytes.Clone(buf[start:]))
}

// appendMembers adds the members to the result that ends the buffer and has none of them,
// before the closing brace. That is the usual case.
func (e envelope) appendMembers(buf []byte) []byte {
	buf = bytes.TrimRight(buf, " \t\r\n")
	buf = buf[:len(buf)-1]
	if !bytes.HasSuffix(bytes.TrimRight(buf, " \t\r\n"), []byte{'{'}) {
		buf = append(buf, ',')
	}
	buf = append(buf, `"resultType":"complete",`...)
	if e.ttl != nil {
		buf = append(append(buf, `"ttlMs":`...), e.ttl...)
		buf = append(append(buf, `,"cacheScope":`...), e.scope...)
		buf = append(buf, ',')
	}
	buf = append(buf, `"_meta":{"`+mcp.MetaServerInfo+`":`...)
	buf = append(buf, e.serverInfo...)
	return append(buf, '}', '}')
}

// envelopeFor returns the envelope of a method's results. Some must carry a cache hint:
// the server's own is for its description and its lists. MCP 2026-07-28,
// server/utilities/caching.
func (s *Server) envelopeFor(method string, d *Description) envelope {
	info := s.serverInfo.of(d)
	e := envelope{serverInfo: info.encoded}
	switch {
	case method == mcp.MethodDiscover, isList(method):
		e.ttl, e.scope = info.ttl, info.scope
	case method == mcp.MethodResourcesRead:
		e.ttl, e.scope = ttlNone, scopePrivate
	}
	return e
}

func isList(method string) bool {
	switch method {
	case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList:
		return true
	}
	return false
}

// serverInfoCache holds the parts of the last description that results carry, encoded.
type serverInfoCache struct {
	last atomic.Pointer[serverInfo]
}

type serverInfo struct {
	description *Description
	encoded     json.RawMessage
	ttl, scope  json.RawMessage
}

func (c *serverInfoCache) of(d *Description) *serverInfo {
	if known := c.last.Load(); known != nil && known.description == d {
		return known
	}
	encoded, err := d.Info.MarshalJSON()
	if err != nil {
		encoded = []byte("{}")
	}
	info := &serverInfo{description: d, encoded: encoded, ttl: ttlNone, scope: scopePrivate}
	if d.CacheHint.TTLMs > 0 {
		info.ttl = strconv.AppendInt(nil, d.CacheHint.TTLMs, 10)
	}
	if d.CacheHint.Scope == mcp.CachePublic {
		info.scope = scopePublic
	}
	c.last.Store(info)
	return info
}
