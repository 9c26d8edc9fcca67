package era

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

var errNoObject = errors.New("it must be an object")

// decodeObject decodes a member of a message, which must be there and be an
// object, into one of this module's types.
func decodeObject(raw json.RawMessage, into json.Unmarshaler) error {
	if jsonscan.KindOf(raw) != jsonscan.Object {
		return errNoObject
	}
	return into.UnmarshalJSON(raw)
}

// notifyCancelled tells the peer that nobody waits for an answer any more.
func notifyCancelled(peer jsonrpc.Peer, id jsonrpc.ID, cause error) {
	reason := ""
	if cause != nil {
		reason = cause.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	// The call has failed already; that its end cannot be told changes nothing.
	_ = peer.Notify(ctx, mcp.NotificationCancelled, &mcp.CancelledParams{RequestID: id, Reason: reason})
}

// isString reports whether a value is that string, whatever its escapes.
func isString(value json.RawMessage, text string) bool {
	return jsonscan.KindOf(value) == jsonscan.String && jsonscan.KeyIs(value, text)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
