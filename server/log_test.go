package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// logged calls log with a logger to the caller, and returns the messages in order.
func logged(t *testing.T, level mcp.LoggingLevel, log func(*slog.Logger)) []*mcp.LoggingMessageParams {
	t.Helper()
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "log"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		log(r.Logger("mill"))
		return "", nil
	})
	var messages []*mcp.LoggingMessageParams
	done := make(chan struct{})
	session := connectWith(t, s, &client.Options{LogLevel: level, OnLog: func(_ context.Context, m *mcp.LoggingMessageParams) {
		if string(m.Data) == `{"message":"the end"}` {
			close(done)
			return
		}
		messages = append(messages, m)
	}})
	server.AddTool(s, server.Tool{Name: "end"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		r.Logger("").Error("the end")
		return "", nil
	})
	call(t, session, "log", `{}`)
	call(t, session, "end", `{}`)
	<-done
	return messages
}

// TestLogHandler runs the tests of log/slog for handlers.
func TestLogHandler(t *testing.T) {
	var messages []*mcp.LoggingMessageParams
	var sent time.Time
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		return slogRelay{run: func(record slog.Record, log func(*slog.Logger)) {
			messages, sent = logged(t, mcp.LevelDebug, log), record.Time
		}}
	}, func(t *testing.T) map[string]any {
		if len(messages) != 1 {
			t.Fatalf("one record gives %d messages", len(messages))
		}
		var data map[string]any
		if err := json.Unmarshal(messages[0].Data, &data); err != nil {
			t.Fatal(err)
		}
		data[slog.MessageKey] = data["message"]
		data[slog.LevelKey] = messages[0].Level
		if !sent.IsZero() {
			data[slog.TimeKey] = sent // a message has none: its reader has a clock
		}
		return data
	})
}

// A slogRelay logs a record inside a call, with the given attributes and groups.
type slogRelay struct {
	run   func(slog.Record, func(*slog.Logger))
	steps []func(slog.Handler) slog.Handler
}

func (r slogRelay) Enabled(context.Context, slog.Level) bool { return true }
func (r slogRelay) Handle(ctx context.Context, record slog.Record) error {
	var err error
	r.run(record, func(log *slog.Logger) {
		h := log.Handler()
		for _, step := range r.steps {
			h = step(h)
		}
		err = h.Handle(ctx, record)
	})
	return err
}
func (r slogRelay) WithAttrs(attrs []slog.Attr) slog.Handler {
	return r.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}
func (r slogRelay) WithGroup(name string) slog.Handler {
	return r.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}
func (r slogRelay) with(step func(slog.Handler) slog.Handler) slog.Handler {
	return slogRelay{r.run, append(slices.Clip(r.steps), step)}
}

type money int

func (m money) LogValue() slog.Value { return slog.GroupValue(slog.Int("cents", int(m))) }

// TestLogData checks the JSON of records.
func TestLogData(t *testing.T) {
	messages := logged(t, mcp.LevelDebug, func(log *slog.Logger) {
		log.Info("kinds", "s", "<b>", "n", 1, "big", uint64(1<<63), "f", 1.5, "b", true, "d", time.Second,
			"t", time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC), "e", errors.New("broken"), "nil", nil,
			"list", []int{1}, "struct", point{1, 2}, "money", money(5), "raw", json.RawMessage(`{"a":1}`))
		log.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").Warn("groups", "c", 3, slog.Group("", "inline", 4))
		log.Error("no JSON", "c", make(chan int), "ok", 1)
	})
	if len(messages) != 3 {
		t.Fatalf("three records give %d messages", len(messages))
	}
	for i, want := range []struct {
		level mcp.LoggingLevel
		data  string
	}{
		{mcp.LevelInfo, `{"b":true,"big":9223372036854775808,"d":"1s","e":"broken","f":1.5,"list":[1],"message":"kinds","money":{"cents":5},"n":1,"nil":null,"raw":{"a":1},"s":"<b>","struct":{"x":1,"y":2},"t":"2026-07-28T00:00:00Z"}`},
		{mcp.LevelWarning, `{"a":1,"g":{"b":2,"h":{"c":3,"inline":4}},"message":"groups"}`},
		{mcp.LevelError, ``},
	} {
		if got := messages[i]; got.Level != want.level || want.data != "" && string(got.Data) != want.data || got.Logger != "mill" {
			t.Errorf("message %d is %s %q %s, want %s %s", i, got.Level, got.Logger, got.Data, want.level, want.data)
		}
	}
	var data map[string]any
	if err := json.Unmarshal(messages[2].Data, &data); err != nil || data["ok"] != 1.0 || data["message"] != "no JSON" || data["c"] == nil {
		t.Errorf("a value that has no JSON is told as %s", messages[2].Data)
	}
}

// TestLogLevels checks that only the wanted levels are sent.
func TestLogLevels(t *testing.T) {
	messages := logged(t, mcp.LevelError, func(log *slog.Logger) {
		log.Debug("debug")
		log.Warn("warning")
		log.Error("error")
		if log.Enabled(t.Context(), slog.LevelWarn) {
			t.Error("a level is enabled that nobody wants")
		}
	})
	if len(messages) != 1 || messages[0].Level != mcp.LevelError {
		t.Errorf("the caller gets %v", messages)
	}
}
