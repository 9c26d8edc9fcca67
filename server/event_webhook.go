package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// sourceInterval is how often the events of a mounted provider are polled for a webhook. The events of
// the server itself are read when they are published, and at each sweep, which moves the position of the
// webhook on while nothing happens.
const sourceInterval = 2 * time.Second

// A webhookPosition is where the next delivery of a webhook begins. It is stored by the deliverer.
type webhookPosition struct {
	Cursor string `json:"cursor"`
	// Floor leaves out occurrences before that time, in milliseconds since 1970, until the log has been read
	// to its end. 0 means none.
	Floor int64 `json:"floor,omitempty"`
	// Reported says that the subscriber has been notified of lost occurrences before the position.
	Reported bool `json:"reported,omitempty"`
}

func (p webhookPosition) encode() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return string(text)
}

func decodePosition(text string) (p webhookPosition, err error) {
	err = json.Unmarshal([]byte(text), &p)
	return p, err
}

// subscribeEvent answers events/subscribe. SEP-3415, Webhook-Based Delivery.
func (s *Server) subscribeEvent(ctx context.Context, call *mcp.Call, entry *Entry) (mcp.Result, error) {
	params, key, err := s.webhookParams(call)
	if err != nil {
		return nil, err
	}
	if params.Delivery.Mode != "" && params.Delivery.Mode != mcp.DeliveryWebhook {
		return nil, unsupportedDelivery(params.Delivery.Mode)
	}
	ttl, forever, err := webhookTTL(params.TTLMs)
	if err != nil {
		return nil, err
	}
	// A poll checks the arguments and the access, and finds where to begin.
	begin, err := s.pollEvent(ctx, entry, call.Caller, &mcp.EventParams{
		Name: entry.Name, Arguments: key.Arguments, Cursor: params.Cursor, MaxAgeMs: params.MaxAgeMs, MaxEvents: new(int64(1)),
	})
	if err != nil {
		return nil, err
	}
	position := webhookPosition{Reported: begin.Truncated}
	switch {
	case params.Cursor != nil:
		position.Cursor = *params.Cursor
	case begin.Cursor != nil:
		position.Cursor = *begin.Cursor
	}
	if age := params.MaxAgeMs; age != nil && params.Cursor != nil {
		position.Floor = time.Now().UnixMilli() - min(*age, maxAge.Milliseconds())
	}
	grant, err := s.options.Webhooks.Subscribe(ctx, delivery.Request{
		Key: key, Secret: params.Delivery.Secret, TTL: ttl, Forever: forever,
		Start: func(context.Context, string) (string, error) { return position.encode(), nil },
	})
	if err != nil {
		return nil, webhookError(err)
	}
	return subscribed(&grant, begin.Truncated && grant.Created)
}

// subscribed returns the result of events/subscribe.
func subscribed(grant *delivery.Grant, truncated bool) (mcp.Result, error) {
	result := &mcp.SubscribeEventsResult{ID: grant.ID, Truncated: truncated}
	if !grant.Expires.IsZero() {
		result.RefreshBefore = new(formatTime(grant.Expires))
	}
	position, err := decodePosition(grant.Position)
	if err != nil {
		return nil, err
	}
	if position.Cursor != "" {
		result.Cursor = &position.Cursor
	}
	if status := grant.Status; status != nil {
		result.DeliveryStatus = &mcp.DeliveryStatus{Active: status.Active}
		if status.LastDeliveryAt != nil {
			result.DeliveryStatus.LastDeliveryAt = formatTime(*status.LastDeliveryAt)
		}
		if status.LastError != nil {
			result.DeliveryStatus.LastError = new(string(*status.LastError))
		}
		if status.FailedSince != nil {
			result.DeliveryStatus.FailedSince = formatTime(*status.FailedSince)
		}
	}
	return result, nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// unsubscribeEvent answers events/unsubscribe, also for an event that is not offered any more.
func (s *Server) unsubscribeEvent(ctx context.Context, call *mcp.Call, _ *Entry) (mcp.Result, error) {
	_, key, err := s.webhookParams(call)
	if err != nil {
		return nil, err
	}
	if err := s.options.Webhooks.Unsubscribe(ctx, key); err != nil {
		return nil, webhookError(err)
	}
	return mcp.Raw("{}"), nil
}

// webhookParams decodes the params of events/subscribe and events/unsubscribe, and returns the key of
// the subscription.
func (s *Server) webhookParams(call *mcp.Call) (params *mcp.EventParams, key delivery.Key, err error) {
	if s.options.Webhooks == nil {
		return nil, key, unsupportedDelivery(mcp.DeliveryWebhook)
	}
	if call.Caller.Principal == "" {
		return nil, key, &jsonrpc.Error{
			Code: mcp.CodeForbidden, Message: "a webhook needs an authenticated caller",
			Data: json.RawMessage(`{"reason":"unauthenticated"}`),
		}
	}
	if params, err = eventParams(call); err != nil {
		return nil, key, err
	}
	if params.Delivery == nil {
		return nil, key, invalidParams("delivery is missing")
	}
	key = delivery.Key{Principal: call.Caller.Principal, URL: params.Delivery.URL, Event: params.Name}
	key.Arguments, err = canonical(params.Arguments)
	return params, key, err
}

// canonical returns the canonical JSON of arguments (RFC 8785).
func canonical(arguments json.RawMessage) (json.RawMessage, error) {
	if arguments == nil {
		return json.RawMessage("{}"), nil
	}
	value := jsontext.Value(bytes.Clone(arguments))
	if err := value.Canonicalize(); err != nil {
		return nil, invalidParams("arguments: %v", err)
	}
	return json.RawMessage(value), nil
}

// webhookTTL decodes the suggested lifetime. There is no wrong number: the deliverer decides.
func webhookTTL(raw json.RawMessage) (ttl time.Duration, forever bool, err error) {
	switch jsonscan.KindOf(raw) {
	case jsonscan.EOF:
		return 0, false, nil
	case jsonscan.Null:
		return 0, true, nil
	case jsonscan.Number:
		ms, err := strconv.ParseFloat(string(raw), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, false, invalidParams("ttlMs: %v", err)
		}
		return time.Duration(max(1, min(ms, math.MaxInt64/float64(2*time.Millisecond)))) * time.Millisecond, false, nil
	default:
		return 0, false, invalidParams("ttlMs must be a number or null")
	}
}

// webhookError converts an error of a deliverer.
func webhookError(err error) error {
	if invalid, ok := errors.AsType[*delivery.RequestError](err); ok {
		return invalidParams("%s %s", invalid.Field, invalid.Problem)
	}
	if limit, ok := errors.AsType[*delivery.LimitError](err); ok {
		return exhausted(limit.Limit, limit.Max)
	}
	if endpoint, ok := errors.AsType[*delivery.EndpointError](err); ok {
		return &jsonrpc.Error{
			Code: mcp.CodeCallbackEndpoint, Message: "the callback endpoint cannot be used: " + string(endpoint.Reason),
			Data: fmt.Appendf(nil, `{"reason":%q}`, string(endpoint.Reason)),
		}
	}
	if errors.Is(err, delivery.ErrNoSubscription) {
		return &jsonrpc.Error{Code: mcp.CodeNotFound, Message: "there is no such subscription", Data: json.RawMessage(`{"kind":"subscription"}`)}
	}
	return err
}

// pollEvent polls an event for a webhook. Guards and middleware of the entry apply.
func (s *Server) pollEvent(ctx context.Context, entry *Entry, caller *mcp.Caller, params *mcp.EventParams) (*mcp.PollEventsResult, error) {
	text, err := params.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(0), mcp.MethodEventsPoll, text)
	if err != nil {
		return nil, err
	}
	call := mcp.NewCall(request, caller, nil)
	call.Resolve(&entry.Target, "", s.recheckFunc)
	call.Set(withCursors{}, true)
	result, err := entry.Handle(ctx, &call)
	if err == nil {
		result, err = withEventName(result, jsonscan.AppendString(nil, params.Name))
	}
	if _, asks := mcp.AsInputRequired(err); asks {
		err = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "a subscription cannot ask its caller"}
	}
	if err != nil {
		if _, err = s.convertError(ctx, &call, err); err == nil {
			err = errNoResult
		}
		return nil, err
	}
	if polled, ok := result.(*mcp.PollEventsResult); ok {
		return polled, nil
	}
	if text, err = result.AppendJSON(nil); err != nil {
		return nil, err
	}
	polled := &mcp.PollEventsResult{}
	return polled, polled.UnmarshalJSON(text)
}

// readWebhook reads the next events of a webhook. It implements [delivery.Source].
func (s *Server) readWebhook(ctx context.Context, sub *delivery.Subscription, text string) (batch delivery.Batch, err error) {
	position, err := decodePosition(text)
	if err != nil {
		return batch, err
	}
	entry, err := s.find(ctx, nil, mcp.KindEvent, sub.Event) // an event has no variants
	if err != nil {
		return batch, err
	}
	if entry == nil {
		batch.Ended = json.RawMessage(`{"code":` + strconv.Itoa(int(mcp.CodeNotFound)) + `,"message":"the event is not offered any more","data":{"kind":"event"}}`)
		return batch, nil
	}
	params := &mcp.EventParams{Name: sub.Event, Arguments: sub.Arguments, MaxEvents: new(int64(maxPolled))}
	if position.Cursor != "" {
		params.Cursor = &position.Cursor
	}
	polled, err := s.pollEvent(ctx, entry, &mcp.Caller{Principal: sub.Principal}, params)
	if err != nil {
		batch.Ended = webhookEndError(err)
		if batch.Ended != nil {
			err = nil
		}
		return batch, err
	}
	if polled.Truncated && !position.Reported {
		batch.Gap = true
		if batch.GapCursor, err = json.Marshal(polled.Cursor); err != nil {
			return batch, err
		}
	}
	return batch, s.fillBatch(&batch, polled, position, entry)
}

// fillBatch adds the events of a poll to a batch.
func (s *Server) fillBatch(batch *delivery.Batch, polled *mcp.PollEventsResult, position webhookPosition, entry *Entry) error {
	floor := position.Floor
	for i := range polled.Events {
		occurrence := &polled.Events[i]
		if floor != 0 {
			if at, err := time.Parse(time.RFC3339Nano, occurrence.Timestamp); err == nil && at.Before(time.UnixMilli(floor)) {
				continue
			}
		}
		if occurrence.Cursor == nil && i == len(polled.Events)-1 {
			occurrence.Cursor = polled.Cursor // a mounted provider has no cursors of single events
		}
		if occurrence.Cursor != nil {
			position = webhookPosition{Cursor: *occurrence.Cursor, Floor: floor}
		} else if position.Cursor != "" {
			occurrence.Cursor = new(position.Cursor)
		}
		body, err := occurrence.AppendJSON(nil)
		if err != nil {
			return err
		}
		batch.Events = append(batch.Events, delivery.Event{ID: occurrence.EventID, Body: body, Position: position.encode()})
	}
	if polled.Cursor != nil {
		position = webhookPosition{Cursor: *polled.Cursor}
	}
	position.Floor = 0
	if polled.HasMore {
		position.Floor = floor
	}
	batch.Position, batch.More = position.encode(), polled.HasMore
	if s.registry.catalog().Lookup(mcp.KindEvent, entry.Name) != entry {
		batch.Next = sourceInterval
	}
	return nil
}

// webhookEndError returns the JSON-RPC error with which a subscription ends because of the error of a
// poll, or nil if the poll may succeed later.
func webhookEndError(err error) json.RawMessage {
	reason, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return nil
	}
	switch reason.Code {
	case mcp.CodeForbidden, mcp.CodeNotFound, mcp.CodeUnsupported:
	case jsonrpc.InvalidParams: // the arguments were valid when the client subscribed
		reason = &jsonrpc.Error{
			Code: mcp.CodeUnsupported, Message: "the schema of the event has changed: read the list of events again",
			Data: json.RawMessage(`{"feature":"inputSchema","reason":"schema_changed"}`),
		}
	default:
		return nil
	}
	text, err := jsonvalue.Marshal(reason)
	if err != nil {
		return nil
	}
	return text
}

// webhooks has the state of the running deliverer. Several occurrences of one event may be one notification.
type webhooks struct {
	mu      sync.Mutex
	pending []string // events of which the deliverer is not notified yet
	waking  bool     // wakePending runs
	stopped bool
	ctx     context.Context // ends when the server stops
	cancel  context.CancelFunc
	running sync.WaitGroup // the deliverer and wakePending
}

// wakeWebhooks notifies the deliverer of an occurrence. It does not block.
func (s *Server) wakeWebhooks(event string) {
	if s.options.Webhooks == nil {
		return
	}
	w := &s.webhooks
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.ctx == nil {
		return // the deliverer reads again when it starts
	}
	if slices.Contains(w.pending, event) {
		return
	}
	w.pending = append(w.pending, event)
	if !w.waking {
		w.waking = true
		w.running.Go(s.wakePending)
	}
}

// wakePending notifies the deliverer until no event is pending.
func (s *Server) wakePending() {
	w := &s.webhooks
	for {
		w.mu.Lock()
		if len(w.pending) == 0 {
			w.waking = false
			w.mu.Unlock()
			return
		}
		event := w.pending[0]
		w.pending = w.pending[1:]
		w.mu.Unlock()
		if err := s.options.Webhooks.Wake(w.ctx, event, nil); err != nil && w.ctx.Err() == nil {
			s.options.Logger.Warn("webhooks could not be notified of an event; they are read later", "event", event, "error", err)
		}
	}
}

// startWebhooks runs the deliverer in the background.
func (s *Server) startWebhooks() {
	if s.options.Webhooks == nil {
		return
	}
	w := &s.webhooks
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.ctx != nil {
		return
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.running.Go(func() {
		if err := s.options.Webhooks.Run(w.ctx, s.readWebhook); err != nil && w.ctx.Err() == nil {
			s.options.Logger.Error("webhooks are not delivered any more", "error", err)
		}
	})
}

// stopWebhooks ends the deliverer and waits for it until ctx ends.
func (s *Server) stopWebhooks(ctx context.Context) error {
	w := &s.webhooks
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	if w.cancel == nil {
		return nil
	}
	w.cancel()
	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
	return await(ctx, ended)
}
