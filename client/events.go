package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// EventTypes returns an iterator over the events that the server offers (SEP-3415, since
// 2026-07-28). It reads page by page, as [Session.Tools] does.
func (s *Session) EventTypes(ctx context.Context, opts *CallOptions) iter.Seq2[*mcp.EventType, error] {
	return pages[mcp.EventType](ctx, s, opts, mcp.KindEvent, mcp.MethodEventsList, "events", nil)
}

// An Event is one occurrence of an event.
type Event[Payload any] struct {
	// ID identifies the occurrence. [Events] yields each id once.
	ID string
	// Name is the name of the event type.
	Name string
	// Time is when the event happened. It is zero if the server's timestamp is not a time.
	Time time.Time
	// Payload comes from other systems, as the results of tools do: do not trust it.
	Payload Payload
	// Cursor is the position after the event; see [EventsOptions]. It is "" if it is not known yet, or
	// if the event cannot be replayed.
	Cursor string
}

// EventsOptions configures [Events]. The zero value is valid.
type EventsOptions struct {
	// Delivery is [mcp.DeliveryPush] or [mcp.DeliveryPoll]. Default: push if the server offers it for
	// the event, otherwise poll. Package client/webhook receives webhooks.
	Delivery mcp.DeliveryMode
	// Cursor is the position to begin after: the Cursor of an earlier [Event], or one that OnCursor
	// got. Default: begin now.
	Cursor string
	// MaxAge leaves out occurrences after Cursor that are older. Default: none.
	MaxAge time.Duration
	// OnCursor is called with each new position, after the events before it have been yielded. A
	// program that stores the last one can continue there after a restart. nil means that it is not
	// called.
	OnCursor func(cursor string)
	// OnGap is called when occurrences may have been lost, since the server has not kept them. For an
	// event that cannot be replayed, that is after each interruption. The program may read the state
	// that it depends on again. nil means that it is not called.
	OnGap func()
	// PollInterval is the shortest time between two polls, also if the server suggests a shorter one.
	// A poll that moves the position while the server has more events is followed by the next one
	// without a pause. Default: 1 second.
	PollInterval time.Duration
}

const (
	defaultPollInterval = time.Second
	// longestPoll bounds the pause that a server suggests.
	longestPoll = 10 * time.Minute
	// silenceTimeout is how long a stream may send nothing: twice the interval of heartbeats.
	silenceTimeout = time.Minute
	// rememberedEvents is how many ids are remembered to find repetitions.
	rememberedEvents = 4096
	// maxEventID is the maximum length in bytes of an id that is remembered. An event with a longer one
	// is yielded each time.
	maxEventID = 1024
)

// Events subscribes to an event of the server and yields its occurrences, in order, until ctx ends or
// the caller stops. arguments is a value that encodes to a JSON object, or nil. opts may be nil.
//
// Events continues at the last position after the connection was interrupted or the server was restarted, and drops
// occurrences that it has yielded before. While the server cannot be reached, it tries again with pauses that grow to
// 30 seconds. The last error is yielded and ends the sequence: the error of ctx, the server's *[jsonrpc.Error] (for
// example with [mcp.CodeForbidden] when the access was revoked, or [mcp.CodeNotFound] when the event was removed), or
// an error that says that the session has ended. A malformed occurrence, and a payload that does not fit the type
// Payload, are such errors too; json.RawMessage fits all payloads.
//
// At most [Limits].QueuedBytes of occurrences wait for a slow caller; the others stay at the server.
// The sequence may be used once. It must not be used concurrently; several sequences may.
func Events[Payload any](ctx context.Context, s *Session, name string, arguments any, opts *EventsOptions) iter.Seq2[Event[Payload], error] {
	return func(yield func(Event[Payload], error) bool) {
		sub := &eventSubscription{session: s, opts: *cmp.Or(opts, &EventsOptions{}), seen: make(map[string]struct{})}
		sub.cursor = sub.opts.Cursor
		sub.yield = func(e *mcp.EventOccurrence) error {
			event, err := eventOf[Payload](e)
			if err != nil {
				return err
			}
			if !yield(event, nil) {
				return errStopped
			}
			return nil
		}
		err := sub.begin(ctx, name, arguments)
		if err == nil {
			err = sub.run(ctx)
		}
		if !errors.Is(err, errStopped) {
			yield(Event[Payload]{}, err)
		}
	}
}

// eventOf decodes an occurrence.
func eventOf[Payload any](e *mcp.EventOccurrence) (event Event[Payload], err error) {
	event.ID, event.Name = e.EventID, e.Name
	event.Time, _ = time.Parse(time.RFC3339Nano, e.Timestamp)
	if e.Cursor != nil {
		event.Cursor = *e.Cursor
	}
	if raw, ok := any(&event.Payload).(*json.RawMessage); ok {
		*raw = e.Data
	} else if err = jsonvalue.Unmarshal(e.Data, &event.Payload); err != nil {
		err = fmt.Errorf("the payload of the event %.256q: %w", e.EventID, err)
	}
	return event, err
}

// An eventSubscription is one use of [Events].
type eventSubscription struct {
	session *Session
	opts    EventsOptions
	params  mcp.EventParams
	push    bool
	cursor  string // the position after everything that was yielded
	yield   func(*mcp.EventOccurrence) error
	began   bool // the server has confirmed a position
	broken  bool // and a request or stream has ended since

	seen  map[string]struct{} // ids that were yielded
	order []string            // the same ids, oldest first
}

// begin checks the options and chooses the delivery mode.
func (sub *eventSubscription) begin(ctx context.Context, name string, arguments any) error {
	method := mcp.MethodEventsList
	if _, declared := sub.session.Capabilities().Extensions[mcp.ExtensionEvents]; !declared {
		return notSent(method, errors.New("the server does not offer events"))
	}
	var buffer bufpool.Buffer
	encoded, err := encodeArguments(&buffer, arguments)
	if err != nil {
		return notSent(mcp.MethodEventsStream, err)
	}
	sub.params = mcp.EventParams{Name: name, Arguments: bytes.Clone(encoded)}
	if sub.opts.MaxAge > 0 {
		sub.params.MaxAgeMs = new(sub.opts.MaxAge.Milliseconds())
	}
	switch sub.opts.Delivery {
	case mcp.DeliveryPush, mcp.DeliveryPoll:
		sub.push = sub.opts.Delivery == mcp.DeliveryPush
		return nil
	case "":
	default:
		return notSent(method, fmt.Errorf("the delivery mode %q is not one of push and poll", sub.opts.Delivery))
	}
	for event, err := range sub.session.EventTypes(ctx, nil) {
		switch {
		case err != nil:
			return err
		case event.Name != name:
		case slices.Contains(event.Delivery, mcp.DeliveryPush):
			sub.push = true
			return nil
		case slices.Contains(event.Delivery, mcp.DeliveryPoll):
			return nil
		default:
			return notSent(method, fmt.Errorf("the server offers the event %.256q by %v only", name, event.Delivery))
		}
	}
	return notSent(method, fmt.Errorf("the server has no event %.256q", name))
}

// run subscribes again and again. It returns the error that ends the sequence.
func (sub *eventSubscription) run(ctx context.Context) error {
	var pause backoff.Backoff
	for {
		progress, err := sub.once(ctx)
		sub.broken = sub.began
		switch {
		case errors.Is(err, errStopped): // also if the caller has ended ctx or the session before
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case sub.session.ctx.Err() != nil:
			return jsonrpc.ErrClosed
		case err != nil && isFinal(err):
			return err
		}
		if progress {
			pause.Reset()
		}
		if err != nil {
			sub.session.opts.Logger.Warn("a subscription to an event was interrupted; it is continued", "event", sub.params.Name, "error", err)
		}
		if err := pause.Wait(ctx); err != nil {
			return context.Cause(ctx)
		}
	}
}

// An eventsEnded is an error that ends the sequence.
type eventsEnded struct{ error }

func (e eventsEnded) Unwrap() error { return e.error }

// isFinal reports whether another attempt to subscribe would have the same error.
func isFinal(err error) bool {
	if _, ended := errors.AsType[eventsEnded](err); ended {
		return true
	}
	if _, malformed := errors.AsType[*mcp.DecodeError](err); malformed { // the server sends it again
		return true
	}
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && refused.Code != jsonrpc.InternalError && refused.Code != jsonrpc.Busy
}

// once subscribes until the connection or the server ends that. progress reports whether the server
// has confirmed the subscription.
func (sub *eventSubscription) once(ctx context.Context) (progress bool, err error) {
	if sub.push {
		return sub.stream(ctx)
	}
	return sub.poll(ctx)
}

// position returns the cursor of the next request.
func (sub *eventSubscription) position() *mcp.EventParams {
	params := sub.params
	if sub.cursor != "" {
		params.Cursor = &sub.cursor
	}
	return &params
}

// poll polls until that fails.
func (sub *eventSubscription) poll(ctx context.Context) (progress bool, err error) {
	for {
		before := sub.cursor
		var result mcp.PollEventsResult
		if err := sub.session.call(ctx, mcp.MethodEventsPoll, sub.position(), &result, nil); err != nil {
			return progress, err
		}
		progress = true
		sub.confirm(result.Truncated)
		for i := range result.Events {
			e := &result.Events[i]
			if e.Cursor == nil && i == len(result.Events)-1 {
				e.Cursor = result.Cursor
			}
			if err := sub.deliver(e); err != nil {
				return progress, err
			}
		}
		sub.moveTo(result.Cursor)
		wait := cmp.Or(sub.opts.PollInterval, defaultPollInterval)
		switch {
		case result.HasMore && sub.cursor != before:
			continue
		case !result.HasMore:
			wait = max(wait, time.Duration(min(result.NextPollMs, longestPoll.Milliseconds()))*time.Millisecond)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return progress, context.Cause(ctx)
		case <-sub.session.Done():
			timer.Stop()
			return progress, eventsEnded{jsonrpc.ErrClosed}
		}
	}
}

// confirm records that the server has accepted the position. Without a cursor, occurrences since an interruption are
// lost, and truncated has no meaning (SEP-3415, Gaps and truncated).
func (sub *eventSubscription) confirm(truncated bool) {
	gap := truncated
	if sub.cursor == "" {
		gap = sub.broken
	}
	if gap && sub.opts.OnGap != nil {
		sub.opts.OnGap()
	}
	sub.began, sub.broken = true, false
}

// moveTo records the position after everything that was yielded.
func (sub *eventSubscription) moveTo(cursor *string) {
	if cursor == nil || *cursor == sub.cursor || len(*cursor) > sub.session.opts.Limits.CursorBytes {
		return
	}
	sub.cursor = *cursor
	if sub.opts.OnCursor != nil {
		sub.opts.OnCursor(sub.cursor)
	}
}

// deliver yields an occurrence, unless it was yielded before.
func (sub *eventSubscription) deliver(e *mcp.EventOccurrence) error {
	if e.EventID == "" {
		return eventsEnded{errors.New("an event of the server has no eventId")}
	}
	if !sub.repeats(e.EventID) {
		if err := sub.yield(e); err != nil {
			return eventsEnded{err}
		}
	}
	sub.moveTo(e.Cursor)
	return nil
}

func (sub *eventSubscription) repeats(id string) bool {
	if len(id) > maxEventID {
		return false
	}
	if _, again := sub.seen[id]; again {
		return true
	}
	if len(sub.order) == rememberedEvents {
		delete(sub.seen, sub.order[0])
		sub.order = sub.order[1:]
	}
	sub.seen[id] = struct{}{}
	sub.order = append(sub.order, id)
	return false
}

// stream opens a stream and handles its notifications until it ends.
func (sub *eventSubscription) stream(ctx context.Context) (progress bool, err error) {
	conn, err := sub.session.liveConn(ctx)
	if err != nil {
		return false, eventsEnded{err}
	}
	limits := &sub.session.opts.Limits
	streaming, cancel := context.WithCancel(ctx)
	queue := era.NewEventQueue(limits.QueuedNotifications, limits.QueuedBytes, cancel)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { queue.End(conn.Stream(streaming, sub.position(), queue.Add)) })
	silence := time.NewTimer(silenceTimeout)
	defer silence.Stop()
	for {
		notifications, ended, err := queue.Take()
		for _, n := range notifications {
			progress = progress || n.Method != mcp.NotificationEventError
			if err := sub.handle(n); err != nil {
				return progress, err
			}
		}
		if len(notifications) > 0 {
			silence.Reset(silenceTimeout)
			continue
		}
		if ended {
			if errors.Is(err, jsonrpc.ErrClosed) { // the session may renew the connection
				waiting, stop := context.WithTimeout(ctx, time.Second)
				_ = sub.session.awaitEnd(waiting, conn)
				stop()
			}
			return progress, err
		}
		select {
		case <-queue.Ready():
		case <-silence.C:
			return progress, fmt.Errorf("the stream has sent nothing for %v", silenceTimeout)
		case <-ctx.Done():
			return progress, context.Cause(ctx)
		}
	}
}

// handle handles a notification of a stream.
func (sub *eventSubscription) handle(n *jsonrpc.Request) error {
	if n.Method == mcp.NotificationEvent {
		var e mcp.EventOccurrence
		if err := e.UnmarshalJSON(n.Params); err != nil {
			return fmt.Errorf("an event of the server: %w", err)
		}
		return sub.deliver(&e)
	}
	var status mcp.EventStatusParams
	if err := status.UnmarshalJSON(n.Params); err != nil {
		return fmt.Errorf("a notification of the server: %w", err)
	}
	switch n.Method {
	case mcp.NotificationEventActive:
		sub.confirm(status.Truncated)
		sub.moveTo(status.Cursor)
	case mcp.NotificationEventHeartbeat:
		sub.moveTo(status.Cursor)
	case mcp.NotificationEventError:
		sub.session.opts.Logger.Warn("the server reports that an event could not be delivered yet", "event", sub.params.Name, "error", status.Error)
	case mcp.NotificationEventTerminated:
		if status.Error == nil {
			status.Error = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the server has ended the subscription"}
		}
		return eventsEnded{status.Error}
	}
	return nil
}
