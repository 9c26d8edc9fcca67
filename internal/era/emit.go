package era

import (
	"fmt"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Bare result may be an object without any member of an [envelope], and without structured
// content that is not an object. It need not be searched for these, which takes its time
// with a large text.
type Bare interface {
	mcp.Result
	Bare() bool
}

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

// writeObject appends a result as the core has made it.
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

// writeLegacy appends a result without what the version has no words for.
func (s *Server) writeLegacy(method string, version mcp.Version, result mcp.Result, reply *jsonrpc.Reply) (err error) {
	filter := filterFor(version, method)
	if raw, ok := result.(mcp.Raw); ok {
		if err := checkObject(method, raw); err != nil {
			return err
		}
		if isList(method) {
			reply.Buf, err = s.lists.append(reply.Buf, method, version, raw, filter.append)
		} else {
			reply.Buf, err = filter.append(reply.Buf, raw)
		}
		return err
	}
	start := len(reply.Buf)
	if err := writeObject(method, result, reply); err != nil || isBare(result) && !filter.concernsBare() {
		return err
	}
	reply.Buf, err = filter.apply(reply.Buf, start)
	return err
}

// A encoder appends a result, which stands elsewhere, in the form that a caller gets.
type encoder func(dst, result []byte) ([]byte, error)

// listCache keeps the answers that depend on nothing but what the server offers:
// a core gives the same bytes for a list until the list changes, and so the form
// for each version is made once.
type listCache struct {
	known atomic.Pointer[map[listKey]listForm]
}

type listKey struct {
	method  string
	version mcp.Version
}

type listForm struct {
	source, form []byte
}

// append appends the version's form of a list.
func (c *listCache) append(buf []byte, method string, version mcp.Version, source mcp.Raw, form encoder) ([]byte, error) {
	key := listKey{method, version}
	known := c.known.Load()
	if known != nil {
		if known := (*known)[key]; sameBytes(known.source, source) {
			return append(buf, known.form...), nil
		}
	}
	start := len(buf)
	buf, err := form(buf, source)
	if err != nil {
		return buf, err
	}
	c.keep(known, key, listForm{source: source, form: append([]byte(nil), buf[start:]...)})
	return buf, nil
}

// keep replaces one form. When another goroutine has done so meanwhile, nothing
// is kept: the next call will.
func (c *listCache) keep(known *map[listKey]listForm, key listKey, form listForm) {
	next := map[listKey]listForm{key: form}
	if known != nil {
		for k, f := range *known {
			if k != key {
				next[k] = f
			}
		}
	}
	c.known.CompareAndSwap(known, &next)
}

// sameBytes says whether both are one slice, not merely equal ones.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}
