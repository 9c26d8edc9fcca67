package era

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

var errNoObject = errors.New("it must be an object")

// decodeObject decodes a member of a message, which must be an object.
func decodeObject(raw json.RawMessage, into json.Unmarshaler) error {
	if jsonscan.KindOf(raw) != jsonscan.Object {
		return errNoObject
	}
	return into.UnmarshalJSON(raw)
}

// notifyCancelled notifies the peer that this side has abandoned a call.
func notifyCancelled(peer jsonrpc.Peer, id jsonrpc.ID, cause error) {
	reason := ""
	if cause != nil {
		reason = cause.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	// The call has failed already, so an error changes nothing.
	_ = peer.Notify(ctx, mcp.NotificationCancelled, &mcp.CancelledParams{RequestID: id, Reason: reason})
}

// isString reports whether a value is the string text. The value may have escapes.
func isString(value json.RawMessage, text string) bool {
	return jsonscan.KindOf(value) == jsonscan.String && jsonscan.KeyIs(value, text)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Members of params that belong to one hop.
const (
	memberMeta      = "_meta"
	memberState     = "requestState"
	memberResponses = "inputResponses"
)

// appendParams appends params, an empty object if there are none.
func appendParams(dst []byte, params jsonrpc.Appender) ([]byte, error) {
	if params == nil {
		return append(dst, emptyObject...), nil
	}
	return params.AppendJSON(dst)
}

// hold passes the buffer of a response to the params of the call. Params that hold no buffers
// leave it to the garbage collector.
func hold(params jsonrpc.Appender, buffer *bufpool.Buffer) {
	if h, ok := params.(bufpool.Holder); ok {
		h.Hold(buffer)
	}
}

// appendMeta adds members, and a progress token if there is one, to the _meta of
// the object that begins at start and ends the buffer.
func appendMeta(dst []byte, start int, members string, token json.RawMessage) ([]byte, error) {
	if members == "" && token == nil {
		return dst, nil
	}
	meta, err := jsonscan.Find(dst[start:], memberMeta)
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

// spliceMeta merges the members into a _meta of the caller. They replace members of the caller
// with the same names.
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
