package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// written returns a file with settings.
func written(t *testing.T, settings string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// started runs the server at free ports. stop ends it as SIGTERM does and returns its result and log.
func started(t *testing.T) (origin string, stop func() (log string, err error)) {
	t.Helper()
	file := written(t, `{"host":"mcp.example.com","tokens":{"sesame-open-sesame":"ada"},"secret":"`+strings.Repeat("0a", 32)+`"}`)
	read, write := io.Pipe()
	previous := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(write, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, "127.0.0.1:0", 0, file)
		write.Close()
	}()
	lines := json.NewDecoder(read)
	var public struct{ Address string }
	if err := lines.Decode(&public); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(&log, read)
	}()
	return "http://" + public.Address, func() (string, error) {
		cancel()
		err := <-ended
		<-copied
		slog.SetDefault(previous)
		return log.String(), err
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestServer(t *testing.T) {
	origin, stop := started(t)
	connect := func(token string) (*client.Session, error) {
		return client.Connect(t.Context(), streamable.Dial(origin+"/mcp", &streamable.DialOptions{
			Header: httptransport.StaticHeader(map[string]string{"Authorization": "Bearer " + token}),
		}), nil)
	}
	_, err := connect("a-token-of-nobody")
	if refused, ok := errors.AsType[*httptransport.StatusError](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %v", err)
	}
	session, err := connect("sesame-open-sesame")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.CallAs[float64](t.Context(), session, "divide", divideIn{1, 8}, nil); err != nil || got != 0.125 {
		t.Errorf("1/8 is %v, %v", got, err)
	}
	if status, _ := get(t, origin+"/readyz"); status != http.StatusOK {
		t.Errorf("the status of /readyz is %d", status)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	log, err := stop()
	if err != nil || !strings.Contains(log, `"msg":"call","principal":"ada","method":"tools/call"`) || strings.Contains(log, "sesame") {
		t.Errorf("the server ends with %v and has logged\n%s", err, log)
	}
}

func TestInvalidConfig(t *testing.T) {
	published, err := os.ReadFile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	const placeholder = "replace this by the output of: openssl rand -hex 32"
	digits := strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		`{`:               "unexpected end",
		string(published): "64 random hexadecimal digits",
		strings.Replace(string(published), placeholder, digits, 1):                      "token",
		`{"secret":"` + digits[2:] + `"}`:                                               "64 random hexadecimal digits",
		`{"secret":"` + digits + `0a"}`:                                                 "64 random hexadecimal digits",
		`{"host":"mcp.example.com","tokens":{"short":"ada"},"secret":"` + digits + `"}`: "token",
	} {
		file := written(t, text)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := run(ctx, "127.0.0.1:0", 0, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		cancel()
	}
}
