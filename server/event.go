package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// Event configures an event that clients can subscribe to (SEP-3415, since 2026-07-28).
type Event struct {
	// Name has 1 to 128 characters of A–Z a–z 0–9 _ - and dot, such as incident.created.
	Name string
	// Title is shown to people. Description explains the event to a model.
	Title       string
	Description string
	Meta        mcp.Meta
	// InputSchema and PayloadSchema default to the schemas of the types of arguments and payloads.
	// Payloads are validated against a given PayloadSchema. An event changes its schemas only in ways
	// that keep earlier subscriptions valid; otherwise it gets another name.
	InputSchema   json.RawMessage
	PayloadSchema json.RawMessage
	// Guards decide about subscriptions: whether a caller sees the event, and whether it may subscribe
	// with its arguments; see [mcp.Guard]. They decide again once a minute while a stream is open, and
	// each time that events are read for a poll or a webhook. A refusal ends the subscription. A guard
	// must not ask.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a subscription needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards, in [mcp.Target]. It is not sent to clients.
	Metadata map[string]any
}

// Limits of events.
const (
	// maxPayload is the maximum size of an occurrence in bytes, as JSON (SEP-3415, Delivery profile).
	maxPayload = 256 << 10
	// maxEventID is the maximum length in bytes of [PublishOptions].ID, and of a principal in
	// [PublishOptions].For.
	maxEventID = 256
)

// A Match says whether a subscription with these arguments gets an event, and what its payload is:
// the payload that was published, or a changed copy, for example without personal data. caller is
// the subscriber. For a webhook it has a principal and a version only. A Match is called
// concurrently, must not block, and must not change what payload refers to.
type Match[Args, Payload any] func(caller *mcp.Caller, arguments Args, payload Payload) (Payload, bool)

// AddEvent registers an event, and returns the topic that publishes its occurrences. The arguments of
// subscriptions are validated against the schema of Args, a struct or map, and decoded. Payloads are
// encoded as JSON objects. match selects what a subscription gets; nil means everything.
//
// Published occurrences are kept in the log of [Options].Store, so that clients can resume after an
// interruption, at any replica. They are kept for [store.Limits].LogAge, by default 30 minutes, and at
// most LogEntries of each event, by default 10,000. Without a store, the server keeps them in memory,
// with the defaults of [store.Limits].
//
// AddEvent may be called at any time and concurrently. It panics, with the file and line of the
// caller, if the event cannot be registered.
func AddEvent[Args, Payload any](s *Server, event Event, match Match[Args, Payload]) *Topic[Payload] {
	entry, topic, err := NewEvent(event, match)
	s.mustAdd(entry, err)
	return topic
}

// NewEvent returns the entry of an event, for [Server.Replace], and its topic. The topic publishes once
// the entry is registered with a server. The error explains why the event is invalid.
func NewEvent[Args, Payload any](event Event, match Match[Args, Payload]) (*Entry, *Topic[Payload], error) {
	var untyped func(caller *mcp.Caller, arguments, payload any) (any, bool)
	if match != nil {
		untyped = func(caller *mcp.Caller, arguments, payload any) (any, bool) {
			selected, ok := match(caller, *arguments.(*Args), *payload.(*Payload))
			return &selected, ok
		}
	}
	entry, t, err := newEvent(&event, reflect.TypeFor[Args](), reflect.TypeFor[Payload](), untyped)
	if err != nil {
		return nil, nil, err
	}
	return entry, &Topic[Payload]{t}, nil
}

// newEvent returns the entry and the topic of an event. match takes and returns pointers to values of the
// types; it may be nil.
func newEvent(event *Event, in, out reflect.Type, match func(caller *mcp.Caller, arguments, payload any) (any, bool)) (*Entry, *topic, error) {
	fail := func(part string, err error) (*Entry, *topic, error) {
		return nil, nil, fmt.Errorf("event %q: %s%w", event.Name, part, err)
	}
	arguments, err := schema.NewTypeDecoder(in, &schema.DecoderOptions{Schema: event.InputSchema})
	if err != nil {
		return fail("arguments: ", err)
	}
	event.InputSchema = arguments.Schema()
	if !isObject(event.InputSchema) {
		return fail("arguments: ", errors.New(`a subscription takes an object: the schema needs "type":"object" at its root`))
	}
	t := &topic{name: event.Name}
	if event.PayloadSchema == nil {
		if event.PayloadSchema, err = schema.ForOutput(out); err != nil {
			return fail("payload: ", err)
		}
	} else if t.validator, err = schema.Compile(event.PayloadSchema, nil); err != nil {
		return fail("PayloadSchema: ", err)
	}
	payloads, err := schema.NewTypeDecoder(out, &schema.DecoderOptions{Schema: json.RawMessage(`{"type":"object"}`)})
	if err != nil {
		return fail("payload: ", err)
	}
	t.accept = func(ctx context.Context, caller *mcp.Caller, raw json.RawMessage) (selector, error) {
		given := reflect.New(in).Interface()
		if err := arguments.Decode(ctx, raw, given); err != nil {
			return nil, err
		}
		if match == nil {
			return func(_ context.Context, data json.RawMessage) (json.RawMessage, error) { return data, nil }, nil
		}
		return func(ctx context.Context, data json.RawMessage) (json.RawMessage, error) {
			payload := reflect.New(out).Interface()
			if err := payloads.Decode(ctx, data, payload); err != nil {
				return nil, err
			}
			selected, ok := match(caller, given, payload)
			if !ok {
				return nil, nil
			}
			return encodePayload(selected)
		}, nil
	}
	definition, err := event.definition()
	if err != nil {
		return fail("", err)
	}
	entry := newEntry(mcp.KindEvent, event.Name, definition, event.Scopes, event.Metadata, pending{
		guards: event.Guards, middleware: event.CallMiddleware,
		bind: func(s *Server, middleware mcp.Middleware) mcp.Handler {
			t.attach(s)
			return applyMiddleware(middleware, t.handle)
		},
	})
	return entry, t, entry.check()
}

// definition returns the event as it is listed. A server that delivers webhooks adds that mode.
func (e *Event) definition() ([]byte, error) {
	return (&mcp.EventType{
		Name: e.Name, Title: e.Title, Description: e.Description, Delivery: []mcp.DeliveryMode{mcp.DeliveryPush, mcp.DeliveryPoll},
		InputSchema: e.InputSchema, PayloadSchema: e.PayloadSchema, Meta: e.Meta,
	}).MarshalJSON()
}

// withDelivery returns the definition of an event with the modes that the server s supports: it
// delivers webhooks from what it polls. An event without any mode is an error.
func withDelivery(s *Server, definition *mcp.Definition) (*mcp.Definition, error) {
	members, err := jsonscan.ReadObject(definition.JSON())
	if err != nil {
		return nil, err
	}
	var offered []mcp.DeliveryMode
	if err := json.Unmarshal(members.Get("delivery"), &offered); err != nil {
		return nil, errors.New("delivery is no list of modes")
	}
	modes := slices.DeleteFunc(slices.Clone(offered), func(m mcp.DeliveryMode) bool { return m == mcp.DeliveryWebhook })
	if s.options.Webhooks != nil && slices.Contains(modes, mcp.DeliveryPoll) {
		modes = append([]mcp.DeliveryMode{mcp.DeliveryWebhook}, modes...)
	}
	switch {
	case len(modes) == 0:
		return nil, errors.New("none of its delivery modes can be passed on")
	case slices.Equal(modes, offered):
		return definition, nil
	}
	encoded, err := json.Marshal(modes)
	if err != nil {
		return nil, err
	}
	changed, err := jsonscan.Splice(nil, definition.JSON(), jsonscan.Edit{Name: "delivery", Value: encoded})
	return mcp.NewDefinition(changed), err
}

// A Topic publishes the occurrences of one event. Its methods may be called concurrently.
type Topic[Payload any] struct{ topic *topic }

// PublishOptions configures [Topic.Publish].
type PublishOptions struct {
	// ID identifies the occurrence: subscribers drop a second one with the same id. Use the id that the
	// source of the event has given to it, if there is one. Default: a random id.
	ID string
	// Time is when the event happened. Default: now.
	Time time.Time
	// For limits the event to the subscriptions of this principal (see [mcp.Caller]). "" means all
	// subscriptions.
	For string
}

// Publish records an occurrence, which is then delivered to the matching subscriptions at all
// replicas. It returns when the occurrence is stored. opts may be nil.
//
// The error says that the payload or an option is invalid or too large or that the event is not
// registered, or it is an error of the store or the error of ctx. After an error of the store, the occurrence may
// have been stored; publish it again with the same ID.
func (t *Topic[Payload]) Publish(ctx context.Context, payload Payload, opts *PublishOptions) error {
	data, err := encodePayload(payload)
	if err != nil {
		return fmt.Errorf("event %q: %w", t.topic.name, err)
	}
	var o PublishOptions
	if opts != nil {
		o = *opts
	}
	if o.ID == "" {
		o.ID = "evt_" + rand.Text()
	}
	if o.Time.IsZero() {
		o.Time = time.Now()
	}
	if err := t.topic.publish(ctx, data, o); err != nil {
		return fmt.Errorf("event %q: %w", t.topic.name, err)
	}
	return nil
}

// encodePayload returns the JSON of a payload.
func encodePayload(payload any) (json.RawMessage, error) {
	data, err := jsonvalue.Marshal(payload)
	if err != nil {
		return nil, err
	}
	if kind := jsonscan.KindOf(data); kind != jsonscan.Object {
		return nil, fmt.Errorf("a payload is an object, not %v", kind)
	}
	return data, nil
}

// unsupportedDelivery is the error for a delivery mode that an event does not have here.
func unsupportedDelivery(mode mcp.DeliveryMode) error {
	return &jsonrpc.Error{
		Code: mcp.CodeUnsupported, Message: fmt.Sprintf("the delivery mode %s is not supported here", mode),
		Data: fmt.Appendf(nil, `{"feature":"deliveryMode","value":%q}`, string(mode)),
	}
}

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
	start:   (*Server).startWebhooks,
	stop:    func(s *Server) func(context.Context) error { return s.stopWebhooks },
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

// withEventName returns the result of a poll with another name in the occurrences. An occurrence of a mounted
// event has the name that the event has at its provider.
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
	if err := s.eventStreams.Acquire(holderOf(call.Caller)); err != nil {
		if limit, ok := errors.AsType[*quota.LimitError](err); ok {
			err = exhausted("streams", limit.Max)
		}
		return nil, err
	}
	defer s.eventStreams.Release(holderOf(call.Caller))
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
	now, err := s.find(ctx, call.Caller, mcp.KindEvent, entry.Name)
	if err != nil {
		return nil // the server that has it may come back
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
	// maxEventStreams bounds the open streams of one server, and maxStreamsPerPrincipal the open streams of one
	// authenticated caller.
	maxEventStreams        = 10_000
	maxStreamsPerPrincipal = 1_000
)

// exhausted is the error for a limit of the server.
func exhausted(limit string, most int) error {
	data, err := jsonvalue.Marshal(map[string]any{"limit": limit, "max": most})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: mcp.CodeResourceExhausted, Message: "the limit of " + limit + " is reached", Data: data}
}
