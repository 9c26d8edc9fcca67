package era

import (
	"bytes"
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Members of params that belong to one hop.
const (
	memberMeta      = "_meta"
	memberState     = "requestState"
	memberResponses = "inputResponses"
)

// appendParams appends parameters, an empty object when there are none.
func appendParams(dst []byte, params jsonrpc.Appender) ([]byte, error) {
	if params == nil {
		return append(dst, emptyObject...), nil
	}
	return params.AppendJSON(dst)
}

// appendMeta adds members, and a progress token if there is one, to the _meta of
// the object that begins at start and ends the buffer.
func appendMeta(dst []byte, start int, members string, token json.RawMessage) ([]byte, error) {
	if members == "" && token == nil {
		return dst, nil
	}
	meta, err := member(dst[start:], memberMeta)
	if err != nil {
		return dst, err
	}
	if meta != nil {
		return spliceMeta(dst, start, meta, members, token)
	}
	dst = bytes.TrimRight(dst, " \t\r\n")
	dst = dst[:len(dst)-1]
	if len(dst) > start+1 {
		dst = append(dst, ',')
	}
	dst = append(dst, `"_meta":{`...)
	dst = appendMetaMembers(dst, members, token)
	return append(dst, '}', '}'), nil
}

// member returns the value of a member of an object, nil if the object has none.
func member(object []byte, name string) (json.RawMessage, error) {
	s := jsonscan.New(object)
	if err := s.EnterObject(); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		key, ok, err := s.Member(first)
		if err != nil || !ok {
			return nil, err
		}
		value, err := s.Value()
		if err != nil || jsonscan.KeyIs(key, name) {
			return value, err
		}
	}
}

func appendMetaMembers(dst []byte, members string, token json.RawMessage) []byte {
	dst = append(dst, members...)
	if token != nil {
		if members != "" {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `"progressToken":`...), token...)
	}
	return dst
}

// spliceMeta merges the members into a _meta that the caller has set, which must not
// speak for the protocol.
func spliceMeta(dst []byte, start int, meta json.RawMessage, members string, token json.RawMessage) ([]byte, error) {
	own, err := jsonscan.ReadObject(append(appendMetaMembers([]byte{'{'}, members, token), '}'))
	if err != nil {
		return dst, err
	}
	edits := make([]jsonscan.Edit, 0, own.Len())
	for m := range own.All() {
		edits = append(edits, jsonscan.Edit{Name: m.Name(), Value: m.Value})
	}
	merged, err := jsonscan.Splice(nil, meta, edits...)
	if err != nil {
		return dst, err
	}
	return jsonscan.Splice(dst[:start], bytes.Clone(dst[start:]), jsonscan.Edit{Name: memberMeta, Value: merged})
}
