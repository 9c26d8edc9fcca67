package oauth_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

var fileKey = bytes.Repeat([]byte{7}, 32)

// clockOffset is how far the clock of the processes is ahead. The token of the first login has
// expired by then.
const clockOffset = 10 * time.Minute

// useFileStore is the program of the processes. It reads a line for each step, and writes one
// when it is done. First it saves a value of its own, then it adds the token for a server to a
// request.
func useFileStore(path, server string, in io.Reader, out io.Writer) error {
	store, err := oauth.NewFileStore(path, fileKey)
	if err != nil {
		return err
	}
	client, err := oauth.NewClient(&oauth.ClientOptions{
		Store: store, AllowLoopback: true, Logger: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return time.Now().Add(clockOffset) },
		Flow:  &oauth.CodeFlow{Open: func(context.Context, string) error { return errors.New("a person has to log in again") }},
	})
	if err != nil {
		return err
	}
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, server, http.NoBody)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return store.Save(context.Background(), fmt.Sprint("process ", os.Getpid()), "x") },
		func() error { return client.Authorize(context.Background(), u, req) },
	}
	lines := bufio.NewReader(in)
	fmt.Fprintln(out, "ready")
	for _, step := range steps {
		if _, err := lines.ReadString('\n'); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
		fmt.Fprintln(out, "done", req.Header.Get("Authorization"))
	}
	return nil
}

// Several processes share a file. No change is lost, and one of them refreshes a token whose
// refresh token can be used once; the others use its result.
func TestProcessesShareAFileStore(t *testing.T) {
	w := newFixture(t, &oauthtest.Options{TokenLife: time.Minute})
	path := filepath.Join(t.TempDir(), "tokens")
	store, err := oauth.NewFileStore(path, fileKey)
	if err != nil {
		t.Fatal(err)
	}
	w.mustSucceed(w.client(func(o *oauth.ClientOptions) { o.Store = store }))
	second := make(chan struct{}, 8)
	w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
		if w.count("issuer/token") > 2 {
			second <- struct{}{}
		}
		select { // so that a second refresh, which must not happen, would begin before the first ends
		case <-second:
		case <-time.After(300 * time.Millisecond):
		}
		w.as.ServeHTTP(res, r)
	})

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type process struct {
		command *exec.Cmd
		in      io.WriteCloser
		out     *bufio.Reader
		errors  bytes.Buffer
	}
	var all []*process
	for range 4 {
		p := &process{command: exec.CommandContext(t.Context(), self)}
		p.command.Env = append(os.Environ(), "DOVETAIL_TEST_TOKENS="+path, "DOVETAIL_TEST_SERVER="+w.mcp())
		p.command.Stderr = &p.errors
		out, err := p.command.StdoutPipe()
		if err == nil {
			p.out = bufio.NewReader(out)
			p.in, err = p.command.StdinPipe()
		}
		if err == nil {
			err = p.command.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	said := make(map[string]int)
	for step := range 3 {
		for _, p := range all {
			if line, err := p.out.ReadString('\n'); err != nil {
				t.Errorf("step %d: %v, %v", step, err, p.command.Wait())
				t.Fatal(p.errors.String())
			} else {
				said[strings.TrimSpace(line)]++
			}
		}
		if step < 2 {
			for _, p := range all {
				fmt.Fprintln(p.in)
			}
		}
	}
	for _, p := range all {
		if err := p.command.Wait(); err != nil {
			t.Errorf("%v: %s", err, &p.errors)
		}
		if value, err := store.Load(t.Context(), fmt.Sprint("process ", p.command.Process.Pid)); value == "" || err != nil {
			t.Errorf("the value of a process is lost: %v", err)
		}
	}
	if got := w.count("issuer/token"); got != 2 { // the login and one refresh
		t.Errorf("%d token requests, want 2", got)
	}
	if len(said) != 3 { // ready, done, and done with the same token
		t.Errorf("the processes said %v", said)
	}
}
