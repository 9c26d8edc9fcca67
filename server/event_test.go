package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

type incident struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Reporter string `json:"reporter,omitempty"`
}

type incidentArguments struct {
	Severity string `json:"severity,omitempty" jsonschema:"enum=P1,enum=P2"`
	Redact   bool   `json:"redact,omitempty"`
}

func selectIncident(_ *mcp.Caller, in incidentArguments, i incident) (incident, bool) {
	if in.Redact {
		i.Reporter = ""
	}
	return i, in.Severity == "" || in.Severity == i.Severity
}

var incidentCreated = server.Event{Name: "incident.created", Description: "An incident was created."}

func addIncidents(s *server.Server) *server.Topic[incident] {
	return server.AddEvent(s, incidentCreated, selectIncident)
}

func publish[T any](t testing.TB, topic *server.Topic[T], payload T, opts *server.PublishOptions) {
	t.Helper()
	if err := topic.Publish(t.Context(), payload, opts); err != nil {
		t.Fatal(err)
	}
}

// poll polls with params as JSON.
func poll(t testing.TB, session *client.Session, params string) *mcp.PollEventsResult {
	t.Helper()
	text, err := raw(t, session, mcp.MethodEventsPoll, params)
	if err != nil {
		t.Fatalf("%s: %v", params, err)
	}
	var result mcp.PollEventsResult
	if err := result.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if result.Cursor == nil || result.NextPollMs <= 0 {
		t.Errorf("a result without cursor or nextPollMs: %s", text)
	}
	return &result
}

// pollAfter polls after a cursor with other members.
func pollAfter(t testing.TB, session *client.Session, cursor *string, more string) *mcp.PollEventsResult {
	t.Helper()
	return poll(t, session, fmt.Sprintf(`{"name":"incident.created","cursor":%q%s}`, *cursor, more))
}

const pollNow = `{"name":"incident.created","cursor":null}`

func ids(result *mcp.PollEventsResult) string {
	var all []string
	for _, e := range result.Events {
		all = append(all, e.EventID)
	}
	return strings.Join(all, " ")
}

func TestEventsAreListed(t *testing.T) {
	s := newServer(nil)
	addIncidents(s)
	session := connectInMemory(t, s, nil)
	text, err := raw(t, session, mcp.MethodEventsList, "{}")
	if err != nil {
		t.Fatal(err)
	}
	var list mcp.ListEventsResult
	if err := list.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if len(list.Events) != 1 || list.Events[0].Name != "incident.created" || fmt.Sprint(list.Events[0].Delivery) != "[push poll]" ||
		!strings.Contains(string(list.Events[0].InputSchema), `"P1"`) || !strings.Contains(string(list.Events[0].PayloadSchema), `"reporter"`) {
		t.Errorf("the list is %s", text)
	}
	if settings := session.Capabilities().Extensions[mcp.ExtensionEvents]; string(settings) != `{"listChanged":true}` {
		t.Errorf("the extension is declared as %s", settings)
	}
}

func TestServerWithoutEvents(t *testing.T) {
	session := connectInMemory(t, newServer(nil), nil)
	if has := session.Capabilities().Extensions; has != nil {
		t.Errorf("the server declares %v", has)
	}
	for _, method := range []string{mcp.MethodEventsList, mcp.MethodEventsPoll, mcp.MethodEventsStream, mcp.MethodEventsSubscribe, mcp.MethodEventsUnsubscribe} {
		_, err := raw(t, session, method, pollNow)
		wantCode(t, err, jsonrpc.MethodNotFound)
	}
}

func TestLegacyClientsHaveNoEvents(t *testing.T) {
	s := newServer(nil)
	addIncidents(s)
	session := connectInMemory(t, s, &client.Options{Era: client.Legacy})
	if has := session.Capabilities().Extensions; has != nil {
		t.Errorf("the server declares %v", has)
	}
	for _, method := range []string{mcp.MethodEventsList, mcp.MethodEventsPoll, mcp.MethodEventsStream, mcp.MethodEventsSubscribe, mcp.MethodEventsUnsubscribe} {
		_, err := raw(t, session, method, pollNow)
		wantCode(t, err, jsonrpc.MethodNotFound)
	}
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		topic := addIncidents(s)
		session := connectInMemory(t, s, nil)
		publish(t, topic, incident{ID: "before", Severity: "P1"}, &server.PublishOptions{ID: "evt_0"})

		begin := poll(t, session, pollNow)
		if len(begin.Events) > 0 || begin.Truncated || begin.HasMore {
			t.Errorf("a poll without cursor gives %+v", begin)
		}
		happened := time.Date(2026, 2, 19, 15, 30, 0, 0, time.UTC)
		publish(t, topic, incident{ID: "INC-1", Severity: "P1", Reporter: "Ada"}, &server.PublishOptions{ID: "evt_1", Time: happened})
		publish(t, topic, incident{ID: "INC-2", Severity: "P2"}, &server.PublishOptions{ID: "evt_2"})
		publish(t, topic, incident{ID: "INC-3", Severity: "P1"}, nil)

		all := pollAfter(t, session, begin.Cursor, "")
		if len(all.Events) != 3 || all.Truncated || all.HasMore {
			t.Fatalf("the events are %+v", all)
		}
		if e := all.Events[0]; e.EventID != "evt_1" || e.Name != "incident.created" || e.Timestamp != "2026-02-19T15:30:00Z" ||
			string(e.Data) != `{"id":"INC-1","severity":"P1","reporter":"Ada"}` || e.Cursor != nil {
			t.Errorf("the first event is %+v with data %s", e, e.Data)
		}
		if id := all.Events[2].EventID; !strings.HasPrefix(id, "evt_") || len(id) < 20 {
			t.Errorf("the id is %q", id)
		}
		if end := pollAfter(t, session, all.Cursor, ""); len(end.Events) > 0 || end.Truncated {
			t.Errorf("after all events: %+v", end)
		}
		if some := pollAfter(t, session, begin.Cursor, `,"arguments":{"severity":"P2"}`); ids(some) != "evt_2" {
			t.Errorf("with arguments the events are %q", ids(some))
		}
		if changed := pollAfter(t, session, begin.Cursor, `,"arguments":{"redact":true}`); string(changed.Events[0].Data) != `{"id":"INC-1","severity":"P1"}` {
			t.Errorf("the data is %s", changed.Events[0].Data)
		}
	})
}

func TestPollInBatches(t *testing.T) {
	s := newServer(nil)
	topic := addIncidents(s)
	session := connectInMemory(t, s, nil)
	cursor := poll(t, session, pollNow).Cursor
	for i := range 150 {
		publish(t, topic, incident{ID: "x"}, &server.PublishOptions{ID: fmt.Sprint("evt_", i)})
	}
	for begin := 0; begin < 150; begin += 7 {
		end := min(begin+7, 150)
		result := pollAfter(t, session, cursor, `,"maxEvents":7`)
		if len(result.Events) != end-begin || result.Events[0].EventID != fmt.Sprint("evt_", begin) || result.HasMore != (end < 150) {
			t.Fatalf("the batch from %d is %q, more: %v", begin, ids(result), result.HasMore)
		}
		cursor = result.Cursor
	}
	if result := pollAfter(t, session, poll(t, session, pollNow).Cursor, ""); len(result.Events) > 0 {
		t.Errorf("at the end there are %q", ids(result))
	}
}

func TestPollIsBoundedInBytes(t *testing.T) {
	s := newServer(nil)
	topic := server.AddEvent[map[string]any, map[string]string](s, server.Event{Name: "incident.created"}, nil)
	session := connectInMemory(t, s, nil)
	cursor := poll(t, session, pollNow).Cursor
	// An occurrence takes its data, its id and 256 bytes, and a batch has at most 1 MiB.
	const fifth = 1<<20/5 - len(`{"text":""}`) - len("evt_0") - 256
	for size, want := range map[int]string{fifth: "evt_0 evt_1 evt_2 evt_3 evt_4, evt_5 evt_6 evt_7", fifth + 1: "evt_0 evt_1 evt_2 evt_3, evt_4 evt_5 evt_6 evt_7"} {
		for i := range 8 {
			publish(t, topic, map[string]string{"text": strings.Repeat("x", size)}, &server.PublishOptions{ID: fmt.Sprint("evt_", i)})
		}
		var batches []string
		for more := true; more; {
			result := pollAfter(t, session, cursor, "")
			batches = append(batches, ids(result))
			cursor, more = result.Cursor, result.HasMore
		}
		if got := strings.Join(batches, ", "); got != want {
			t.Errorf("the batches of occurrences with %d bytes are %q, want %q", size, got, want)
		}
	}
	if err := topic.Publish(t.Context(), map[string]string{"text": strings.Repeat("x", 256<<10)}, nil); err == nil || !strings.Contains(err.Error(), "at most 262144 bytes") {
		t.Errorf("publishing too much gives %v", err)
	}
}

func TestInvalidEventRequests(t *testing.T) {
	s := newServer(nil)
	addIncidents(s)
	session := connectInMemory(t, s, nil)
	for _, test := range []struct {
		params string
		code   jsonrpc.Code
	}{
		{`{"cursor":null}`, jsonrpc.InvalidParams},
		{`{"name":1}`, jsonrpc.InvalidParams},
		{`{"name":"incident.created","arguments":[]}`, jsonrpc.InvalidParams},
		{`{"name":"incident.created","arguments":{"severity":"P9"}}`, jsonrpc.InvalidParams},
		{`{"name":"incident.created","cursor":7}`, jsonrpc.InvalidParams},
		{`{"name":"incident.created","cursor":"` + strings.Repeat("x", 5000) + `"}`, jsonrpc.InvalidParams},
		{`{"name":"incident.created","maxAgeMs":-1}`, jsonrpc.InvalidParams},
		{`{"name":"incident.created","maxEvents":0}`, jsonrpc.InvalidParams},
		{`{"name":"incident.created","arguments":{"severity":"` + strings.Repeat("x", 70000) + `"}}`, jsonrpc.InvalidParams},
		{`{"name":"nothing"}`, mcp.CodeNotFound},
	} {
		for _, method := range []string{mcp.MethodEventsPoll, mcp.MethodEventsStream} {
			_, err := raw(t, session, method, test.params)
			wantCode(t, err, test.code)
		}
	}
	_, err := raw(t, session, mcp.MethodEventsPoll, `{"name":"nothing"}`)
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || string(e.Data) != `{"kind":"event"}` {
		t.Errorf("the error of an unknown event is %v", err)
	}
	_, err = raw(t, session, mcp.MethodEventsSubscribe, `{"name":"incident.created","delivery":{"url":"https://example.com"}}`)
	wantCode(t, err, mcp.CodeUnsupported)
	_, err = raw(t, session, mcp.MethodEventsUnsubscribe, `{"name":"incident.created","delivery":{"url":"https://example.com"}}`)
	wantCode(t, err, mcp.CodeUnsupported)
}

// A cursor that this server did not make begins now, and says that events may be missing.
func TestForeignCursors(t *testing.T) {
	s := newServer(nil)
	topic := addIncidents(s)
	server.AddEvent[map[string]any, incident](s, server.Event{Name: "other"}, nil)
	session := connectInMemory(t, s, nil)
	other := poll(t, session, `{"name":"other"}`).Cursor
	publish(t, topic, incident{ID: "x"}, nil)
	for _, cursor := range []string{"", "garbage", "!", *other} {
		result := pollAfter(t, session, &cursor, "")
		if len(result.Events) > 0 || !result.Truncated {
			t.Errorf("the cursor %q gives %+v", cursor, result)
		}
	}
}

// A cursor survives quiet times much longer than the log, as long as the client polls.
func TestCursorsStayFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		topic := addIncidents(s)
		session := connectInMemory(t, s, nil)
		cursor := poll(t, session, pollNow).Cursor
		for range 60 {
			<-time.After(time.Minute)
			result := pollAfter(t, session, cursor, "")
			if len(result.Events) > 0 || result.Truncated {
				t.Fatalf("a quiet poll gives %+v", result)
			}
			cursor = result.Cursor
		}
		publish(t, topic, incident{ID: "x"}, &server.PublishOptions{ID: "evt_1"})
		if result := pollAfter(t, session, cursor, ""); ids(result) != "evt_1" || result.Truncated {
			t.Errorf("after an hour: %+v", result)
		}
	})
}

// A client that was away for longer than the log gets what is stored, and learns of the gap.
func TestTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		topic := addIncidents(s)
		session := connectInMemory(t, s, nil)
		cursor := poll(t, session, pollNow).Cursor
		publish(t, topic, incident{ID: "lost"}, &server.PublishOptions{ID: "evt_1"})
		<-time.After(31 * time.Minute)
		publish(t, topic, incident{ID: "stored"}, &server.PublishOptions{ID: "evt_2"})
		result := pollAfter(t, session, cursor, "")
		if ids(result) != "evt_2" || !result.Truncated {
			t.Errorf("after the log was deleted: %+v", result)
		}
		if again := pollAfter(t, session, result.Cursor, ""); len(again.Events) > 0 || again.Truncated {
			t.Errorf("the next poll gives %+v", again)
		}
	})
}

func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		topic := addIncidents(s)
		session := connectInMemory(t, s, nil)
		cursor := poll(t, session, pollNow).Cursor
		publish(t, topic, incident{ID: "old"}, &server.PublishOptions{ID: "evt_1"})
		<-time.After(time.Minute)
		publish(t, topic, incident{ID: "new"}, &server.PublishOptions{ID: "evt_2"})
		if result := pollAfter(t, session, cursor, `,"maxAgeMs":30000`); ids(result) != "evt_2" || !result.Truncated {
			t.Errorf("with an age: %+v", result)
		}
		if result := pollAfter(t, session, cursor, `,"maxAgeMs":90000`); ids(result) != "evt_1 evt_2" || result.Truncated {
			t.Errorf("with a longer age: %+v", result)
		}
		if result := pollAfter(t, session, cursor, `,"maxAgeMs":60000`); ids(result) != "evt_1 evt_2" || result.Truncated {
			t.Errorf("with the age of the older event: %+v", result)
		}
		if result := pollAfter(t, session, cursor, `,"maxAgeMs":59999`); ids(result) != "evt_2" || !result.Truncated {
			t.Errorf("with an age that is a millisecond shorter: %+v", result)
		}
		if result := poll(t, session, `{"name":"incident.created","maxAgeMs":90000}`); len(result.Events) > 0 || result.Truncated {
			t.Errorf("without a cursor: %+v", result)
		}
	})
}

// A stream without a cursor begins now, so an age has no effect on it: it gets also what happened long before it
// was published. After a cursor, that is left out.
func TestMaxAgeOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		topic := addIncidents(s)
		r := newStreamRecorder(t, s)
		cursor := poll(t, connectInMemory(t, s, nil), pollNow).Cursor
		for members, want := range map[string]string{
			`"cursor":null,"maxAgeMs":60000`:                     "active, late",
			fmt.Sprintf(`"cursor":%q,"maxAgeMs":60000`, *cursor): "active, active truncated",
		} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				r.stream(ctx, `"name":"incident.created",`+members)
			}()
			synctest.Wait()
			publish(t, topic, incident{}, &server.PublishOptions{ID: "late", Time: time.Now().Add(-time.Hour)})
			synctest.Wait()
			cancel()
			<-ended
			synctest.Wait()
			if got := r.take(t); got != want {
				t.Errorf("%s: got %q, want %q", members, got, want)
			}
		}
	})
}

func TestPublishForPrincipals(t *testing.T) {
	s := newServer(nil)
	topic := addIncidents(s)
	cursors := map[string]*string{}
	sessions := map[string]*client.Session{}
	for _, principal := range []string{"", "ada", "bob"} {
		sessions[principal] = connectBy(t, principalDialer{s, principal}, nil)
		cursors[principal] = poll(t, sessions[principal], pollNow).Cursor
	}
	publish(t, topic, incident{ID: "x"}, &server.PublishOptions{ID: "evt_1", For: "ada"})
	publish(t, topic, incident{ID: "x"}, &server.PublishOptions{ID: "evt_2"})
	for principal, want := range map[string]string{"": "evt_2", "ada": "evt_1 evt_2", "bob": "evt_2"} {
		if got := ids(pollAfter(t, sessions[principal], cursors[principal], "")); got != want {
			t.Errorf("%q gets %q, want %q", principal, got, want)
		}
	}
	// A cursor is bound to its principal.
	if result := pollAfter(t, sessions["bob"], cursors["ada"], ""); len(result.Events) > 0 || !result.Truncated {
		t.Errorf("with the cursor of another: %+v", result)
	}
}

// Replicas with one store are one server: a cursor of one is valid at the other, also after a
// restart.
func TestEventsOfReplicas(t *testing.T) {
	shared := newStore(t)
	newReplica := func() (*server.Topic[incident], *client.Session) {
		s := newServer(&server.Options{Store: shared})
		topic := addIncidents(s)
		return topic, connectInMemory(t, s, nil)
	}
	topicA, a := newReplica()
	_, b := newReplica()
	cursor := poll(t, a, pollNow).Cursor
	publish(t, topicA, incident{ID: "secret-payload"}, &server.PublishOptions{ID: "evt_1"})
	result := pollAfter(t, b, cursor, "")
	if ids(result) != "evt_1" || result.Truncated {
		t.Errorf("at another replica: %+v", result)
	}
	topicC, c := newReplica()
	publish(t, topicC, incident{ID: "x"}, &server.PublishOptions{ID: "evt_2"})
	if result = pollAfter(t, c, result.Cursor, ""); ids(result) != "evt_2" || result.Truncated {
		t.Errorf("after a restart: %+v", result)
	}
	if result := pollAfter(t, b, poll(t, b, pollNow).Cursor, ""); len(result.Events) > 0 {
		t.Errorf("from now on, a replica that has published nothing returns %q", ids(result))
	}
}

// A sealedLog records what is stored.
type recordingStore struct {
	store.Store
	stored, stream atomic.Value
}

func (r *recordingStore) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	r.stored.Store(string(data) + stream)
	r.stream.Store(stream)
	return r.Store.Append(ctx, stream, data)
}

// Entries that are forged in the engine of a sealed store count as lost, and the other occurrences are delivered.
func TestForgedEntriesOfEvents(t *testing.T) {
	engine := &recordingStore{Store: newStore(t)}
	sealed, err := store.Sealed(engine, bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(&server.Options{Store: sealed})
	topic := addIncidents(s)
	session := connectInMemory(t, s, nil)
	forge := func() {
		t.Helper()
		if _, err := engine.Store.Append(t.Context(), engine.stream.Load().(string), []byte("forged")); err != nil {
			t.Fatal(err)
		}
	}
	cursor := poll(t, session, pollNow).Cursor
	publish(t, topic, incident{ID: "1"}, &server.PublishOptions{ID: "evt_1"})
	forge()
	publish(t, topic, incident{ID: "2"}, &server.PublishOptions{ID: "evt_2"})
	forge()
	if result := pollAfter(t, session, cursor, ""); ids(result) != "evt_1 evt_2" || !result.Truncated {
		t.Errorf("with forged entries: %q, truncated: %t", ids(result), result.Truncated)
	}
	cursor = poll(t, session, pollNow).Cursor
	publish(t, topic, incident{ID: "3"}, &server.PublishOptions{ID: "evt_3"})
	if result := pollAfter(t, session, cursor, ""); ids(result) != "evt_3" || result.Truncated {
		t.Errorf("after the forged entries: %q, truncated: %t", ids(result), result.Truncated)
	}
}

func TestPayloadsAreSealed(t *testing.T) {
	shared := &recordingStore{Store: newStore(t)}
	topic := addIncidents(newServer(&server.Options{Store: shared}))
	publish(t, topic, incident{ID: "secret-payload"}, &server.PublishOptions{ID: "secret-id", For: "secret-principal"})
	if stored := shared.stored.Load().(string); strings.Contains(stored, "secret") || strings.Contains(stored, "incident") {
		t.Errorf("the store gets %q", stored)
	}
}

func TestGuardsOfEvents(t *testing.T) {
	s := newServer(withGuard(denyGuard("all")).options())
	addIncidents(s)
	session := connectInMemory(t, s, nil)
	for _, method := range []string{mcp.MethodEventsPoll, mcp.MethodEventsStream} {
		_, err := raw(t, session, method, pollNow)
		wantCode(t, err, mcp.CodeForbidden)
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("the error contains the reason: %v", err)
		}
	}
	hidden := newServer(withGuard(mcp.Guard{Name: "hide", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return false }}).options())
	addIncidents(hidden)
	session = connectInMemory(t, hidden, nil)
	_, err := raw(t, session, mcp.MethodEventsPoll, pollNow)
	wantCode(t, err, mcp.CodeNotFound)
	if text, err := raw(t, session, mcp.MethodEventsList, "{}"); err != nil || !strings.Contains(text, `"events":[]`) {
		t.Errorf("the list is %s, %v", text, err)
	}
}

func TestMountedEvents(t *testing.T) {
	child := newServer(nil)
	topic := addIncidents(child)
	s := newServer(nil)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "pager__"}); err != nil {
		t.Fatal(err)
	}
	session := connectInMemory(t, s, nil)
	list, err := raw(t, session, mcp.MethodEventsList, "{}")
	if err != nil || !strings.Contains(list, `"name":"pager__incident.created"`) {
		t.Errorf("the list is %s, %v", list, err)
	}
	begin := poll(t, session, `{"name":"pager__incident.created"}`)
	publish(t, topic, incident{ID: "x"}, &server.PublishOptions{ID: "evt_1"})
	result := poll(t, session, fmt.Sprintf(`{"name":"pager__incident.created","cursor":%q}`, *begin.Cursor))
	if ids(result) != "evt_1" || result.Events[0].Name != "pager__incident.created" {
		t.Errorf("the events are %+v", result.Events)
	}
	_, err = raw(t, session, mcp.MethodEventsPoll, pollNow)
	wantCode(t, err, mcp.CodeNotFound)
}

func TestEventsListChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		addIncidents(s)
		changes := make(chan mcp.Change, 8)
		session := connectInMemory(t, s, &client.Options{OnChange: func(_ context.Context, c mcp.Change) { changes <- c }})
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{EventsListChanged: true, ToolsListChanged: true})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		if agreed := sub.Agreed(); !agreed.EventsListChanged || agreed.ToolsListChanged {
			t.Errorf("the server agrees to %+v", agreed)
		}
		s.Remove(mcp.KindEvent, "incident.created")
		if change := <-changes; change.Kind != mcp.KindEvent {
			t.Errorf("the change is %+v", change)
		}
	})
}

func TestInvalidEvents(t *testing.T) {
	for name, register := range map[string]func() error{
		"name": func() error {
			_, _, err := server.NewEvent[incidentArguments, incident](server.Event{Name: "a b"}, nil)
			return err
		},
		"args": func() error { _, _, err := server.NewEvent[string, incident](server.Event{Name: "a"}, nil); return err },
		"payload": func() error {
			_, _, err := server.NewEvent[incidentArguments, chan int](server.Event{Name: "a"}, nil)
			return err
		},
		"schema": func() error {
			_, _, err := server.NewEvent[incidentArguments, incident](server.Event{Name: "a", PayloadSchema: json.RawMessage(`{"type":7}`)}, nil)
			return err
		},
	} {
		if err := register(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	_, topic, err := server.NewEvent[incidentArguments, incident](server.Event{Name: "a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := topic.Publish(t.Context(), incident{}, nil); err == nil || !strings.Contains(err.Error(), "not registered") {
		t.Errorf("without a server, publishing gives %v", err)
	}
	s := newServer(nil)
	checked := server.AddEvent[incidentArguments, incident](s, server.Event{
		Name: "b", PayloadSchema: json.RawMessage(`{"type":"object","properties":{"id":{"minLength":3}}}`),
	}, nil)
	if err := checked.Publish(t.Context(), incident{ID: "x"}, nil); err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("a payload that does not fit gives %v", err)
	}
	if err := checked.Publish(t.Context(), incident{ID: "long"}, &server.PublishOptions{ID: strings.Repeat("x", 257)}); err == nil {
		t.Error("a long id is accepted")
	}
	list := server.AddEvent[incidentArguments, []string](s, server.Event{Name: "c"}, nil)
	if err := list.Publish(t.Context(), []string{"x"}, nil); err == nil {
		t.Error("a list is accepted as a payload")
	}
}

// A principalDialer dials a server as an authenticated client.
type principalDialer struct {
	server    *server.Server
	principal string
}

func (d principalDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	return transport.Pipe(boundAs(d)).Dial(ctx, handler)
}

// boundAs binds links with the principal.
type boundAs principalDialer

func (b boundAs) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = b.principal
	return b.server.Bind(link)
}

// After its shutdown, a server without Options.Store publishes nothing, whether it has published before or not.
func TestPublishAfterShutdown(t *testing.T) {
	for _, before := range []bool{false, true} {
		s := server.New(mcp.Implementation{Name: "s", Version: "1"}, nil)
		topic := addIncidents(s)
		if before {
			publish(t, topic, incident{ID: "1"}, nil)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := topic.Publish(t.Context(), incident{ID: "2"}, nil); !errors.Is(err, store.ErrClosed) {
			t.Errorf("published before: %t: Publish gives %v, want %v", before, err, store.ErrClosed)
		}
	}
}
