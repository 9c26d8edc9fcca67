package nats_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	driver "github.com/nats-io/nats.go"

	"github.com/dovetail-go/dovetail/internal/sharedfile"
	"github.com/dovetail-go/dovetail/internal/test/porttest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

func TestOptionErrors(t *testing.T) {
	for name, test := range map[string]struct {
		opts nats.Options
		want string
	}{
		"a prefix with a dot":         {nats.Options{Prefix: "a.b"}, "Prefix"},
		"a long prefix":               {nats.Options{Prefix: strings.Repeat("a", 33)}, "Prefix"},
		"a negative timeout":          {nats.Options{Timeout: -1}, "negative"},
		"a negative interval":         {nats.Options{Sync: -1}, "negative"},
		"limits out of range":         {nats.Options{Limits: store.Limits{Lease: 1}}, "out of range"},
		"replicas":                    {nats.Options{Replicas: 3}, "options of Connect"},
		"options of a client":         {nats.Options{Client: []driver.Option{}}, "options of Connect"},
		"a listener without a token":  {nats.Options{Listen: "127.0.0.1:0"}, "needs a Token"},
		"a listener for all machines": {nats.Options{Listen: ":0", Token: "secret"}, "no loopback address"},
		"a listener for others":       {nats.Options{Listen: "192.0.2.1:0", Token: "secret"}, "no loopback address"},
		"a listener without a port":   {nats.Options{Listen: "127.0.0.1", Token: "secret"}, "missing port"},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		s, err := nats.Embedded(dir, &test.opts)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "nats: ") {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the folder has been created", name)
		}
	}
}

func TestConnectErrors(t *testing.T) {
	owner := embedded(t, t.TempDir(), &nats.Options{Listen: "127.0.0.1:0", Token: "secret"})
	for name, test := range map[string]struct {
		url  string
		opts nats.Options
		want string
	}{
		"a wrong token": {owner.URL(), nats.Options{Token: "wrong"}, "Authorization"},
		"no token":      {owner.URL(), nats.Options{}, "Authorization"},
		"a listener":    {owner.URL(), nats.Options{Listen: "127.0.0.1:0"}, "options of Embedded"},
		"replicas":      {owner.URL(), nats.Options{Token: "secret", Replicas: 3}, "replicas"},
	} {
		s, err := nats.Connect(t.Context(), test.url, &test.opts)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "nats: ") {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error %v contains the token", name, err)
		}
	}
}

// Connect returns a store when it cannot reach the server within Timeout, and logs why. The error of an operation says
// why, too.
func TestConnectWithoutServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are not accepted
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	silentURL := "nats://" + silent.Addr().String()
	const timeout = 2 * time.Second
	for name, test := range map[string]struct{ url, want string }{
		"no server":           {fmt.Sprint("nats://127.0.0.1:", porttest.Free(t)), "cannot be reached"},
		"a silent server":     {silentURL, "cannot be reached"},
		"two of them":         {silentURL + "," + silentURL, "cannot be reached"},
		"a server in trouble": {withoutJetStream(t, func(*driver.Msg) {}), "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			begin := time.Now()
			s := connect(t, test.url, &nats.Options{Timeout: timeout, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			_, err := s.Create(t.Context(), "a", nil, 0)
			if d := time.Since(begin); d > 4*timeout {
				t.Errorf("Connect and Create have taken %v", d)
			}
			if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), test.want) {
				t.Errorf("the log is %q, want a warning with %q", log.String(), test.want)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "nats: ") {
				t.Errorf("Create: error %v, want %q", err, test.want)
			}
		})
	}
}

// A store that a server refuses when it starts works when the server accepts it.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	m := newMember(t, server.Options{Authorization: "secret"})
	url := m.url()
	m.stop()
	s := connect(t, url, &nats.Options{Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)})
	m.start()
	waittest.Until(t, "the refusal", func() bool {
		_, err := s.Get(t.Context(), "a")
		return strings.Contains(err.Error(), "refuses the connection: nats: Authorization Violation")
	})
	m.stop()
	m.options.Authorization = ""
	m.start()
	waittest.Until(t, "an entry", func() bool {
		_, err := s.Append(t.Context(), "a", nil)
		return err == nil
	})
}

// withoutJetStream starts a server whose requests of JetStream are answered by a function. It returns the URL of the server.
func withoutJetStream(t *testing.T, answer func(request *driver.Msg)) string {
	t.Helper()
	m := newMember(t, server.Options{})
	m.stop()
	m.options.JetStream = false
	m.start()
	subscribe(t, m.url(), "$JS.API.>", answer)
	return m.url()
}

// subscribe calls handle for the messages of a subject until the end of the test.
func subscribe(t *testing.T, url, subject string, handle func(*driver.Msg)) {
	t.Helper()
	conn, err := driver.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if _, err := conn.Subscribe(subject, handle); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// A request to create a stream that remains without an answer is repeated within Timeout: the leader of
// a new cluster may be elected after it has been sent.
func TestUnansweredCreation(t *testing.T) {
	t.Parallel()
	var unanswered atomic.Int32
	requests := map[string]int{}
	connect(t, withoutJetStream(t, func(request *driver.Msg) {
		operation, name, _ := strings.Cut(strings.TrimPrefix(request.Subject, "$JS.API.STREAM."), ".")
		answer := fmt.Appendf(nil, `{"config":{"name":%q}}`, name)
		switch {
		case operation == "CREATE":
			if requests[name]++; requests[name] == 1 {
				unanswered.Add(1)
				return
			}
		case requests[name] < 2:
			answer = []byte(`{"error":{"code":404,"err_code":10059}}`) // the stream does not exist
		}
		if err := request.Respond(answer); err != nil {
			t.Error(err)
		}
	}), nil)
	if n := unanswered.Load(); n != 3 {
		t.Errorf("%d requests remained without an answer, want those for 3 streams", n)
	}
}

// A store updates the streams of another one only if it has other options.
func TestOtherOptions(t *testing.T) {
	t.Parallel()
	m := newMember(t, server.Options{})
	updates := make(chan string, 10)
	subscribe(t, m.url(), "$JS.API.STREAM.UPDATE.*", func(request *driver.Msg) { updates <- request.Subject })
	for _, entries := range []int{10, 10, 20, 20} {
		connect(t, m.url(), &nats.Options{Limits: store.Limits{LogEntries: entries}})
	}
	if update := waittest.Receive(t, "an update", updates); update != "$JS.API.STREAM.UPDATE.dovetail-log" || len(updates) > 0 {
		t.Errorf("the updates are %s and %d others", update, len(updates))
	}
}

// A folder has one server.
func TestFolderInUse(t *testing.T) {
	dir := t.TempDir()
	s := embedded(t, dir, nil)
	if _, err := nats.Embedded(dir, nil); !errors.Is(err, sharedfile.ErrLocked) {
		t.Errorf("a second server: error %v, want %v", err, sharedfile.ErrLocked)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	embedded(t, dir, nil)
}

func TestFolderErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := nats.Embedded(file, nil); err == nil {
		t.Error("a file was used as a folder")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := nats.Embedded(dir, nil); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("JetStream cannot use its folder: error %v, want the reason", err)
	}
}

// Only the user reads the files of a server.
func TestFolderMode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	embedded(t, dir, nil)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Separator == '/' && info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has the mode %v, want only the user's", info.Mode())
	}
}

// Everything that is stored survives a restart, with each setting of Sync.
func TestRestart(t *testing.T) {
	for _, sync := range []time.Duration{0, time.Minute} {
		dir := t.TempDir()
		opts := &nats.Options{Sync: sync}
		s := embedded(t, dir, opts)
		revision, err := s.Create(t.Context(), "a", []byte("value"), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		id, err := s.Append(t.Context(), "a", []byte("entry"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Push(t.Context(), "a", "job", []byte("data")); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = embedded(t, dir, opts)
		if item, err := s.Get(t.Context(), "a"); err != nil || string(item.Value) != "value" || item.Revision != revision {
			t.Errorf("the value is %+v, %v", item, err)
		}
		for entry, err := range s.Read(t.Context(), "a", 0) {
			if err != nil || entry.ID != id || string(entry.Data) != "entry" {
				t.Errorf("the entry is %+v, %v", entry, err)
			}
		}
		if job, err := s.Pull(t.Context(), "a"); err != nil || job.ID != "job" || string(job.Data) != "data" {
			t.Errorf("the job is %+v, %v", job, err)
		}
	}
}

// Stores with other prefixes have other data.
func TestPrefix(t *testing.T) {
	owner := embedded(t, t.TempDir(), &nats.Options{Listen: "127.0.0.1:0", Token: "secret"})
	other := connect(t, owner.URL(), &nats.Options{Token: "secret", Prefix: "other"})
	if _, err := owner.Create(t.Context(), "a", nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Get(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, want %v", err, store.ErrNotFound)
	}
}

// Users of the main module link neither NATS nor Redis.
func TestMainModule(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", "./...")
	cmd.Dir = filepath.Join("..", "..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "github.com/dovetail-go/dovetail/transport/store\n") {
		t.Fatalf("go list: %.200s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "nats") || strings.Contains(line, "redis") {
			t.Errorf("the main module depends on %s", line)
		}
	}
}
