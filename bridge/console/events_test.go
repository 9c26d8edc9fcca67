package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"

	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
)

// TestEventsOfServers: a failure of a server is shown to both roles, and only operators get the reason.
func TestEventsOfServers(t *testing.T) {
	r := newRig(t, client.Modern, nil)
	r.recorder.Hide("canary-of-the-configuration")
	c, url := r.open(t)
	var log bytes.Buffer
	logger := slog.New(r.recorder.LogHandler(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))).With("server", "files")
	logger.Debug("a detail")
	logger.Info("the server is ready")
	logger.WithGroup("process").Warn("the server failed", "error", errors.New("exit status 3: canary-of-the-configuration, canary-of-the-peer"), "again_in", "1s")
	if got := log.String(); strings.Contains(got, "ready") || !strings.Contains(got, `server=files process.error="exit status 3`) {
		t.Errorf("the log is %s", got)
	}
	for _, who := range []struct{ role, token, want string }{
		{"viewer", c.ViewerToken(), "info files: the server is ready, warn files: the server failed"},
		{"operator", c.Token(), "info files: the server is ready, warn files: the server failed · process.error: exit status 3: [redacted], canary-of-the-peer · process.again_in: 1s, info files: the server is restarted on request"},
	} {
		f := dial(t, url, who.token)
		frame := f.next()
		for frame["type"] != "events" {
			frame = f.next()
		}
		var got []string
		for _, e := range frame["events"].([]any) {
			m := e.(map[string]any)
			line := fmt.Sprintf("%v %v: %v", m["level"], m["server"], m["text"])
			if m["details"] != nil {
				line += fmt.Sprintf(" · %v", m["details"])
			}
			got = append(got, line)
		}
		if strings.Join(got, ", ") != who.want {
			t.Errorf("%s gets %q, want %q", who.role, got, who.want)
		}
		if strings.Contains(f.all.String(), "canary") != (who.role == "operator") {
			t.Errorf("%s gets %s", who.role, &f.all)
		}
		logger.Info("the server is restarted on request")
		waittest.Within(t, "the next event", func(context.Context) {
			for frame = f.next(); frame["type"] != "events"; frame = f.next() {
			}
		})
		if events := frame["events"].([]any); len(events) != 1 {
			t.Errorf("the next events are %v", events)
		}
	}
}

// TestLogHandlerPassesRecordsOn: the handler behind it gets what it would get without it.
func TestLogHandlerPassesRecordsOn(t *testing.T) {
	var log bytes.Buffer
	handler := console.NewRecorder(nil).LogHandler(slog.NewJSONHandler(&log, nil))
	if err := slogtest.TestHandler(handler, func() []map[string]any { return linesOf(t, &log) }); err != nil {
		t.Error(err)
	}
}

// TestEventsAreBounded: the last 1,000 are kept, and 1 KiB of the details of each.
func TestEventsAreBounded(t *testing.T) {
	r := console.NewRecorder(nil)
	logger := slog.New(r.LogHandler(slog.DiscardHandler))
	for i := range 1500 {
		logger.Info("happened", "n", i, "text", strings.Repeat("x", 4000))
	}
	events := r.Events()
	if len(events) != 1000 || !strings.HasPrefix(events[0].Details, "n: 500 ·") || len(events[0].Details) > 1<<10 {
		t.Errorf("%d events are kept, the first is %+v", len(events), events[0])
	}
}

// TestStandardErrorOfAServer: the last 64 KiB are kept, from the beginning of a line and without secrets, and everything is passed on.
func TestStandardErrorOfAServer(t *testing.T) {
	r := newRig(t, client.Modern, nil)
	r.recorder.Hide("canary-of-the-configuration")
	c, url := r.open(t)
	var all bytes.Buffer
	w := r.recorder.Stderr("files", &all)
	for i := range 20_000 {
		fmt.Fprintf(w, "files: line %d of canary-of-the-configuration\n", i)
	}
	if got := strings.Count(all.String(), "\n"); got != 20_000 {
		t.Errorf("%d lines are passed on", got)
	}
	_, _ = io.WriteString(r.recorder.Stderr("files", nil), "files: started again\n")
	_, _ = io.WriteString(r.recorder.Stderr("other", nil), "other: a line\n")
	got := dial(t, url, c.Token()).ask(`"do":"server","alias":"files"`)["stderr"].(string)
	lines := strings.Split(got, "\n")
	if len(got) > 64<<10 || len(got) < 32<<10 || !strings.HasPrefix(lines[0], "files: line ") || !strings.HasSuffix(got, "line 19999 of [redacted]\nfiles: started again\n") || strings.Contains(got, "canary") {
		t.Errorf("%d bytes are shown: %.200q … %q", len(got), got, got[len(got)-200:])
	}
	answer := dial(t, url, c.ViewerToken()).ask(`"do":"server","alias":"files"`)
	if answer["error"] == nil {
		t.Errorf("a viewer gets %v", answer)
	}
}

// linesOf returns the objects of the lines of a log.
func linesOf(t *testing.T, log *bytes.Buffer) (lines []map[string]any) {
	t.Helper()
	for decoder := json.NewDecoder(log); ; {
		var line map[string]any
		if err := decoder.Decode(&line); err == io.EOF {
			return lines
		} else if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}
