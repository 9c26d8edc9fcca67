package client

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// CallOptions belong to one call.
type CallOptions struct {
	// Progress, when set, is called as the call gets on, on the goroutine that
	// makes the call and before it returns.
	Progress func(*mcp.ProgressParams)
	// Meta is sent as the request's _meta, beside what the protocol puts there:
	// a progress token, and who the client is. Keys for these are left out.
	Meta mcp.Meta
}

func (o *CallOptions) progress() func(*mcp.ProgressParams) {
	if o == nil {
		return nil
	}
	return o.Progress
}

func (o *CallOptions) meta() (mcp.Meta, error) {
	if o == nil {
		return nil, nil
	}
	return checked(o.Meta)
}

// onlyProtocol removes from a _meta what only the protocol may say there.
func onlyProtocol() []jsonscan.Edit {
	return []jsonscan.Edit{
		{Name: mcp.MetaProgressToken}, {Name: mcp.MetaProtocolVersion}, {Name: mcp.MetaLogLevel},
		{Name: mcp.MetaClientInfo}, {Name: mcp.MetaClientCapabilities},
	}
}

// checked is a caller's _meta as it may be sent; nil stays nil.
func checked(meta mcp.Meta) (mcp.Meta, error) {
	if meta.IsZero() {
		return nil, nil
	}
	may, err := jsonscan.Splice(nil, bytes.TrimSpace(meta), onlyProtocol()...)
	if err != nil {
		return nil, fmt.Errorf("_meta must be an object: %w", err)
	}
	return may, nil
}

// checkedParams are parameters that a caller has encoded, with meta added to
// their own _meta.
func checkedParams(params json.RawMessage, meta mcp.Meta) (mcp.Raw, error) {
	members, err := jsonscan.ReadObject(params)
	if err != nil {
		return nil, fmt.Errorf("params must be an object: %w", err)
	}
	own, err := checked(members.Get("_meta"))
	if err != nil {
		return nil, err
	}
	if own, err = merged(own, meta); err != nil {
		return nil, err
	}
	if members.Len() == 0 && own.IsZero() {
		return mcp.Raw("{}"), nil
	}
	return jsonscan.Splice(nil, bytes.TrimSpace(params), jsonscan.Edit{Name: "_meta", Value: own})
}

// merged is meta with the members of more, which win. Neither is changed.
func merged(meta, more mcp.Meta) (mcp.Meta, error) {
	if more.IsZero() {
		return meta, nil
	}
	members, err := jsonscan.ReadObject(more)
	if err != nil {
		return nil, err
	}
	for m := range members.All() {
		if err := meta.Set(m.Name(), m.Value); err != nil {
			return nil, err
		}
	}
	return meta, nil
}
