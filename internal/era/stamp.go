package era

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A stamp is what the modern era puts on a result that the core has made: that
// it is complete, how long it may be cached, and who made it.
type stamp struct {
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

// append appends a result that stands elsewhere, stamped.
func (s stamp) append(dst, result []byte) ([]byte, error) {
	has, err := jsonscan.ReadObject(result)
	if err != nil {
		return dst, err
	}
	meta := has.Get("_meta")
	if meta == nil && has.Get("resultType") == nil && has.Get("ttlMs") == nil && has.Get("cacheScope") == nil {
		return s.press(append(dst, result...)), nil
	}
	if meta == nil {
		meta = json.RawMessage("{}")
	}
	edits := []jsonscan.Edit{{Name: "resultType", Value: resultComplete}}
	if s.ttl != nil && has.Get("ttlMs") == nil {
		edits = append(edits, jsonscan.Edit{Name: "ttlMs", Value: s.ttl})
	}
	if s.ttl != nil && has.Get("cacheScope") == nil {
		edits = append(edits, jsonscan.Edit{Name: "cacheScope", Value: s.scope})
	}
	if meta, err = jsonscan.Splice(nil, meta, jsonscan.Edit{Name: mcp.MetaServerInfo, Value: s.serverInfo}); err != nil {
		return dst, err
	}
	edits = append(edits, jsonscan.Edit{Name: "_meta", Value: meta})
	return jsonscan.Splice(dst, result, edits...)
}

// apply stamps the result that begins at start and ends the buffer.
func (s stamp) apply(buf []byte, start int) ([]byte, error) {
	return s.append(buf[:start], bytes.Clone(buf[start:]))
}

// press stamps the result that ends the buffer and holds nothing of a stamp: the usual
// case. It goes before the closing brace.
func (s stamp) press(buf []byte) []byte {
	buf = bytes.TrimRight(buf, " \t\r\n")
	buf = buf[:len(buf)-1]
	if !bytes.HasSuffix(bytes.TrimRight(buf, " \t\r\n"), []byte{'{'}) {
		buf = append(buf, ',')
	}
	buf = append(buf, `"resultType":"complete",`...)
	if s.ttl != nil {
		buf = append(append(buf, `"ttlMs":`...), s.ttl...)
		buf = append(append(buf, `,"cacheScope":`...), s.scope...)
		buf = append(buf, ',')
	}
	buf = append(buf, `"_meta":{"`+mcp.MetaServerInfo+`":`...)
	buf = append(buf, s.serverInfo...)
	return append(buf, '}', '}')
}

// stampFor is the stamp of a method's results. Some must carry a cache hint: the
// server's own is for what it tells of itself. MCP 2026-07-28,
// server/utilities/caching.
func (s *Server) stampFor(method string, d *Description) stamp {
	hello := s.hello.of(d)
	st := stamp{serverInfo: hello.info}
	switch {
	case method == mcp.MethodDiscover, isList(method):
		st.ttl, st.scope = hello.ttl, hello.scope
	case method == mcp.MethodResourcesRead:
		st.ttl, st.scope = ttlNone, scopePrivate
	}
	return st
}

func isList(method string) bool {
	switch method {
	case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList:
		return true
	}
	return false
}

// helloCache keeps what a description says on every result, encoded once.
type helloCache struct {
	last atomic.Pointer[hello]
}

type hello struct {
	description *Description
	info        json.RawMessage
	ttl, scope  json.RawMessage
}

func (c *helloCache) of(d *Description) *hello {
	if h := c.last.Load(); h != nil && h.description == d {
		return h
	}
	info, err := d.Info.MarshalJSON()
	if err != nil {
		info = []byte("{}")
	}
	h := &hello{description: d, info: info, ttl: ttlNone, scope: scopePrivate}
	if d.CacheHint.TTLMs > 0 {
		h.ttl = strconv.AppendInt(nil, d.CacheHint.TTLMs, 10)
	}
	if d.CacheHint.Scope == mcp.CachePublic {
		h.scope = scopePublic
	}
	c.last.Store(h)
	return h
}
