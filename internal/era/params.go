package era

import (
	"bytes"
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
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
	if bytes.Contains(dst[start:], []byte(`"_meta"`)) {
		return spliceMeta(dst, start, members, token)
	}
	dst = dst[:len(dst)-1]
	if len(dst) > start+1 {
		dst = append(dst, ',')
	}
	dst = append(dst, `"_meta":{`...)
	dst = appendMetaMembers(dst, members, token)
	return append(dst, '}', '}'), nil
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

// spliceMeta merges the members into a _meta that the caller has set, which
// must not speak for the protocol.
func spliceMeta(dst []byte, start int, members string, token json.RawMessage) ([]byte, error) {
	body := bytes.Clone(dst[start:])
	object, err := jsonscan.ReadObject(body)
	if err != nil {
		return dst, err
	}
	own := appendMetaMembers([]byte{'{'}, members, token)
	own = append(own, '}')
	stamp, err := jsonscan.ReadObject(own)
	if err != nil {
		return dst, err
	}
	meta := object.Get("_meta")
	if meta == nil {
		meta = json.RawMessage(emptyObject)
	}
	edits := make([]jsonscan.Edit, 0, stamp.Len())
	for m := range stamp.All() {
		edits = append(edits, jsonscan.Edit{Name: jsonscan.Unquote(m.Key), Value: m.Value})
	}
	if meta, err = jsonscan.Splice(nil, meta, edits...); err != nil {
		return dst, err
	}
	return jsonscan.Splice(dst[:start], body, jsonscan.Edit{Name: "_meta", Value: meta})
}
