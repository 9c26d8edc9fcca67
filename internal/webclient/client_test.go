package webclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

func bearer(_ context.Context, header http.Header) error {
	header.Set("Authorization", "Bearer secret")
	return nil
}

// The program adds to each header, and changes nothing that is there.
func TestHeader(t *testing.T) {
	type key struct{}
	server := script(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %q %d %s%s%s", r.Method, text, r.ContentLength, r.Header["X-Call"], r.Header["Content-Type"], r.Header["Accept"])
	})
	header := func(ctx context.Context, header http.Header) error {
		if len(header) > 0 || httptrace.ContextClientTrace(ctx) != nil {
			t.Errorf("it was given %v and a trace", header) // requests that the program makes now are its own
		}
		header["X-Call"] = []string{fmt.Sprint(ctx.Value(key{})), "2"}
		header.Set("Content-Type", "no")
		return nil
	}
	ctx := context.WithValue(t.Context(), key{}, "1")
	for way, given := range ways(t, server) {
		c := webclient.New(given, header)
		posted, err := c.Post(ctx, parsed(t, where), http.Header{"Content-Type": {"yes"}}, []byte("text"), new(webclient.Progress))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Do(ctx, http.MethodGet, parsed(t, where), http.Header{"Accept": {"all"}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{`POST "text" 4 [1 2][yes][]`, `GET "" 0 [1 2][no][all]`}, []string{bodyOf(posted), bodyOf(got)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", way, diff)
		}
	}
}

func bodyOf(res *http.Response) string {
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

var errNoToken = errors.New("no token")

// Without its header, a request is not made.
func TestHeaderFails(t *testing.T) {
	given := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, io.EOF
	})}
	c := webclient.New(given, func(context.Context, http.Header) error { return errNoToken })
	_, delivery, err := post(t, c, where, "")
	if !errors.Is(err, errNoToken) || isNotReached(err) || delivery != jsonrpc.NotSent {
		t.Errorf("Post: %v (%v)", err, delivery)
	}
	if _, err := c.Do(t.Context(), http.MethodGet, parsed(t, where), http.Header{}); !errors.Is(err, errNoToken) {
		t.Errorf("Do: %v", err)
	}
}

// Whether a message can have been executed depends on whether it left. Errors do not
// tell the URL.
func TestNetworkFails(t *testing.T) {
	broken := errors.New("broken")
	dialFails := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, broken }}
	hangsUp := script(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	})
	silent := roundTripper(func(*http.Request) (*http.Response, error) { return nil, broken })
	for name, test := range map[string]struct {
		by       http.RoundTripper
		delivery jsonrpc.Delivery
		err      error
	}{
		"not connected":              {dialFails, jsonrpc.NotSent, broken},
		"not connected, by a client": {roundTripper(dialFails.RoundTrip), jsonrpc.NotSent, broken},
		"no answer":                  {toward(t, hangsUp), jsonrpc.MaybeExecuted, nil},
		"no answer, by a client":     {roundTripper(toward(t, hangsUp).RoundTrip), jsonrpc.MaybeExecuted, nil},
		"a RoundTripper of its own":  {silent, jsonrpc.MaybeExecuted, broken},
	} {
		c := webclient.New(&http.Client{Transport: test.by}, nil)
		_, delivery, err := post(t, c, where, "text")
		if !isNotReached(err) || delivery != test.delivery || test.err != nil && !errors.Is(err, test.err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v (%v)", name, err, delivery)
		}
		if _, err := c.Do(t.Context(), http.MethodGet, parsed(t, where), http.Header{}); !isNotReached(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: Do: %v", name, err)
		}
	}
}

// mute is a connection that takes nothing any more once it has been used.
type mute struct {
	net.Conn
	silenced atomic.Bool
}

func (m *mute) Write(p []byte) (int, error) {
	if m.silenced.Load() {
		return 0, net.ErrClosed
	}
	return m.Conn.Write(p)
}

// A connection that has gone while it was idle costs nothing but another one. A message
// that does not get that either was not sent.
func TestConnectionGoneMeanwhile(t *testing.T) {
	server := script(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	var last *mute
	var refusing bool
	tr := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if refusing {
			return nil, net.ErrClosed
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		last = &mute{Conn: conn}
		return last, err
	}}
	defer tr.CloseIdleConnections()
	c := webclient.New(&http.Client{Transport: tr}, nil)
	for range 3 {
		if status, _, err := post(t, c, where, "text"); status != http.StatusOK {
			t.Errorf("got %d, %v", status, err)
		}
		last.silenced.Store(true)
	}
	refusing = true
	if _, delivery, err := post(t, c, where, "text"); !isNotReached(err) || delivery != jsonrpc.NotSent {
		t.Errorf("got %v (%v)", err, delivery)
	}
}

// Who has not given up is not told that it has.
func TestAnotherRequestIsGivenUp(t *testing.T) {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		t.Run(end.Error(), func(t *testing.T) {
			c := webclient.New(&http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				return nil, end
			})}, nil)
			_, delivery, err := post(t, c, where, "{}")
			if !isNotReached(err) || errors.Is(err, end) {
				t.Errorf("error %v, want one of the network", err)
			}
			if delivery != jsonrpc.MaybeExecuted {
				t.Errorf("delivery %v", delivery)
			}
		})
	}
	t.Run("its own", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := webclient.New(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			cancel()
			return nil, r.Context().Err()
		})}, nil)
		if _, err := c.Do(ctx, "GET", parsed(t, where), http.Header{}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
}

// What a program has set in its client still counts.
func TestGivenClient(t *testing.T) {
	server := script(t, func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		_, cookie := r.Cookie("c")
		fmt.Fprint(w, user, cookie)
	})
	tr := toward(t, server)
	ask := func(given *http.Client, to string) string {
		res, err := webclient.New(given, nil).Do(t.Context(), http.MethodGet, parsed(t, to), http.Header{})
		if err != nil {
			t.Fatal(err)
		}
		return bodyOf(res)
	}
	if got := ask(&http.Client{Transport: tr}, "http://user:pw@script.test"); !strings.HasPrefix(got, "user") {
		t.Errorf("the user of the URL: %s", got)
	}
	jar, _ := cookiejar.New(nil)
	jar.SetCookies(parsed(t, where), []*http.Cookie{{Name: "c", Value: "v"}})
	if got := ask(&http.Client{Transport: tr, Jar: jar}, where); got != "<nil>" {
		t.Errorf("the cookie: %s", got)
	}
	synctest.Test(t, func(t *testing.T) {
		waits := new(http.Transport)
		waits.RegisterProtocol("http", roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		c := webclient.New(&http.Client{Transport: waits, Timeout: time.Hour}, nil)
		began := time.Now()
		if _, err := c.Do(ctx, http.MethodGet, parsed(t, where), http.Header{}); !isNotReached(err) || time.Since(began) != time.Hour {
			t.Errorf("the timeout: %v after %v", err, time.Since(began))
		}
	})
}

// Every answer knows its request, whoever made it.
func TestAnswerKnowsItsRequest(t *testing.T) {
	forgets := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
	})
	res, err := webclient.New(&http.Client{Transport: forgets}, nil).Do(t.Context(), http.MethodDelete, parsed(t, where), http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := webclient.NewStatusError(res, nil); got.Method != http.MethodDelete || res.Request.URL.Path != "/mcp" {
		t.Errorf("the answer is to %s %s", got.Method, res.Request.URL)
	}
}

// What is idle is shared, and goes with the last user of an own client. The program's
// is the program's.
func TestIdleConnections(t *testing.T) {
	for name, own := range map[string]bool{"own": true, "given": false} {
		t.Run(name, func(t *testing.T) {
			states := make(chan http.ConnState, 100)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
			server.Start()
			defer server.Close()
			var given *http.Client
			if !own {
				given = server.Client()
			}
			c := webclient.New(given, nil)
			c.Acquire()
			c.Acquire()
			for range 3 {
				if _, _, err := post(t, c, server.URL, ""); err != nil {
					t.Error(err)
				}
			}
			c.Release()
			if _, _, err := post(t, c, server.URL, ""); err != nil {
				t.Error(err)
			}
			c.Release()
			if !own {
				server.Close()
			}
			opened, tooLate := 0, time.After(10*time.Second)
			for closed := false; !closed; {
				select {
				case state := <-states:
					closed = state == http.StateClosed
					if state == http.StateNew {
						opened++
					}
				case <-tooLate:
					t.Fatal("the connection is still open")
				}
			}
			if opened != 1 {
				t.Errorf("there were %d connections", opened)
			}
		})
	}
}

// A text may be read again and again, by as many as there are.
func TestBodyCanBeSentAgain(t *testing.T) {
	again := roundTripper(func(r *http.Request) (*http.Response, error) {
		first, _ := io.ReadAll(r.Body)
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		second, _ := io.ReadAll(body)
		if string(first) != "text" || string(second) != "text" || r.ContentLength != 4 {
			t.Errorf("read %q, then %q", first, second)
		}
		return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody}, nil
	})
	if _, _, err := post(t, webclient.New(&http.Client{Transport: again}, nil), where, "text"); err != nil {
		t.Error(err)
	}
}

// inMemory answers without a network, so that what is counted is ours.
type inMemory struct{}

func (inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Request: r}, nil
}

// postBudget is what a message costs beside the transport: the request, its context and
// the hooks in it, the body and its copy, and the answer.
const postBudget = 12

func TestAllocations(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	tr := new(http.Transport)
	tr.RegisterProtocol("memory", inMemory{})
	c := webclient.New(&http.Client{Transport: tr}, nil)
	to, header, text := &url.URL{Scheme: "memory", Host: "host"}, http.Header{}, []byte("text")
	got := testing.AllocsPerRun(100, func() {
		res, err := c.Post(context.Background(), to, header, text, new(webclient.Progress))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	})
	if got > postBudget {
		t.Errorf("a message takes %v allocations, at most %v are allowed", got, postBudget)
	}
}
