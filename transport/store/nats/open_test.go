package nats_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

func TestConnectErrors(t *testing.T) {
	owner := embedded(t, t.TempDir(), &nats.Options{Listen: "127.0.0.1:0", Token: "secret"})
	for name, test := range map[string]struct {
		url  string
		opts nats.Options
		want string
	}{
		"nobody listens": {fmt.Sprint("nats://127.0.0.1:", freePorts(t, 1)[0]), nats.Options{}, "no servers available"},
		"a wrong token":  {owner.URL(), nats.Options{Token: "wrong"}, "Authorization"},
		"no token":       {owner.URL(), nats.Options{}, "Authorization"},
		"a listener":     {owner.URL(), nats.Options{Listen: "127.0.0.1:0"}, "options of Embedded"},
		"replicas":       {owner.URL(), nats.Options{Token: "secret", Replicas: 3}, "replicas"},
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

// A folder has one server.
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
	if _, err := conn.Subscribe("$JS.API.STREAM.*.*", func(request *driver.Msg) {
		if requests[request.Subject]++; requests[request.Subject] == 1 {
			return
		}
		if err := request.Respond(fmt.Appendf(nil, `{"config":%s}`, request.Data)); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	connect(t, m.url(), nil)
}

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
