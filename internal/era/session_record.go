package era

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A SessionRecord is what a client has said in a legacy session, so that a relay can open the next session after the server
// has lost this one. The zero value is ready for use. Its methods may be called concurrently.
type SessionRecord struct {
	mu         sync.Mutex
	initialize json.RawMessage            // the params of the handshake; nil before it
	version    json.RawMessage            // that the server has answered
	level      json.RawMessage            // of logging/setLevel; nil before it
	resources  map[string]json.RawMessage // the URIs that the client subscribes to, by their canonical spelling
}

// maxRecordedLevel is the longest level of log messages, in bytes, that is repeated.
const maxRecordedLevel = 64

// Add keeps a request of the client that the server has accepted. It keeps no more than a server of this module does.
func (r *SessionRecord) Add(req *jsonrpc.Request, resp *jsonrpc.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch req.Method {
	case mcp.MethodInitialize:
		r.initialize, r.version, r.level, r.resources = nil, nil, nil, nil
		if len(req.Params) <= MaxHandshake {
			r.initialize, r.version = bytes.Clone(req.Params), bytes.Clone(resp.Member("protocolVersion"))
		}
	case mcp.MethodSetLevel:
		if level := req.Member("level"); len(level) <= maxRecordedLevel {
			r.level = bytes.Clone(level)
		}
	case mcp.MethodResourcesSubscribe:
		if r.resources == nil {
			r.resources = make(map[string]json.RawMessage)
		}
		if uri := req.Member("uri"); len(uri) <= MaxWatchedURI && len(r.resources) < MaxSubscribed {
			r.resources[canonicalURI(uri)] = bytes.Clone(uri)
		}
	case mcp.MethodResourcesUnsubscribe:
		delete(r.resources, canonicalURI(req.Member("uri")))
	}
}

// canonicalURI returns the canonical spelling of a URI in JSON. A client may unsubscribe in another spelling.
func canonicalURI(uri json.RawMessage) string { return uritemplate.Equivalent(jsonscan.Unquote(uri)) }

// IsOpen reports whether the client has opened a session.
func (r *SessionRecord) IsOpen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.initialize != nil
}

var errOtherVersion = errors.New("the server has lost the session, and speaks another version of the protocol now; connect again")

// Reopen opens the session at another connection, if there was one. It calls changed for each notification of what may have
// changed for the client.
func (r *SessionRecord) Reopen(ctx context.Context, server jsonrpc.Peer, log *slog.Logger, changed func(method string, params json.RawMessage)) error {
	r.mu.Lock()
	initialize, version, level := r.initialize, r.version, r.level
	var uris []string
	for _, key := range sortedKeys(r.resources) {
		uris = append(uris, string(r.resources[key]))
	}
	r.mu.Unlock()
	if initialize == nil {
		return nil
	}
	resp, err := server.Call(ctx, mcp.MethodInitialize, jsonrpc.Raw(initialize))
	if err != nil {
		return err
	}
	if jsonscan.Unquote(resp.Member("protocolVersion")) != jsonscan.Unquote(version) {
		return errOtherVersion
	}
	if err := server.Notify(ctx, mcp.NotificationInitialized, nil); err != nil {
		return err
	}
	log.Info("the server has lost the session; the relay has opened another one")
	again := func(method, name string, value []byte) {
		params := slices.Concat([]byte(`{"`+name+`":`), value, []byte("}"))
		if _, err := server.Call(ctx, method, jsonrpc.Raw(params)); err != nil {
			log.Warn("the server does not repeat a setting of the client in the next session", "method", method, "error", err)
		}
	}
	if level != nil {
		again(mcp.MethodSetLevel, "level", level)
	}
	for _, uri := range uris {
		again(mcp.MethodResourcesSubscribe, "uri", []byte(uri))
	}
	for _, list := range []struct{ capability, method string }{
		{"tools", mcp.NotificationToolsListChanged}, {"prompts", mcp.NotificationPromptsListChanged}, {"resources", mcp.NotificationResourcesListChanged},
	} {
		declared, err := jsonscan.FindPointer(resp.Result, "capabilities", list.capability, "listChanged")
		if err == nil && string(declared) == "true" {
			changed(list.method, nil)
		}
	}
	for _, uri := range uris {
		changed(mcp.NotificationResourceUpdated, json.RawMessage(`{"uri":`+uri+`}`))
	}
	return nil
}
