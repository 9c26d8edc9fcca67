package era

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
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

// Reopen opens the session at another connection, if there was one. It calls changed for each notification of a list that may
// have changed for the client. Call Resubscribe after it.
func (r *SessionRecord) Reopen(ctx context.Context, server jsonrpc.Peer, log *slog.Logger, changed func(method string, params json.RawMessage)) error {
	r.mu.Lock()
	initialize, version, level := r.initialize, r.version, r.level
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
	if level != nil {
		if err := repeat(ctx, server, log, mcp.MethodSetLevel, object("level", level)); err != nil && !isRefused(err) {
			return err
		}
	}
	log.Info("the server has lost the session; the relay has opened another one")
	for _, list := range []struct{ capability, method string }{
		{"tools", mcp.NotificationToolsListChanged}, {"prompts", mcp.NotificationPromptsListChanged}, {"resources", mcp.NotificationResourcesListChanged},
	} {
		declared, err := jsonscan.FindPointer(resp.Result, "capabilities", list.capability, "listChanged")
		if err == nil && string(declared) == "true" {
			changed(list.method, nil)
		}
	}
	return nil
}

// maxRepeating is how many subscriptions are repeated at the same time. A server may limit its concurrent requests.
const maxRepeating = 4

// Resubscribe repeats the subscriptions of the client in the session that Reopen has opened. It calls changed concurrently, with the
// notification of each resource that the server has accepted again: the resource may have changed before. timeout
// bounds each subscription. An error means that the server has not answered all of them.
func (r *SessionRecord) Resubscribe(ctx context.Context, server jsonrpc.Peer, timeout time.Duration, log *slog.Logger, changed func(method string, params json.RawMessage)) error {
	r.mu.Lock()
	resources := slices.Collect(maps.Values(r.resources))
	r.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxRepeating)
	for _, uri := range resources {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			resource := object("uri", uri)
			err := repeat(ctx, server, log, mcp.MethodResourcesSubscribe, resource)
			switch {
			case err == nil:
				changed(mcp.NotificationResourceUpdated, resource)
			case isRefused(err):
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

// repeat sends a request of the client again until the server answers it, the connection ends, or ctx ends.
func repeat(ctx context.Context, server jsonrpc.Peer, log *slog.Logger, method string, params json.RawMessage) error {
	var pause backoff.Backoff
	for {
		_, err := server.Call(ctx, method, jsonrpc.Raw(params))
		if isRefused(err) {
			log.Warn("the server does not repeat a setting of the client in the next session", "method", method, "error", err)
		}
		if err == nil || isRefused(err) || errors.Is(err, jsonrpc.ErrClosed) || pause.Wait(ctx) != nil {
			return err
		}
	}
}

// isRefused reports whether err is the server's final answer to a request. An answer that the server is busy is not final.
func isRefused(err error) bool {
	_, answered := errors.AsType[*jsonrpc.Error](err)
	failed, ok := errors.AsType[*jsonrpc.CallError](err)
	return answered && !(ok && failed.Delivery == jsonrpc.Rejected) || errors.Is(err, transport.ErrForbidden)
}

func object(name string, value json.RawMessage) json.RawMessage {
	return slices.Concat([]byte(`{"`+name+`":`), value, []byte("}"))
}
