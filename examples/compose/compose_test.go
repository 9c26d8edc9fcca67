package main

import (
	"context"
	"errors"
	"io"
	"log"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var noon = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// inBothEras runs a test with a new desk for a client of each era.
func inBothEras(t *testing.T, opts client.Options, test func(t *testing.T, s *client.Session)) {
	t.Helper()
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		t.Run(name, func(t *testing.T) {
			opts.Era = era
			desk, err := newDesk(func() time.Time { return noon }, log.New(io.Discard, "", 0))
			if err != nil {
				t.Fatal(err)
			}
			test(t, connect(t, desk, &opts))
		})
	}
}

func connect(t *testing.T, s *server.Server, opts *client.Options) *client.Session {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	session, err := client.Connect(t.Context(), transport.Pipe(s), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// say calls a tool and returns the text that it gives.
func say(t *testing.T, s *client.Session, tool string, arguments any) string {
	t.Helper()
	result, err := s.CallTool(t.Context(), tool, arguments, nil)
	if err != nil {
		t.Fatal(err)
	}
	switch content := result.Content[0].(type) {
	case *mcp.TextContent:
		return content.Text
	case *mcp.ResourceLink:
		return content.URI
	}
	return ""
}

// Tools and prompts have prefixes, and answer as they do without.
func TestNames(t *testing.T) {
	inBothEras(t, client.Options{}, func(t *testing.T, s *client.Session) {
		var names []string
		for tool, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		if want := []string{"tidy", "clock_now", "notes_add"}; !slices.Equal(names, want) {
			t.Errorf("the tools are %q, want %q", names, want)
		}
		if got := say(t, s, "tidy", nil); got != "The desk is tidy." {
			t.Errorf("tidy says %q", got)
		}
		if got := say(t, s, "clock_now", nil); got != "2026-07-28T12:00:00Z" {
			t.Errorf("the clock says %q", got)
		}
		if got := say(t, s, "clock_now", map[string]string{"zone": "Mars/Base"}); got != `there is no zone "Mars/Base"` {
			t.Errorf("the clock says %q", got)
		}
		if _, err := s.CallTool(t.Context(), "now", nil, nil); err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("without its prefix the tool gives %v", err)
		}
		prompt, err := s.GetPrompt(t.Context(), "clock_meeting", map[string]string{"zones": "Asia/Tokyo, UTC"}, nil)
		if err != nil || !strings.Contains(prompt.Messages[0].Content.(*mcp.TextContent).Text, "Asia/Tokyo, UTC") {
			t.Errorf("the prompt is %+v, %v", prompt, err)
		}
		zones, err := s.CompletePrompt(t.Context(), "clock_meeting", "zones", "E", nil, nil)
		if err != nil || !slices.Equal(zones.Values, []string{"Europe/Rome"}) {
			t.Errorf("the zones are %+v, %v", zones, err)
		}
	})
}

// Mounting keeps URIs. A subscriber of a URI receives its changes.
func TestNotes(t *testing.T) {
	changes := make(chan mcp.Change, 8)
	opts := client.Options{OnChange: func(_ context.Context, change mcp.Change) { changes <- change }}
	inBothEras(t, opts, func(t *testing.T, s *client.Session) {
		subscription, err := s.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"note://1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		if _, err := s.ReadResource(t.Context(), "note://1", nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("a note that there is not gives %v", err)
		}
		if got := say(t, s, "notes_add", map[string]string{"text": "buy bread"}); got != "note://1" {
			t.Errorf("adding gives %q", got)
		}
		if change := <-changes; change.Kind != mcp.KindResource || change.URI != "note://1" {
			t.Errorf("told %+v", change)
		}
		read, err := s.ReadResource(t.Context(), "note://1", nil)
		if err != nil || read.Contents[0].(*mcp.TextResourceContents).Text != "buy bread" {
			t.Errorf("the note is %+v, %v", read, err)
		}
	})
}

// The parts are servers by themselves.
func TestPartsAlone(t *testing.T) {
	clock := connect(t, newClock(func() time.Time { return noon }), nil)
	if got := say(t, clock, "now", nil); got != "2026-07-28T12:00:00Z" {
		t.Errorf("the clock says %q", got)
	}
	notes := connect(t, newNotes(), nil)
	if got := say(t, notes, "add", map[string]string{"text": "x"}); got != "note://1" {
		t.Errorf("adding gives %q", got)
	}
}

func TestBoardIsFull(t *testing.T) {
	s := connect(t, newNotes(), nil)
	for range maxNotes {
		say(t, s, "add", map[string]string{"text": "x"})
	}
	if got := say(t, s, "add", map[string]string{"text": "x"}); !strings.Contains(got, "the board is full") {
		t.Errorf("a note too many gives %q", got)
	}
}

// Two of one name are an error, and change nothing.
func TestCollision(t *testing.T) {
	desk, err := newDesk(time.Now, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	err = desk.Mount(newClock(time.Now).Provider(), &server.MountOptions{Prefix: "clock_"})
	if collision, ok := errors.AsType[*server.CollisionError](err); !ok || collision.Name != "clock_now" {
		t.Errorf("a second clock gives %v", err)
	}
	if err := desk.Mount(newClock(time.Now).Provider(), &server.MountOptions{Prefix: "wall_clock_"}); err != nil {
		t.Error(err)
	}
	if got := say(t, connect(t, desk, nil), "wall_clock_now", map[string]string{"zone": "UTC"}); !strings.HasSuffix(got, "Z") {
		t.Errorf("the second clock says %q", got)
	}
}

// The middleware of the desk runs for calls to mounted servers.
func TestCallsAreLogged(t *testing.T) {
	var calls strings.Builder
	desk, err := newDesk(time.Now, log.New(&calls, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, desk, &client.Options{Info: mcp.Implementation{Name: "visitor", Version: "1"}, Era: client.Legacy})
	say(t, s, "clock_now", nil)
	_, _ = s.CallTool(t.Context(), "clock_stop", nil, nil)
	for _, line := range []string{`visitor: tools/call "clock_now": answered`, `visitor: tools/call "clock_stop": jsonrpc: -32602`} {
		if !strings.Contains(calls.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, &calls)
		}
	}
}
