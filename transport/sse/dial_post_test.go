package sse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/sse"
)

// The answer to a POST says how far its message got.
func TestPostStatus(t *testing.T) {
	for _, tt := range []struct {
		status     int
		retryAfter string
		delivery   jsonrpc.Delivery
		notReached bool
	}{
		{400, "", rejected, false},
		{401, "", rejected, true},
		{403, "", rejected, true},
		{405, "", rejected, false},
		{413, "", rejected, false},
		{429, "", rejected, true},
		{500, "", maybeExecuted, true},
		{502, "", maybeExecuted, true},
		{503, "", maybeExecuted, true},
		{503, "3", rejected, true},
		{504, "", maybeExecuted, true},
		{201, "", rejected, false},
		{304, "", rejected, false},
	} {
		t.Run(fmt.Sprint(tt.status, tt.retryAfter), func(t *testing.T) {
			s := newScript(t)
			var refuses atomic.Bool
			refuses.Store(true)
			s.post = func(w http.ResponseWriter, r *http.Request) {
				if !refuses.Load() {
					s.echo(w, r)
					return
				}
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				w.WriteHeader(tt.status)
				if tt.status != 304 {
					fmt.Fprint(w, "because")
				}
			}
			conn := dial(t, sse.Dial(s.URL, nil), silent{})
			for range 2 {
				_, err := conn.Call(t.Context(), "any", nil)
				failed(t, err, tt.delivery, nil)
				refused, ok := errors.AsType[*sse.StatusError](err)
				if !ok || refused.Status != tt.status || refused.Method != http.MethodPost || isNotReached(err) != tt.notReached {
					t.Errorf("the error is %v, not reached is %t", err, isNotReached(err))
				}
				failed(t, conn.Notify(t.Context(), "any", nil), tt.delivery, nil)
			}
			refuses.Store(false)
			if _, err := conn.Call(t.Context(), "echo", raw1); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	for _, status := range []int{200, 202, 204} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := newScript(t)
			s.post = func(w http.ResponseWriter, r *http.Request) {
				s.echo(discard{w}, r)
				w.WriteHeader(status)
				if status == 200 {
					fmt.Fprint(w, `{"this":"is not looked at"}`)
				}
			}
			conn := dial(t, sse.Dial(s.URL, nil), silent{})
			if resp, err := conn.Call(t.Context(), "echo", raw1); err != nil || string(resp.Result) != "[1]" {
				t.Errorf("a call: %v", err)
			}
		})
	}
}

// discard drops the status.
type discard struct{ http.ResponseWriter }

// A server that has forgotten the session has not executed the call, which may go
// to the next session.
func TestSessionGone(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		s := newScript(t)
		s.post = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		conn := dial(t, sse.Dial(s.URL, nil), silent{})
		_, err := conn.Call(t.Context(), "any", nil)
		failed(t, err, notSent, errClosed)
		if !strings.Contains(err.Error(), "the server does not know the session") {
			t.Errorf("the error is %v", err)
		}
		await(t, conn.Done(), "the end of the connection")
	}
}

// A message may be refused before the end of the stream, which is why, is noticed.
func TestSessionEndsAfterRefusal(t *testing.T) {
	var refusing chan struct{}
	rt := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return streamOf(r, io.MultiReader(strings.NewReader("event: endpoint\ndata: /\n\n"), waiting(refusing))), nil
		}
		time.AfterFunc(50*time.Millisecond, func() { close(refusing) })
		return &http.Response{StatusCode: http.StatusBadRequest, Body: http.NoBody, Request: r}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		refusing = make(chan struct{})
		conn := dial(t, sse.Dial("http://localhost", &sse.DialOptions{HTTPClient: &http.Client{Transport: rt}}), silent{})
		_, err := conn.Call(t.Context(), "any", nil)
		failed(t, err, notSent, errClosed)
		closed(t, conn)
	})
}

// Whether a message can have been executed depends on whether it left.
func TestPostMeetsNetworkFailure(t *testing.T) {
	s := newScript(t)
	var refusing, losing atomic.Bool
	s.post = func(w http.ResponseWriter, r *http.Request) {
		if losing.Load() {
			_, _ = io.ReadAll(r.Body)
			panic(http.ErrAbortHandler)
		}
		s.echo(w, r)
	}
	own := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if refusing.Load() {
			address = unused(t)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	conn := dial(t, sse.Dial(s.URL, &sse.DialOptions{HTTPClient: &http.Client{Transport: own}}), silent{})

	refusing.Store(true)
	_, err := conn.Call(t.Context(), "any", nil)
	failed(t, err, notSent, nil)
	if !isNotReached(err) || strings.Contains(err.Error(), "http://") {
		t.Errorf("connection refused: %v", err)
	}
	refusing.Store(false)

	losing.Store(true)
	_, err = conn.Call(t.Context(), "any", nil)
	failed(t, err, maybeExecuted, nil)
	if !isNotReached(err) {
		t.Errorf("connection lost: %v", err)
	}
	losing.Store(false)
	if _, err := conn.Call(t.Context(), "echo", raw1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// abandoning tells of calls that nobody waits for any more.
type abandoning struct {
	silent
	ids chan jsonrpc.ID
}

func (a abandoning) Abandoned(_ jsonrpc.Peer, id jsonrpc.ID, _ error) { a.ids <- id }

// A call that is cancelled while its message is being posted may have got through,
// and is cancelled at the server as well.
func TestCancelWhilePosting(t *testing.T) {
	s := newScript(t)
	posting := make(chan struct{}, 1)
	s.post = func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		posting <- struct{}{}
		<-r.Context().Done()
	}
	handler := abandoning{ids: make(chan jsonrpc.ID, 1)}
	conn := dial(t, sse.Dial(s.URL, nil), handler)
	lost := errors.New("lost interest")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-posting
		cancel(lost)
	}()
	_, err := conn.Call(ctx, "any", nil)
	failed(t, err, maybeExecuted, lost)
	if id := await(t, handler.ids, "the abandoned call"); id != jsonrpc.IntID(1) {
		t.Errorf("abandoned was %s", id)
	}
}

// Closing in the middle of a POST leaves nothing behind, and the fate of the call open.
func TestCloseWhilePosting(t *testing.T) {
	s := newScript(t)
	posting := make(chan struct{}, 1)
	s.post = func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		posting <- struct{}{}
		<-r.Context().Done()
	}
	conn := dial(t, sse.Dial(s.URL, nil), silent{})
	call := make(chan error, 1)
	go func() {
		_, err := conn.Call(t.Context(), "any", nil)
		call <- err
	}()
	await(t, posting, "the message")
	closed(t, conn)
	failed(t, await(t, call, "the call"), maybeExecuted, errClosed)
}

// A call that is cancelled before its message has left was not sent, and says why.
func TestCancelBeforePosting(t *testing.T) {
	s := newScript(t)
	var opened atomic.Bool
	connecting, gone := make(chan struct{}), make(chan struct{})
	defer close(gone)
	tr := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if opened.Swap(true) {
			close(connecting)
			<-gone
			return nil, net.ErrClosed
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	conn := dial(t, sse.Dial(s.URL, &sse.DialOptions{HTTPClient: &http.Client{Transport: tr}}), silent{})
	lost := errors.New("lost interest")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-connecting
		cancel(lost)
	}()
	_, err := conn.Call(ctx, "any", nil)
	failed(t, err, notSent, lost)
}
