package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
)

// An asker is a connection to a replica with a tool that asks and one that does not.
type asker struct {
	*eratest.Peer
	store *switchedStore
}

func newAsker(t testing.TB, shared store.Store) asker {
	t.Helper()
	a := asker{store: &switchedStore{Store: shared}}
	s := newServer(&server.Options{Store: a.store, Logger: discardLogger()})
	asksFor[string](s, "ask")
	server.AddTool(s, server.Tool{Name: "plain"}, nothing[struct{}])
	a.Peer = eratest.Open(t, s, mcp.LatestVersion, eratest.Askable)
	return a
}

// ask makes a call that asks, and returns its state.
func (a asker) ask() (state string) {
	a.T.Helper()
	round := a.Call(mcp.MethodToolsCall, `{"name":"ask"}`)
	eratest.Want(a.T, round, `"input_required"`, "result", "resultType")
	return eratest.Text(round, "result", "requestState")
}

func (a asker) answer(state string) (reply string) {
	a.T.Helper()
	return a.Call(mcp.MethodToolsCall, fmt.Sprintf(`{"name":"ask","requestState":%q,"inputResponses":{"q":{"action":"accept","content":{"value":"yes"}}}}`, state))
}

// finish answers a call that was asked at any replica.
func (a asker) finish(state string) {
	a.T.Helper()
	if reply := a.answer(state); reply == "" || eratest.At(reply, "error") != "" || eratest.ResultText(reply) != "yes" {
		a.T.Errorf("the call ends with %s", reply)
	}
}

// storedKeys returns the keys in a store, oldest first.
func storedKeys(t testing.TB, kv store.KV) (keys []string) {
	t.Helper()
	item, err := kv.Get(t.Context(), "server/state-key")
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Value []struct{ Secret string }
	}
	if err := json.Unmarshal(item.Value, &record); err != nil {
		t.Fatal(err)
	}
	for _, s := range record.Value {
		keys = append(keys, s.Secret)
	}
	return keys
}

func TestReplicasShareStateKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		one, other := newAsker(t, shared), newAsker(t, shared)
		for range 100 {
			other.finish(one.ask())
			one.finish(other.ask())
		}
		for i, a := range []asker{one, other} {
			if n := a.store.values.Load(); n > 2 {
				t.Errorf("replica %d has read the store %d times for 200 requests", i+1, n)
			}
		}
		if n := len(storedKeys(t, shared)); n != 1 {
			t.Errorf("the store has %d keys, want 1", n)
		}
	})
}

// Replicas that begin at the same time agree on one key.
func TestStateKeysAreCreatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		replicas := make([]asker, 100)
		for i := range replicas {
			replicas[i] = newAsker(t, shared)
		}
		for _, a := range replicas {
			a.Start(mcp.MethodToolsCall, `{"name":"ask"}`)
		}
		var states []string
		for _, a := range replicas {
			states = append(states, eratest.Text(a.Next(), "result", "requestState"))
		}
		for i, state := range states {
			replicas[(i+37)%len(replicas)].finish(state)
		}
		if n := len(storedKeys(t, shared)); n != 1 {
			t.Errorf("the store has %d keys, want 1", n)
		}
	})
}

// Keys change every day. A call continues at any replica for as long as its state is valid.
func TestStateKeysRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		one, other := newAsker(t, shared), newAsker(t, shared)
		all := map[string]bool{}
		const step = 20 * time.Second
		type asked struct {
			state string
			until time.Time
		}
		var open []asked
		check := func() {
			for i, a := range open {
				[]asker{one, other}[i%2].finish(a.state)
			}
			keys := storedKeys(t, shared)
			if len(keys) > 2 {
				t.Fatalf("the store has %d keys, want at most 2", len(keys))
			}
			for _, key := range keys {
				all[key] = true
			}
		}
		for range 4 {
			// Around a rotation in small steps, which show that no replica seals with a key that
			// the other does not know.
			for range 15 {
				open = append(open, asked{one.ask(), time.Now().Add(era.StateLifetime)}, asked{other.ask(), time.Now().Add(era.StateLifetime)})
				eratest.Pass(step)
				check()
			}
			eratest.Pass(era.StateLifetime - 16*step)
			check()
			open = nil
			eratest.Pass(24*time.Hour - era.StateLifetime)
		}
		if n := len(all); n != 4 {
			t.Errorf("there were %d keys in 4 days, want 4", n)
		}
		eratest.Pass(10 * time.Minute)
		one.ask()
		eratest.Pass(2 * time.Hour)
		one.ask()
		if n := len(storedKeys(t, shared)); n != 1 {
			t.Errorf("the store has %d keys after the states of the previous one have expired, want 1", n)
		}
	})
}

// A new key seals when it has been in the store for a minute, so that a replica that could not reach the store for
// that time can go on with a call of another one.
func TestNewStateKeySealsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		one, other := newAsker(t, shared), newAsker(t, shared)
		other.finish(one.ask())
		other.store.down.Store(true)
		eratest.Pass(24 * time.Hour)
		other.finish(one.ask()) // adds a key
		if n := len(storedKeys(t, shared)); n != 2 {
			t.Errorf("the store has %d keys, want 2", n)
		}
		eratest.Pass(time.Minute - 1)
		other.finish(one.ask())
		eratest.Pass(1)
		eratest.WantError(t, other.answer(one.ask()), jsonrpc.InternalError)
	})
}

// A key is added when the last one has sealed for a day. The one before is removed when the last state that it may
// have sealed has expired at every replica.
func TestLifeOfStateKeys(t *testing.T) {
	const delay = time.Minute
	for name, test := range map[string]struct {
		rotates time.Duration // until the first call after the first key
		passes  time.Duration // from then until the next call
		want    int           // keys after that
	}{
		"before the first day ends":  {24*time.Hour - 1, 0, 1},
		"after the first day":        {24 * time.Hour, 0, 2},
		"states of the first key":    {24 * time.Hour, delay + era.StateLifetime + delay, 2},
		"no states of the first key": {24 * time.Hour, delay + era.StateLifetime + delay + 1, 1},
		"the second day":             {24 * time.Hour, delay + 24*time.Hour - 1, 1},
		"after the second day":       {24 * time.Hour, delay + 24*time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newStore(t)
				a := newAsker(t, shared)
				a.ask()
				for _, d := range []time.Duration{test.rotates, test.passes} {
					eratest.Pass(d)
					a.ask()
				}
				if n := len(storedKeys(t, shared)); n != test.want {
					t.Errorf("the store has %d keys, want %d", n, test.want)
				}
			})
		})
	}
}

// A replica that cannot reach the store uses the keys that it knows, and later the new ones.
func TestReplicaIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		one, other := newAsker(t, shared), newAsker(t, shared)
		other.finish(one.ask())
		other.store.down.Store(true)
		eratest.Pass(25 * time.Hour)
		one.ask() // adds a key
		eratest.Pass(2 * time.Minute)
		state := one.ask()
		one.finish(other.ask())
		eratest.WantError(t, other.answer(state), jsonrpc.InternalError)
		other.store.down.Store(false)
		eratest.Pass(time.Second)
		other.finish(state)
		one.finish(other.ask())
	})
}

// Without the store, a replica that knows no keys fails calls that ask, and no others.
func TestStateKeysCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		one, other := newAsker(t, shared), newAsker(t, shared)
		state := one.ask()
		other.store.down.Store(true)
		for range 10 {
			reply := other.Call(mcp.MethodToolsCall, `{"name":"ask"}`)
			eratest.WantError(t, reply, jsonrpc.InternalError)
			if text := eratest.Text(reply, "error", "message"); !strings.Contains(text, "state key") || strings.Contains(text, errDown.Error()) {
				t.Errorf("the client gets %q", text)
			}
			eratest.WantError(t, other.answer(state), jsonrpc.InternalError)
		}
		if n := other.store.values.Load(); n != 1 {
			t.Errorf("the store was tried %d times in no time, want once", n)
		}
		eratest.WantIf(t, other.Call(mcp.MethodToolsCall, `{"name":"plain"}`), true, "result")
		if n := other.store.values.Load(); n != 1 {
			t.Error("a call that does not ask has tried the store")
		}
		other.store.down.Store(false)
		eratest.Pass(time.Second)
		other.finish(state)
		one.finish(other.ask())
	})
}

// Replicas that know the keys store them again if the store has lost its data.
func TestStateKeysAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		one := newAsker(t, shared)
		state := one.ask()
		before := storedKeys(t, shared)
		if err := shared.Delete(t.Context(), "server/state-key", 0); err != nil {
			t.Fatal(err)
		}
		eratest.Pass(time.Minute)
		one.ask()
		if after := storedKeys(t, shared); !slices.Equal(after, before) {
			t.Error("the store has other keys than before")
		}
		newAsker(t, shared).finish(state)
	})
}

func TestMalformedStateKeys(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(make([]byte, token.MinKey))
	one := fmt.Sprintf(`{"secret":%q,"from":"2026-01-01T00:00:00Z"}`, key)
	for _, record := range []string{
		``, `null`, `{}`, `{"version":1,"value":[]}`, `{"version":1,"value":[{"secret":"","from":"2026-01-01T00:00:00Z"}]}`,
		`{"version":1,"value":[{"secret":"*"}]}`, `{"version":2,"value":[` + one + `]}`,
		`{"version":1,"value":[` + strings.Repeat(one+",", token.MaxKeys) + one + `]}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			shared := newStore(t)
			if _, err := shared.Create(t.Context(), "server/state-key", []byte(record), 0); err != nil {
				t.Fatal(err)
			}
			a := newAsker(t, shared)
			eratest.WantError(t, a.Call(mcp.MethodToolsCall, `{"name":"ask"}`), jsonrpc.InternalError)
			if item, err := shared.Get(t.Context(), "server/state-key"); err != nil || string(item.Value) != record {
				t.Errorf("the record is now %s, %v", item.Value, err)
			}
		})
	}
}

// Tokens that do not open cause few operations of the store.
func TestForgedStatesSpareTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t, newStore(t))
		state := a.ask()
		for range 100 {
			eratest.WantError(t, a.answer(state[:len(state)-8]+"AAAAAAAA"), jsonrpc.InvalidParams)
			eratest.Pass(100 * time.Millisecond)
		}
		if n := a.store.values.Load(); n > 22 { // one a second because of its age, and one because of the tokens
			t.Errorf("the store was read %d times in 10 seconds", n)
		}
	})
}

// Keys in Options.StateKeys are used alone.
func TestStateKeysOfOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		s := newServer(&server.Options{Store: shared, StateKeys: [][]byte{make([]byte, token.MinKey)}})
		asksFor[string](s, "ask")
		a := asker{Peer: eratest.Open(t, s, mcp.LatestVersion, eratest.Askable)}
		a.finish(a.ask())
		if _, err := shared.Get(context.Background(), "server/state-key"); err == nil {
			t.Error("there are keys in the store")
		}
	})
}

// An operator replaces a key of Options.StateKeys: first the new one and the old one, then the new one alone.
// A task that waits for input goes on, its result stays, and events are read from the position before.
func TestStateKeysAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		before, now := bytes.Repeat([]byte{1}, token.MinKey), bytes.Repeat([]byte{2}, token.MinKey)
		restart := func(keys ...[]byte) (*taskClient, *server.Topic[incident], func()) {
			s := newServer(&server.Options{Store: shared, StateKeys: keys})
			server.AddTool(s, server.Tool{Name: "greet", Task: server.TaskRequired}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				name, err := server.Elicit[string](r, "name", "Name?")
				return "hello " + name, err
			})
			topic := addIncidents(s)
			c := newTaskClient(t, s, taskOptions())
			return c, topic, func() {
				c.session.Close()
				if err := s.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
		c, topic, stop := restart(before)
		id := c.start("greet", `{}`)
		c.expect(id, mcp.TaskInputRequired)
		cursor := poll(t, c.session, pollNow).Cursor
		publish(t, topic, incident{}, &server.PublishOptions{ID: "evt_1"})
		stop()

		c, topic, stop = restart(now, before)
		c.expect(id, mcp.TaskInputRequired)
		c.answer(id, "name", `{"action":"accept","content":{"value":"Ann"}}`)
		c.expect(id, mcp.TaskCompleted)
		result := pollAfter(t, c.session, cursor, "")
		if ids(result) != "evt_1" || result.Truncated {
			t.Errorf("with both keys: %+v", result)
		}
		publish(t, topic, incident{}, &server.PublishOptions{ID: "evt_2"})
		stop()

		c, _, stop = restart(now)
		defer stop()
		if done := c.expect(id, mcp.TaskCompleted); !strings.Contains(string(done.Result), "hello Ann") {
			t.Errorf("the result is %s", done.Result)
		}
		if result = pollAfter(t, c.session, result.Cursor, ""); ids(result) != "evt_2" || result.Truncated {
			t.Errorf("with the new key: %+v", result)
		}
		for _, key := range []string{"server/state-key", "server/data-key"} {
			if _, err := shared.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the store has %s: %v", key, err)
			}
		}
	})
}

// The store loses its data, and another replica makes new keys before the first one notices. Each of them can open what
// the other has sealed since.
func TestKeysAreLostAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		type replica struct {
			*taskClient
			topic  *server.Topic[incident]
			cursor *string
		}
		start := func() *replica {
			s := newServer(&server.Options{Store: shared, Logger: discardLogger()})
			server.AddTool(s, server.Tool{Name: "greet", Task: server.TaskRequired}, func(context.Context, *server.Request, struct{}) (string, error) {
				return "hello", nil
			})
			topic := addIncidents(s)
			c := newTaskClient(t, s, taskOptions())
			shutDownAtEnd(t, s)
			t.Cleanup(func() { c.session.Close() })
			r := &replica{c, topic, poll(t, c.session, pollNow).Cursor}
			c.expect(c.start("greet", `{}`), mcp.TaskCompleted)
			return r
		}
		first := start()
		eratest.Pass(time.Minute)
		if err := shared.Delete(t.Context(), "server/data-key", 0); err != nil {
			t.Fatal(err)
		}
		second := start()
		eratest.Pass(2 * time.Second) // it has not been able to open records of the first one, and looks for other keys once a second
		for i, pair := range [][2]*replica{{first, second}, {second, first}} {
			from, to := pair[0], pair[1]
			to.expect(from.start("greet", `{}`), mcp.TaskCompleted)
			event := fmt.Sprint("evt_", i)
			publish(t, from.topic, incident{}, &server.PublishOptions{ID: event})
			result := pollAfter(t, to.session, to.cursor, "")
			if got := ids(result); !strings.HasSuffix(got, event) || result.Truncated {
				t.Errorf("the other replica gets %s, truncated %t", got, result.Truncated)
			}
			if result := pollAfter(t, to.session, from.cursor, ""); !strings.HasSuffix(ids(result), event) || result.Truncated {
				t.Errorf("with the cursor of the other replica: %s, truncated %t", ids(result), result.Truncated)
			}
			to.cursor = result.Cursor
		}
	})
}
