package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leaktest"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/streamable/storetest"
)

func TestRunPasses(t *testing.T) {
	storetest.Run(t, func(*testing.T) streamable.EventStore { return streamable.NewMemoryEvents(nil) })
}

// faults lists defects and the property that detects each.
var faults = map[string]struct {
	breaks   func(store streamable.EventStore) streamable.EventStore
	property string
}{
	"gives the newest first":         {func(s streamable.EventStore) streamable.EventStore { return backward{s} }, "Order"},
	"repeats the one asked for":      {func(s streamable.EventStore) streamable.EventStore { return repeating{s} }, "Order"},
	"trims messages":                 {func(s streamable.EventStore) streamable.EventStore { return trimming{s} }, "Bytes"},
	"keeps the caller's buffer":      {func(s streamable.EventStore) streamable.EventStore { return &sharing{EventStore: s} }, "Copies"},
	"knows every stream":             {func(s streamable.EventStore) streamable.EventStore { return knowing{s} }, "UnknownStream"},
	"hides what it has lost":         {func(s streamable.EventStore) streamable.EventStore { return hiding{s} }, "FirstNumber"},
	"takes any number":               {func(s streamable.EventStore) streamable.EventStore { return lax{s} }, "Gaps"},
	"replaces big events":            {func(s streamable.EventStore) streamable.EventStore { return replacing{s} }, "BigEvents"},
	"joins names":                    {func(s streamable.EventStore) streamable.EventStore { return joining{s} }, "Streams"},
	"forgets that sessions differ":   {func(s streamable.EventStore) streamable.EventStore { return public{s} }, "Sessions"},
	"forgets nothing":                {func(s streamable.EventStore) streamable.EventStore { return unforgetting{s} }, "Forget"},
	"forgets by the name's start":    {func(s streamable.EventStore) streamable.EventStore { return &prefixed{EventStore: s} }, "Forget"},
	"mixes up streams under way":     {func(s streamable.EventStore) streamable.EventStore { return public{s} }, "Concurrency"},
	"replays what has been dropped":  {func(s streamable.EventStore) streamable.EventStore { return unforgetting{s} }, "ConcurrentForget"},
	"fails when it is asked to stop": {func(s streamable.EventStore) streamable.EventStore { return failing{s} }, "Forget"},
}

const faultVariable = "STORETEST_FAULT"

// Run detects each defect. Each runs in a process of its own, since a failed subtest fails
// its parents.
func TestRunFindsFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaulty$/^"+fault.property+"$")
			cmd.Env = append(os.Environ(), faultVariable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestFaulty/"+fault.property) {
				t.Errorf("the kit has not noticed (%v):\n%s", err, out)
			}
		})
	}
}

func TestFaulty(t *testing.T) {
	fault, ok := faults[os.Getenv(faultVariable)]
	if !ok {
		t.Skip("runs in a process that TestRunFindsFaults starts")
	}
	storetest.Run(t, func(*testing.T) streamable.EventStore { return fault.breaks(streamable.NewMemoryEvents(nil)) })
}

type backward struct{ streamable.EventStore }

func (s backward) After(ctx context.Context, id streamable.StreamID, after int64) ([]streamable.StoredEvent, error) {
	events, err := s.EventStore.After(ctx, id, after)
	for i, j := 0, len(events)-1; i < j; i, j = i+1, j-1 {
		events[i], events[j] = events[j], events[i]
	}
	return events, err
}

type repeating struct{ streamable.EventStore }

func (s repeating) After(ctx context.Context, id streamable.StreamID, after int64) ([]streamable.StoredEvent, error) {
	return s.EventStore.After(ctx, id, after-1)
}

type trimming struct{ streamable.EventStore }

func (s trimming) Append(ctx context.Context, id streamable.StreamID, event streamable.StoredEvent) error {
	event.Message = bytes.TrimSpace(event.Message)
	return s.EventStore.Append(ctx, id, event)
}

// sharing is a store that does not copy messages.
type sharing struct {
	streamable.EventStore
	last streamable.StoredEvent
}

func (s *sharing) Append(ctx context.Context, id streamable.StreamID, event streamable.StoredEvent) error {
	s.last = event
	return s.EventStore.Append(ctx, id, event)
}

func (s *sharing) After(ctx context.Context, id streamable.StreamID, after int64) ([]streamable.StoredEvent, error) {
	events, err := s.EventStore.After(ctx, id, after)
	if len(events) > 0 {
		events[len(events)-1] = s.last
	}
	return events, err
}

type knowing struct{ streamable.EventStore }

func (s knowing) After(ctx context.Context, id streamable.StreamID, after int64) ([]streamable.StoredEvent, error) {
	events, err := s.EventStore.After(ctx, id, after)
	if after == 0 && errors.Is(err, streamable.ErrPurged) {
		return nil, nil
	}
	return events, err
}

// hiding is a store that returns the remaining events instead of ErrPurged.
type hiding struct{ streamable.EventStore }

func (s hiding) After(ctx context.Context, id streamable.StreamID, after int64) ([]streamable.StoredEvent, error) {
	for later := after; later < after+10; later++ {
		if events, err := s.EventStore.After(ctx, id, later); err == nil {
			return events, nil
		}
	}
	return nil, streamable.ErrPurged
}

type lax struct{ streamable.EventStore }

func (s lax) Append(ctx context.Context, id streamable.StreamID, event streamable.StoredEvent) error {
	_ = s.EventStore.Append(ctx, id, event)
	return nil
}

type replacing struct{ streamable.EventStore }

func (s replacing) Append(ctx context.Context, id streamable.StreamID, event streamable.StoredEvent) error {
	if len(event.Message) > 1<<20 {
		event.Message = []byte(`null`)
	}
	return s.EventStore.Append(ctx, id, event)
}

type joining struct{ streamable.EventStore }

func (s joining) Append(ctx context.Context, id streamable.StreamID, event streamable.StoredEvent) error {
	return s.EventStore.Append(ctx, joined(id), event)
}

func (s joining) After(ctx context.Context, id streamable.StreamID, after int64) ([]streamable.StoredEvent, error) {
	return s.EventStore.After(ctx, joined(id), after)
}

func joined(id streamable.StreamID) streamable.StreamID {
	return streamable.StreamID{Session: "all", Stream: id.Session + "/" + id.Stream}
}

// public is a store that ignores the session.
type public struct{ streamable.EventStore }

func (s public) Append(ctx context.Context, id streamable.StreamID, event streamable.StoredEvent) error {
	return s.EventStore.Append(ctx, streamable.StreamID{Session: "all", Stream: "all"}, event)
}

func (s public) After(ctx context.Context, id streamable.StreamID, after int64) ([]streamable.StoredEvent, error) {
	return s.EventStore.After(ctx, streamable.StreamID{Session: "all", Stream: "all"}, after)
}

type unforgetting struct{ streamable.EventStore }

func (unforgetting) Forget(context.Context, string) error { return nil }

type prefixed struct {
	streamable.EventStore
	sessions []string
}

func (s *prefixed) Append(ctx context.Context, id streamable.StreamID, event streamable.StoredEvent) error {
	s.sessions = append(s.sessions, id.Session)
	return s.EventStore.Append(ctx, id, event)
}

func (s *prefixed) Forget(ctx context.Context, session string) error {
	for _, name := range s.sessions {
		if strings.HasPrefix(name, session) {
			if err := s.EventStore.Forget(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

type failing struct{ streamable.EventStore }

func (failing) Forget(_ context.Context, session string) error {
	return errors.New("there is nothing of " + session)
}

func TestMain(m *testing.M) { leaktest.Main(m) }
