//go:build unix

package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// safeBuffer is a buffer that several goroutines write to.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// wantNoControl checks that a text has line breaks, but no other control or format characters.
// It is weaker than the check of testsuites, because slog does not escape combining characters
// and U+007F.
func wantNoControl(t *testing.T, where, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != 0x7f && unicode.In(r, unicode.C, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			t.Errorf("%s contains %U in %.300q", where, r, text)
			return
		}
	}
}

// Servers put hostile text wherever they can: standard error, lines that are not messages, bodies, headers and messages
// of errors. Log lines, states and errors have no control characters, and a log line has a limited length.
func TestHostileServersInLogs(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	text := "FAKE " + strings.Join(testsuites.HostileText(t), " ") + "\nlevel=INFO msg=FAKE\r\n" + strings.Repeat("FAKE ", 20_000)
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer error="`+strings.ToValidUTF8(strings.ReplaceAll(text[:200], "\n", " "), "")+`"`)
		switch r.URL.Path {
		case "/status":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(text)) // the log check fails if the text is missing
		case "/type":
			w.Header().Set("Content-Type", "\u202etext/\u009bevil")
			_, _ = w.Write([]byte(text))
		case "/redirect":
			w.Header().Set("Location", "http://example.com/\u202e\u009b31m?FAKE")
			w.WriteHeader(http.StatusFound)
		case "/error":
			var request struct{ ID json.RawMessage }
			_ = json.NewDecoder(r.Body).Decode(&request) // no request has no id
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%s,"data":%s}}`, request.ID, quoted, quoted)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", strings.ReplaceAll(text, "\n", " "), strings.ReplaceAll(text, "\n", "\ndata: "))
		}
	}))
	defer web.Close()
	servers := map[string]any{"child": map[string]any{"command": "sh", "args": []string{"-c", "cat " + file + " >&2; cat " + file + "; exit 3"}}}
	for _, path := range []string{"status", "type", "redirect", "error", "stream"} {
		servers[path] = map[string]any{"type": "http", "url": web.URL + "/" + path}
		servers["sse_"+path] = map[string]any{"type": "sse", "url": web.URL + "/" + path}
		servers["ws_"+path] = map[string]any{"type": "ws", "url": "ws" + strings.TrimPrefix(web.URL, "http") + "/" + path}
	}
	definition, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := config.Parse(definition, "mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	log, stderr := &safeBuffer{}, &safeBuffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	configs, err := parsed.Bridge(t.Context(), nil, &config.DialOptions{Logger: logger, Stderr: stderr})
	if err != nil {
		t.Fatal(err)
	}
	for i := range configs {
		configs[i].ConnectTimeout = time.Second
	}
	b, err := bridge.New(&bridge.Options{Logger: logger, StartTimeout: 3 * time.Second}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	all := server.New(mcp.Implementation{Name: "all", Version: "1"}, &server.Options{Logger: logger})
	if err := all.Mount(b, nil); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), transport.Pipe(all), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range session.Tools(t.Context(), nil) { // starts the servers
	}
	for _, state := range b.States() {
		if state.Err == nil {
			t.Errorf("the server %s has not failed", state.Alias)
			continue
		}
		wantNoControl(t, "the state of "+state.Alias, state.Err.Error())
		if len(state.Err.Error()) > 3000 {
			t.Errorf("the error of %s has %d bytes", state.Alias, len(state.Err.Error()))
		}
	}
	session.Close()
	if err := all.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	wantNoControl(t, "the log", log.String())
	testsuites.WantPlainLines(t, stderr.String())
	for line := range strings.Lines(log.String()) {
		if !strings.HasPrefix(line, "time=") || strings.Contains(line, " msg=FAKE") || len(line) > 5000 {
			t.Errorf("a line of the log has %d bytes: %.300q", len(line), line)
		}
	}
	if !strings.Contains(log.String(), "FAKE") || !strings.Contains(stderr.String(), "child: FAKE") {
		t.Errorf("the log has none of the text: %s%s", log, stderr)
	}
}
