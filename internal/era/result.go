package era

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

func isBare(result mcp.Result) bool {
	switch result := result.(type) {
	case Bare:
		return result.Bare()
	case *mcp.CallToolResult:
		return result.ResultType == "" && result.Meta == nil && result.Extra == nil &&
			(result.StructuredContent == nil || jsonscan.KindOf(result.StructuredContent) == jsonscan.Object)
	}
	return false
}

// writeObject appends a result of the core unchanged.
func writeObject(method string, result mcp.Result, reply *jsonrpc.Reply) error {
	start := len(reply.Buf)
	if err := reply.Write(result); err != nil {
		return fmt.Errorf("encoding the result of %s: %w", method, err)
	}
	return checkObject(method, reply.Buf[start:])
}

func checkObject(method string, result []byte) error {
	if jsonscan.KindOf(result) != jsonscan.Object {
		return fmt.Errorf("the result of %s is no object: %.80q", method, result)
	}
	return nil
}

// writeLegacy appends a result without members that the version does not have.
func (s *Server) writeLegacy(method string, version mcp.Version, result mcp.Result, reply *jsonrpc.Reply) error {
	filter := filterFor(version, method)
	if filter.concernsBare() {
		return s.write(method, version, result, reply, filter.append, nil)
	}
	return s.write(method, version, result, reply, filter.append, func(buf []byte) []byte { return buf })
}

// write appends a result in the form for a version. form encodes any result; finish, if not
// nil, completes a [Bare] result at the end of the buffer.
func (s *Server) write(method string, version mcp.Version, result mcp.Result, reply *jsonrpc.Reply, form encoder, finish func(buf []byte) []byte) (err error) {
	switch result := result.(type) {
	case *Page:
		reply.Buf, err = result.append(reply.Buf, version, form)
		return err
	case mcp.Raw:
		if err := checkObject(method, result); err != nil {
			return err
		}
		reply.Buf, err = form(reply.Buf, result)
		return err
	}
	start := len(reply.Buf)
	if err := writeObject(method, result, reply); err != nil {
		return err
	}
	if finish != nil && isBare(result) {
		reply.Buf = finish(reply.Buf)
		return nil
	}
	reply.Buf, err = form(reply.Buf[:start], bytes.Clone(reply.Buf[start:]))
	return err
}

// An encoder appends a result, which is in other memory, in the form for a caller.
type encoder func(dst, result []byte) ([]byte, error)

// A Page is a page of a list that several callers get. It keeps its form for each version. Its methods may be called
// concurrently.
type Page struct {
	result mcp.Raw
	forms  sync.Map // of mcp.Version to []byte
}

// NewPage returns a page. Only one server may use it.
func NewPage(result mcp.Raw) *Page { return &Page{result: result} }

// AppendJSON implements [mcp.Result].
func (p *Page) AppendJSON(dst []byte) ([]byte, error) { return append(dst, p.result...), nil }

func (p *Page) append(buf []byte, version mcp.Version, form encoder) ([]byte, error) {
	if known, ok := p.forms.Load(version); ok {
		return append(buf, known.([]byte)...), nil
	}
	start := len(buf)
	buf, err := form(buf, p.result)
	if err == nil {
		p.forms.Store(version, bytes.Clone(buf[start:]))
	}
	return buf, err
}

// An envelope has the members that the modern era adds to a result of the core: the type of
// the result, the cache hint and the server.
type envelope struct {
	serverInfo json.RawMessage
	ttl, scope json.RawMessage // the cache hint, nil on results that have none
}

// Default members of results.
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
	if has.Get("_meta") == nil && has.Get("resultType") == nil && has.Get("ttlMs") == nil && has.Get("cacheScope") == nil {
		return e.appendMembers(append(dst, result...)), nil
	}
	present := func(name string) json.RawMessage {
		if value := has.Get(name); jsonscan.KindOf(value) != jsonscan.Null {
			return value
		}
		return nil
	}
	meta := present("_meta")
	if meta == nil {
		meta = json.RawMessage("{}")
	}
	edits := append(make([]jsonscan.Edit, 0, 4), jsonscan.Edit{Name: "resultType", Value: resultComplete})
	if e.ttl != nil && present("ttlMs") == nil {
		edits = append(edits, jsonscan.Edit{Name: "ttlMs", Value: e.ttl})
	}
	if e.ttl != nil && present("cacheScope") == nil {
		edits = append(edits, jsonscan.Edit{Name: "cacheScope", Value: e.scope})
	}
	room := make([]byte, 0, len(meta)+len(e.serverInfo)+len(mcp.MetaServerInfo)+len(`"":,`))
	if meta, err = jsonscan.Splice(room, meta, jsonscan.Edit{Name: mcp.MetaServerInfo, Value: e.serverInfo}); err != nil {
		return dst, err
	}
	edits = append(edits, jsonscan.Edit{Name: "_meta", Value: meta})
	return jsonscan.Splice(dst, result, edits...)
}

// appendMembers adds the members to the result at the end of the buffer, which has none of
// them, before the closing brace.
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
	switch methods[method].hint {
	case serverHint:
		e.ttl, e.scope = info.ttl, info.scope
	case privateHint:
		e.ttl, e.scope = ttlNone, scopePrivate
	}
	return e
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
