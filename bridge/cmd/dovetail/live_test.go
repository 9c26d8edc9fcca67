package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A lockedProvider needs a lock for its catalog, which is locked while it has a value.
type lockedProvider struct {
	server.Provider
	lock chan struct{}
}

func (p *lockedProvider) Catalog() *server.Catalog {
	p.lock <- struct{}{}
	defer func() { <-p.lock }()
	return p.Provider.Catalog()
}

// TestServerThatDoesNotAnswerIsWedged: a lock that is not released makes requests wait, and so the probe.
func TestServerThatDoesNotAnswerIsWedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := make(chan struct{}, 1)
		s := server.New(mcp.Implementation{Name: "s", Version: "1"}, nil)
		inner := server.New(mcp.Implementation{Name: "inner", Version: "1"}, nil)
		if err := s.Mount(&lockedProvider{inner.Provider(), lock}, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := newLiveness(s, &timedWriter{out: io.Discard})
		if l.isWedged(t.Context(), liveTimeout) {
			t.Error("a server that answers is wedged")
		}
		lock <- struct{}{}
		<-time.After(2 * liveAge)
		began := time.Now()
		if !l.isWedged(t.Context(), liveTimeout) || time.Since(began) > liveTimeout {
			t.Errorf("a server that does not answer is not wedged after %v", time.Since(began))
		}
		<-time.After(2 * liveAge)
		probed := make(chan bool)
		go func() { probed <- l.isWedged(t.Context(), liveTimeout) }()
		synctest.Wait()
		began = time.Now() // metrics do not wait for the probe
		if !l.isWedged(t.Context(), scrapeTimeout) || time.Since(began) > scrapeTimeout {
			t.Errorf("for metrics it is not wedged after %v", time.Since(began))
		}
		<-lock
		if <-probed {
			t.Error("a server that answers before the end of a probe is wedged")
		}
		if l.isWedged(t.Context(), scrapeTimeout) {
			t.Error("then it is wedged for metrics")
		}
		lock <- struct{}{}
		<-time.After(2 * liveAge)
		first := make(chan bool)
		go func() { first <- l.isWedged(t.Context(), scrapeTimeout) }()
		<-time.After(2 * time.Second)
		began = time.Now() // also for one that waits for another before it
		if !l.isWedged(t.Context(), scrapeTimeout) || !<-first || time.Since(began) > scrapeTimeout {
			t.Errorf("for metrics, a server that does not answer is not wedged after %v", time.Since(began))
		}
		<-lock
		if l.isWedged(t.Context(), liveTimeout) {
			t.Error("what metrics say is the answer of a probe")
		}
		lock <- struct{}{}
		<-time.After(2 * liveAge)
		if !l.isWedged(t.Context(), liveTimeout) {
			t.Error("a server that does not answer is not wedged")
		}
		<-lock
		<-time.After(2 * liveAge)
		if l.isWedged(t.Context(), liveTimeout) {
			t.Error("a server that answers again is wedged")
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if l.isWedged(t.Context(), liveTimeout) {
			t.Error("a server that refuses requests is wedged")
		}
	})
}

// TestBlockedLogIsWedged: calls are logged, and wait when nobody reads the log. The process is sick until somebody does.
func TestBlockedLogIsWedged(t *testing.T) {
	p := &program{folder: t.TempDir()}
	command := exec.Command(os.Args[0], p.flags(t)...)
	command.Env = append(os.Environ(), asProgram+"=1")
	said, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	p.introduced(t, lines)
	read := make(chan struct{})
	goOn := func() {
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, lines)
		}()
	}
	reading := false
	t.Cleanup(func() {
		_ = command.Process.Kill()
		if !reading {
			goOn()
		}
		<-read
		_ = command.Wait() // it was killed
	})
	isLive := func(want int) func() bool {
		return func() bool {
			status, body, err := p.do(t.Context(), "", http.MethodGet, "/livez", "")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(body), "\n") != 1 || strings.Contains(string(body), "standard") {
				t.Errorf("the probe has details: %s", body)
			}
			return status == want
		}
	}
	waittest.Until(t, "a live program", isLive(http.StatusOK))
	isWedged := isLive(http.StatusServiceUnavailable)
	waittest.Until(t, "a wedged program", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, _ = p.do(ctx, p.token, http.MethodPost, "/api/v1/rest/tools/shelf__drop", `{}`) // each call writes lines, until one waits
		return isWedged()
	})
	reading = true
	goOn()
	waittest.Until(t, "a live program again", isLive(http.StatusOK))
}
