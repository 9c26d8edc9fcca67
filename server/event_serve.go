package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// eventFeature is the methods of [mcp.ExtensionEvents].
var eventFeature = feature{
	methods: []method{
		{name: mcp.MethodEventsList, list: mcp.KindEvent},
		{name: mcp.MethodEventsPoll, kinds: []mcp.Kind{mcp.KindEvent}, unknown: unknownEvent, handle: (*Server).servePoll},
		{name: mcp.MethodEventsStream, kinds: []mcp.Kind{mcp.KindEvent}, unknown: unknownEvent, handle: (*Server).streamEvent},
		{name: mcp.MethodEventsSubscribe, kinds: []mcp.Kind{mcp.KindEvent}, unknown: unknownEvent, handle: (*Server).subscribeEvent},
		{name: mcp.MethodEventsUnsubscribe, kinds: []mcp.Kind{mcp.KindEvent}, unknown: unknownEvent, handle: (*Server).unsubscribeEvent, optional: true},
	},
	needed:  func(c *Catalog, _ bool) bool { return c.partial || c.Len(mcp.KindEvent) > 0 },
	declare: func(has *mcp.ServerCapabilities) { declareExtension(has, mcp.ExtensionEvents, `{"listChanged":true}`) },
	offered: (*Server).offersEvents,
}

// servePoll answers events/poll.
func (s *Server) servePoll(ctx context.Context, call *mcp.Call, entry *Entry) (mcp.Result, error) {
	result, err := entry.Handle(ctx, call)
	if err != nil {
		return nil, err
	}
	return withEventName(result, call.Member("name"))
}

// unknownEvent is the error for an event that does not exist, or is hidden.
func unknownEvent(_ *mcp.Call, _ mcp.Kind, name string) error {
	return &jsonrpc.Error{Code: mcp.CodeNotFound, Message: fmt.Sprintf("unknown event: %.256q", name), Data: json.RawMessage(`{"kind":"event"}`)}
}

// offersEvents reports whether the server has, or may get, events.
func (s *Server) offersEvents() bool {
	c := s.Catalog()
	return c.partial || c.Len(mcp.KindEvent) > 0 || s.options.Capabilities != nil && s.options.Capabilities.Extensions[mcp.ExtensionEvents] != nil
}

// withEventName returns the result of a poll with another name in the occurrences: that of a mounted
// event is the one at its provider.
func withEventName(result mcp.Result, name json.RawMessage) (mcp.Result, error) {
	if polled, ok := result.(*mcp.PollEventsResult); ok {
		text := jsonscan.Unquote(name)
		for i := range polled.Events {
			polled.Events[i].Name = text
		}
		return polled, nil
	}
	text, err := result.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	occurrences, err := jsonscan.Find(text, "events")
	if err != nil || occurrences == nil {
		return mcp.Raw(text), err
	}
	scanner := jsonscan.New(occurrences)
	if err := scanner.EnterArray(); err != nil {
		return nil, err
	}
	renamed := []byte{'['}
	for first := true; ; first = false {
		more, err := scanner.Element(first)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		occurrence, err := scanner.Value()
		if err != nil {
			return nil, err
		}
		if !first {
			renamed = append(renamed, ',')
		}
		if renamed, err = jsonscan.Splice(renamed, occurrence, jsonscan.Edit{Name: "name", Value: name}); err != nil {
			return nil, err
		}
	}
	text, err = jsonscan.Splice(nil, text, jsonscan.Edit{Name: "events", Value: append(renamed, ']')})
	return mcp.Raw(text), err
}

// A termination is why the server ends a subscription.
type termination struct{ reason *jsonrpc.Error }

func (t *termination) Error() string { return "the subscription was terminated: " + t.reason.Message }

// streamEvent answers events/stream until the client or the server ends it, the caller loses its
// access, or the event changes.
func (s *Server) streamEvent(ctx context.Context, call *mcp.Call, entry *Entry) (mcp.Result, error) {
	if err := s.events.streams.Acquire(call.Caller.Principal); err != nil {
		if limit, ok := errors.AsType[*quota.LimitError](err); ok {
			err = exhausted("streams", limit.Max)
		}
		return nil, err
	}
	defer s.events.streams.Release(call.Caller.Principal)
	streaming, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watchEvent(streaming, call, entry, end) })
	result, err := entry.Handle(streaming, call)
	cause := context.Cause(streaming)
	end(nil)
	watching.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if ended, ok := errors.AsType[*termination](cause); ok {
		return mcp.Raw("{}"), call.Notify(ctx, mcp.NotificationEventTerminated, &mcp.EventStatusParams{Error: ended.reason})
	}
	if cause == error(errStopping) {
		return mcp.Raw("{}"), nil
	}
	return result, err
}

// accessInterval is how often the guards of an open stream are asked again.
const accessInterval = time.Minute

// watchEvent ends a stream when the server stops, the event is removed or changed, or its guards
// refuse.
func (s *Server) watchEvent(ctx context.Context, call *mcp.Call, entry *Entry, end context.CancelCauseFunc) {
	changed := make(chan struct{}, 1)
	defer s.changes.watch(call.Caller.Principal, mcp.SubscriptionFilter{EventsListChanged: true}, func(mcp.Change) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	ticker := time.NewTicker(accessInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.stopping:
			end(errStopping)
			return
		case <-changed:
		case <-ticker.C:
		}
		if reason := s.eventRefusal(ctx, call, entry); reason != nil && ctx.Err() == nil {
			end(&termination{reason})
			return
		}
	}
}

// eventRefusal returns why a subscription to an event must end, or nil. SEP-3415, Subscription
// Termination.
func (s *Server) eventRefusal(ctx context.Context, call *mcp.Call, entry *Entry) *jsonrpc.Error {
	now := s.Catalog().Lookup(mcp.KindEvent, entry.Name)
	if now == nil {
		resolved, err := s.resolveUnlisted(ctx, mcp.KindEvent, entry.Name)
		if err != nil {
			return nil // the server that has it may come back
		}
		now = resolved
	}
	if now == nil {
		reason, _ := errors.AsType[*jsonrpc.Error](s.unknownName(call))
		return reason
	}
	if feature := changedSchema(entry.Definition, now.Definition); feature != "" {
		return &jsonrpc.Error{
			Code: mcp.CodeUnsupported, Message: "the schema of the event has changed: read the list of events again",
			Data: json.RawMessage(`{"feature":"` + feature + `","reason":"schema_changed"}`),
		}
	}
	if now.Subscribe == nil {
		return nil
	}
	one := *call
	one.Resolve(&now.Target, "", s.recheckFunc)
	stop, err := now.Subscribe(ctx, &one)
	if err == nil {
		stop()
		return nil
	}
	if _, asks := mcp.AsInputRequired(err); asks || ctx.Err() != nil {
		return nil
	}
	if _, err = s.convertError(ctx, &one, err); err == nil {
		return nil
	}
	reason, _ := errors.AsType[*jsonrpc.Error](err)
	return reason
}

// changedSchema returns the member of a definition that earlier subscriptions do not fit any more,
// or "". Properties that were added to a schema are compatible, unless they are required arguments.
func changedSchema(before, now *mcp.Definition) string {
	if before.Digest() == now.Digest() {
		return ""
	}
	for _, member := range []string{"inputSchema", "payloadSchema"} {
		old, _ := jsonscan.Find(before.JSON(), member)
		current, _ := jsonscan.Find(now.JSON(), member)
		if !extends(old, current, member == "inputSchema") {
			return member
		}
	}
	return ""
}

// extends reports whether a schema differs from an older one only in additional properties, and in
// annotations of its root. Values of the older schema must be values of the newer one if it is the
// schema of input, and the other way round otherwise.
func extends(old, now json.RawMessage, input bool) bool {
	type shape struct {
		Type       json.RawMessage            `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	var a, b shape
	if string(old) == string(now) {
		return true
	}
	if json.Unmarshal(old, &a) != nil || json.Unmarshal(now, &b) != nil || string(a.Type) != string(b.Type) {
		return false
	}
	for name, property := range a.Properties {
		if string(b.Properties[name]) != string(property) {
			return false
		}
	}
	narrow, wide := a.Required, b.Required
	if input {
		narrow, wide = wide, narrow
	}
	return !slices.ContainsFunc(narrow, func(name string) bool { return !slices.Contains(wide, name) })
}

const (
	// maxEventStreams bounds the open streams of one server, and maxStreamsPerPrincipal those of one
	// authenticated caller.
	maxEventStreams        = 10_000
	maxStreamsPerPrincipal = 1_000
)

// exhausted is the error for a limit of the server.
func exhausted(limit string, most int) error {
	data, err := encode(map[string]any{"limit": limit, "max": most})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: mcp.CodeResourceExhausted, Message: "the limit of " + limit + " is reached", Data: data}
}
