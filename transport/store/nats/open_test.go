package nats_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	driver "github.com/nats-io/nats.go"

	"github.com/dovetail-go/dovetail/internal/filelock"
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

// Connect finds errors that are in its arguments.
func TestConnectErrors(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		url  string
		opts nats.Options
		want string
	}{
		"no URL":            {t.Context(), "", nats.Options{}, "malformed URL"},
		"no host":           {t.Context(), "nats://:4222", nats.Options{}, "malformed URL"},
		"an empty address":  {t.Context(), "nats://127.0.0.1:1,", nats.Options{}, "malformed URL"},
		"another scheme":    {t.Context(), "http://127.0.0.1:1", nats.Options{}, "malformed URL"},
		"a port with words": {t.Context(), "nats://user:secret@127.0.0.1:port", nats.Options{}, "malformed URL"},
		"different schemes": {t.Context(), "nats://127.0.0.1:1,ws://127.0.0.1:1", nats.Options{}, "websocket"},
		"a listener":        {t.Context(), "nats://127.0.0.1:1", nats.Options{Listen: "127.0.0.1:0"}, "options of Embedded"},
		"a prefix":          {t.Context(), "nats://127.0.0.1:1", nats.Options{Prefix: "a.b"}, "Prefix"},
		"a missing file": {t.Context(), "nats://127.0.0.1:1",
			nats.Options{Client: []driver.Option{driver.RootCAs(filepath.Join(t.TempDir(), "missing"))}}, "missing"},
		"an ended context": {ended, "nats://127.0.0.1:1", nats.Options{}, context.Canceled.Error()},
	} {
		s, err := nats.Connect(test.ctx, test.url, &test.opts)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "nats: ") {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error %v contains the password", name, err)
		}
	}
}

// What only the server can tell is the error of each operation.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	owner := embedded(t, t.TempDir(), &nats.Options{Listen: "127.0.0.1:0", Token: "secret"})
	closed := fmt.Sprint("nats://127.0.0.1:", freePorts(t, 1)[0])
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are not accepted
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for name, test := range map[string]struct {
		url   string
		opts  nats.Options
		want  string
		waits bool // Watch, Follow and Pull wait
	}{
		"nobody listens":  {closed, nats.Options{}, "refused", true},
		"a silent server": {"nats://" + silent.Addr().String(), nats.Options{}, "cannot be reached", true},
		"a wrong token":   {owner.URL(), nats.Options{Token: "wrong secret"}, "refuses the connection: nats: Authorization Violation", false},
		"no token":        {owner.URL(), nats.Options{}, "refuses the connection: nats: Authorization Violation", false},
		"replicas":        {owner.URL(), nats.Options{Token: "secret", Replicas: 3}, "replicas", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.opts.Timeout = time.Second
			s := connect(t, test.url, &test.opts)
			var running sync.WaitGroup
			defer running.Wait()
			for _, op := range operations() {
				if op.lost || op.waits && test.waits {
					continue
				}
				running.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
					defer cancel()
					begin := time.Now()
					err := op.run(ctx, s, past{})
					if d := time.Since(begin); d >= 2*test.opts.Timeout {
						t.Errorf("%s has taken %v, want at most %v", op.name, d, test.opts.Timeout)
					}
					if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "nats: ") {
						t.Errorf("%s: error %v, want %q", op.name, err, test.want)
					}
					if err != nil && strings.Contains(err.Error(), "secret") {
						t.Errorf("%s: the error %v contains the token", op.name, err)
					}
				})
			}
		})
	}
}

// A store that the server has refused works when the server accepts it.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	m := newMember(t, server.Options{Authorization: "secret"})
	url := m.url()
	m.stop()
	s := connect(t, url, &nats.Options{Timeout: time.Second})
	m.start()
	for {
		_, err := s.Get(t.Context(), "a")
		if strings.Contains(err.Error(), "Authorization") {
			break
		}
		if !strings.Contains(err.Error(), "cannot be reached") {
			t.Fatal(err)
		}
	}
	m.stop()
	m.options.Authorization = ""
	m.start()
	for {
		_, err := s.Append(t.Context(), "a", nil)
		if err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// A request to create a stream that remains without an answer is repeated within Timeout: the leader of
// a new cluster may be elected after it has been sent.
func TestUnansweredCreation(t *testing.T) {
	t.Parallel()
	m := newMember(t, server.Options{})
	m.stop()
	m.options.JetStream = false
	m.start()
	conn, err := driver.Connect(m.url())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	requests := map[string]int{}
	answer := func(request *driver.Msg) {
		answer := []byte(`{"stream":"log","seq":1}`) // of Append
		switch {
		case strings.HasPrefix(request.Subject, "$JS.API.STREAM.UPDATE."):
			if requests[request.Subject]++; requests[request.Subject] == 1 {
				return
			}
			fallthrough
		case strings.HasPrefix(request.Subject, "$JS.API."):
			answer = []byte(`{"config":{}}`)
		}
		if err := request.Respond(answer); err != nil {
			t.Error(err)
		}
	}
	for _, subject := range []string{"$JS.API.STREAM.*.*", nats.DefaultPrefix + ".log.>"} {
		if _, err := conn.Subscribe(subject, answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	s := connect(t, m.url(), &nats.Options{Timeout: startTimeout})
	if _, err := s.Append(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
	if len(requests) != 3 {
		t.Errorf("updates of %d streams, want 3", len(requests))
	}
}

// A folder has one server.
func TestFolderInUse(t *testing.T) {
	dir := t.TempDir()
	s := embedded(t, dir, nil)
	if _, err := nats.Embedded(dir, nil); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("a second server: error %v, want %v", err, filelock.ErrLocked)
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
