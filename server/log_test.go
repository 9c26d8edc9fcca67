package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
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

type (
	nilError   struct{ text string }
	selfLog    struct{}
	manyLog    struct{ left int }
	panics     struct{}
	textPanics struct{ text string }
	node       struct{ Next *node }
)

func (e *nilError) Error() string                  { return e.text }
func (s selfLog) LogValue() slog.Value             { return slog.GroupValue(slog.Any("self", s)) }
func (panics) MarshalJSON() ([]byte, error)        { panic("at the disco") }
func (t *textPanics) MarshalText() ([]byte, error) { return []byte(t.text), nil }
func (m manyLog) LogValue() slog.Value {
	if m.left == 0 {
		return slog.StringValue("leaf")
	}
	return slog.GroupValue(slog.Any("a", manyLog{m.left - 1}), slog.Any("b", manyLog{m.left - 1}))
}

// TestLogAnyValue checks that a record is sent whatever its attributes are.
// TestLogLevelOfServer checks which messages a client gets before and after it sets a level.
func TestLogLevelOfServer(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, test := range []struct {
			server, client mcp.LoggingLevel
			legacy, modern mcp.LoggingLevel // the least severe level that is sent; "" for none
		}{
			{"", "", mcp.LevelInfo, ""},
			{mcp.LevelWarning, "", mcp.LevelWarning, ""},
			{mcp.LevelDebug, "", mcp.LevelDebug, ""},
			{mcp.LevelWarning, mcp.LevelDebug, mcp.LevelDebug, mcp.LevelDebug},
			{mcp.LevelDebug, mcp.LevelError, mcp.LevelError, mcp.LevelError},
		} {
			s := newServer(&server.Options{LogLevel: test.server})
			server.AddTool(s, server.Tool{Name: "level"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				return string(r.Caller().LogLevel), nil
			})
			session := connectWith(t, s, &client.Options{Era: era, LogLevel: test.client})
			want := test.legacy
			if era == client.Modern {
				want = test.modern
			}
			if got := textOf(call(t, session, "level", `{}`)); got != string(want) {
				t.Errorf("server %q, client %q: messages are sent from level %q on, want %q", test.server, test.client, got, want)
			}
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("an unknown level is accepted")
		}
	}()
	newServer(&server.Options{LogLevel: "loud"})
}

func TestLogAnyValue(t *testing.T) {
	self := map[string]any{"c": make(chan int)}
	self["self"] = self
	list := []any{nil}
	list[0] = list
	var pointer any
	pointer = &pointer
	ring := &node{}
	ring.Next = ring
	deep := any(1)
	for range 2000 {
		deep = []any{deep}
	}
	attrs := make([]slog.Attr, 1)
	attrs[0] = slog.Attr{Key: "g", Value: slog.GroupValue(attrs...)}
	const failed = "!ERROR: "
	tests := []struct {
		name  string
		value any
		want  string // the JSON, or the beginning of a text
	}{
		{"nil error", (*nilError)(nil), `<nil>`},
		{"nil error as error", error((*nilError)(nil)), `<nil>`},
		{"error", &nilError{"a\xffb"}, "a\ufffdb"},
		{"nil text", (*textPanics)(nil), `null`},
		{"text", "a\xffb", "a\ufffdb"},
		{"texts", []string{"\xff"}, `["` + "\ufffd" + `"]`},
		{"number", json.Number("12345678901234567890.5"), `12345678901234567890.5`},
		{"numbers", map[string]any{"a": json.Number("1")}, `{"a":1}`},
		{"no number", json.Number("x"), `x`},
		{"panic", panics{}, "!PANIC: at the disco"},
		{"panic inside", []any{panics{}}, "!PANIC: at the disco"},
		{"own map", self, failed},
		{"own list", list, failed},
		{"own pointer", pointer, failed},
		{"ring", ring, failed},
		{"deep", deep, failed},
		{"JSON", json.RawMessage(`{`), failed},
		{"channel", make(chan int), "0x"},
		{"function", func() {}, "0x"},
		{"complex", 1i, "(0+1i)"},
		{"infinity", math.Inf(1), "+Inf"},
		{"channels", []any{make(chan int)}, failed},
		{"URL", url.URL{Scheme: "https", Host: "example.com"}, "https://example.com"},
		{"own group", slog.GroupValue(attrs...), `{`},
		{"group with itself", selfLog{}, `{`},
		{"many groups", manyLog{30}, `{`},
	}
	messages := logged(t, mcp.LevelDebug, func(log *slog.Logger) {
		for _, test := range tests {
			log.Info(test.name, "\xff", 1, "value", test.value)
		}
	})
	if len(messages) != len(tests) {
		t.Fatalf("%d records give %d messages", len(tests), len(messages))
	}
	for i, test := range tests {
		var data struct {
			Message string          `json:"message"`
			Value   json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal(messages[i].Data, &data); err != nil || data.Message != test.name || !bytes.Contains(messages[i].Data, []byte("\"\ufffd\":1")) {
			t.Errorf("%s: got %.200s, %v", test.name, messages[i].Data, err)
			continue
		}
		got := string(data.Value)
		var text string
		if json.Unmarshal(data.Value, &text) == nil && got != "null" {
			got = text
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %.200s, want %s", test.name, got, test.want)
		}
	}
}

// TestLogGroups: groups may be 32 deep.
func TestLogGroups(t *testing.T) {
	nested := func(groups int) slog.Attr {
		a := slog.Int("leaf", 1)
		for range groups {
			a = slog.Attr{Key: "g", Value: slog.GroupValue(a)}
		}
		return a
	}
	messages := logged(t, mcp.LevelDebug, func(log *slog.Logger) {
		log.Info("deepest", nested(32))
		log.Info("deeper", nested(33))
	})
	for i, want := range []string{`"leaf":1`, `"leaf":"!ERROR: more than 10000 attributes, or 32 groups inside each other"`} {
		if !bytes.Contains(messages[i].Data, []byte(want)) {
			t.Errorf("got %s, want %s in it", messages[i].Data, want)
		}
	}
}

// TestLogLargeRecord checks that a large record does not end the connection.
func TestLogLargeRecord(t *testing.T) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "log"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		log := r.Logger("mill")
		log.Error("large"+strings.Repeat("x", 2<<20), "a", 1)
		log.Error("large", "a", strings.Repeat("x", 2<<20))
		return "done", nil
	})
	messages := make(chan string, 3)
	session := connectWith(t, s, &client.Options{LogLevel: mcp.LevelDebug, OnLog: func(_ context.Context, m *mcp.LoggingMessageParams) {
		messages <- string(m.Data)
	}})
	if result := call(t, session, "log", `{}`); result.Text() != "done" {
		t.Errorf("got %v", result)
	}
	for range 2 {
		if data := waittest.Receive(t, "a log message", messages); !strings.HasPrefix(data, `{"message":"large`) || !strings.Contains(data, `"truncated":"!ERROR: the record has`) || len(data) > 8<<10 {
			t.Errorf("got %.100s of %d bytes", data, len(data))
		}
	}
}

// TestLogNotSent checks that the operator sees a record that cannot be sent, and that a cancelled call is no reason for
// a warning. The record comes without the context of the call, as from [slog.Logger.Info].
func TestLogNotSent(t *testing.T) {
	record := slog.NewRecord(time.Time{}, slog.LevelError, "not sent", 0)
	check := func(t *testing.T, err error, lines *bytes.Buffer, level string) {
		t.Helper()
		want := "level=" + level + ` msg="a log message was not sent to the caller" message="not sent"`
		if err == nil || strings.Count(lines.String(), "msg=") != 1 || !strings.Contains(lines.String(), want) {
			t.Errorf("got %v, and the operator sees %q, want %s", err, lines, want)
		}
	}
	newLogger := func() (*slog.Logger, *bytes.Buffer) {
		lines := new(bytes.Buffer)
		return slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug})), lines
	}
	t.Run("no way to the caller", func(t *testing.T) {
		logger, lines := newLogger()
		call := mcp.NewCall(&jsonrpc.Request{Method: mcp.MethodToolsCall}, &mcp.Caller{}, nil)
		r := server.NewRequest(t.Context(), newServer(&server.Options{Logger: logger}), &call)
		check(t, r.Logger("mill").Handler().Handle(context.Background(), record), lines, "WARN")
	})
	t.Run("the caller has cancelled", func(t *testing.T) {
		logger, lines := newLogger()
		done := make(chan error)
		s := newServer(&server.Options{Logger: logger})
		server.AddTool(s, server.Tool{Name: "log"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			done <- r.Logger("mill").Handler().Handle(context.Background(), record)
			return "", nil
		})
		session := connectWith(t, s, &client.Options{LogLevel: mcp.LevelDebug})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _ = session.CallTool(ctx, "log", nil, nil)
		check(t, waittest.Receive(t, "the error of the log", done), lines, "DEBUG")
	})
}
