package httpclient_test

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
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

func bearer(_ context.Context, header http.Header) error {
	header.Set("Authorization", "Bearer secret")
	return nil
}

// The program's header is added to each request, and replaces nothing.
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
	for path, given := range paths(t, server) {
		c := newClient(given, header)
		posted, err := c.Post(ctx, parsed(t, where), http.Header{"Content-Type": {"yes"}}, []byte("text"), new(httpclient.Progress))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Do(ctx, http.MethodGet, parsed(t, where), http.Header{"Accept": {"all"}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{`POST "text" 4 [1 2][yes][]`, `GET "" 0 [1 2][no][all]`}, []string{bodyOf(posted), bodyOf(got)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func bodyOf(res *http.Response) string {
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

var errNoToken = errors.New("no token")

// A request is not sent if the program's header fails.
func TestHeaderFails(t *testing.T) {
	given := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, io.EOF
	})}
	c := newClient(given, func(context.Context, http.Header) error { return errNoToken })
	_, delivery, err := post(t, c, where, "")
	if !errors.Is(err, errNoToken) || isNotReached(err) || delivery != jsonrpc.NotSent {
		t.Errorf("Post: %v (%v)", err, delivery)
	}
	if _, err := c.Do(t.Context(), http.MethodGet, parsed(t, where), http.Header{}); !errors.Is(err, errNoToken) {
		t.Errorf("Do: %v", err)
	}
}

// Whether a message may have been executed depends on whether it was sent. Errors do not
// contain the URL.
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
		c := newClient(&http.Client{Transport: test.by}, nil)
		_, delivery, err := post(t, c, where, "text")
		if !isNotReached(err) || delivery != test.delivery || test.err != nil && !errors.Is(err, test.err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v (%v)", name, err, delivery)
		}
		if _, err := c.Do(t.Context(), http.MethodGet, parsed(t, where), http.Header{}); !isNotReached(err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: Do: %v", name, err)
		}
	}
}

// mute is a connection that accepts no writes after its first use.
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

// A message that meets a closed idle connection is sent on another one. If that fails too,
// it was not sent.
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
	c := newClient(&http.Client{Transport: tr}, nil)
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

// A request that was not canceled never fails with context.Canceled.
func TestAnotherRequestIsGivenUp(t *testing.T) {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		t.Run(end.Error(), func(t *testing.T) {
			c := newClient(&http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
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
		c := newClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			cancel()
			return nil, r.Context().Err()
		})}, nil)
		if _, err := c.Do(ctx, "GET", parsed(t, where), http.Header{}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
}

// The settings of the program's http.Client apply.
func TestGivenClient(t *testing.T) {
	server := script(t, func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		_, cookie := r.Cookie("c")
		fmt.Fprint(w, user, cookie)
	})
	tr := toward(t, server)
	ask := func(given *http.Client, to string) string {
		res, err := newClient(given, nil).Do(t.Context(), http.MethodGet, parsed(t, to), http.Header{})
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
		c := newClient(&http.Client{Transport: waits, Timeout: time.Hour}, nil)
		began := time.Now()
		if _, err := c.Do(ctx, http.MethodGet, parsed(t, where), http.Header{}); !isNotReached(err) || time.Since(began) != time.Hour {
			t.Errorf("the timeout: %v after %v", err, time.Since(began))
		}
	})
}

// Every response has its request, whichever RoundTripper returned it.
func TestAnswerKnowsItsRequest(t *testing.T) {
	forgets := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, nil
	})
	res, err := newClient(&http.Client{Transport: forgets}, nil).Do(t.Context(), http.MethodDelete, parsed(t, where), http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := httpclient.NewStatusError(res, nil); got.Method != http.MethodDelete || res.Request.URL.Path != "/mcp" {
		t.Errorf("the answer is to %s %s", got.Method, res.Request.URL)
	}
}

// Idle connections are shared. The last user closes the idle connections of an own client. The idle connections of the
// program's client stay open.
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
			c := newClient(given, nil)
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

// A body may be read any number of times, also concurrently.
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
	if _, _, err := post(t, newClient(&http.Client{Transport: again}, nil), where, "text"); err != nil {
		t.Error(err)
	}
}

// inMemory responds without a network, so that only the allocations of Client are counted.
type inMemory struct{}

func (inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Request: r}, nil
}

// postBudget is the maximum number of allocations of a message, without the transport.
const postBudget = 12

func TestAllocations(t *testing.T) {
	racetest.Skip(t)
	tr := new(http.Transport)
	tr.RegisterProtocol("memory", inMemory{})
	c := newClient(&http.Client{Transport: tr}, nil)
	to, header, text := &url.URL{Scheme: "memory", Host: "host"}, http.Header{}, []byte("text")
	got := testing.AllocsPerRun(100, func() {
		res, err := c.Post(context.Background(), to, header, text, new(httpclient.Progress))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	})
	if got > postBudget {
		t.Errorf("a message takes %v allocations, at most %v are allowed", got, postBudget)
	}
}

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://host":                      "http://host",
		"https://user:pw@host:1/path?q#f":  "https://user:pw@host:1/path?q",
		"HTTP://[::1]/":                    "http://[::1]/",
		"":                                 "",
		"localhost:80":                     "",
		"ftp://localhost":                  "",
		"ws://localhost/":                  "",
		"http://":                          "",
		"http:///path":                     "",
		"//localhost":                      "",
		"http://[::1":                      "",
		"http://user:secret@local host/":   "",
		"http://user:secret@host/\x7f":     "",
		"http://user:secret@host:password": "",
	} {
		u, err := httpclient.ParseURL(text)
		switch {
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%q: got %v, %v, want %s", text, u, err, want)
		case want == "" && err == nil:
			t.Errorf("%q was taken for %v", text, u)
		case want == "" && (!strings.HasPrefix(err.Error(), "the server's URL") || strings.Contains(err.Error(), "secret")):
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSameOrigin(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"http://host/a", "http://host/b?c#d", true},
		{"http://host", "http://user:pw@HOST:80", true},
		{"https://host", "https://host:443", true},
		{"https://host:8443", "https://host:8443/x", true},
		{"http://[::1]:80/", "http://[::1]/", true},
		{"http://host", "http://host:/", true},
		{"http://host", "https://host", false},
		{"http://host:443", "https://host:443", false},
		{"http://host:443", "http://host", false},
		{"https://host:80", "https://host", false},
		{"http://host", "http://host:8080", false},
		{"http://host", "http://a.host", false},
		{"http://host", "http://host.", false},
		{"http://host", "http://host@evil", false},
		{"http://host", "http:path", false},
		{"http://host", "/path", false},
	} {
		a, b := parsed(t, test.a), parsed(t, test.b)
		if httpclient.SameOrigin(a, b) != test.same || httpclient.SameOrigin(b, a) != test.same {
			t.Errorf("%s and %s: not %t", test.a, test.b, test.same)
		}
	}
}

// stubAuthorizer is an Authorizer that counts its calls.
type stubAuthorizer struct {
	t          *testing.T
	authorized int
	challenged []int // statuses
	again      bool
	errs       [2]error // of Authorize and Challenged
}

func (g *stubAuthorizer) Authorize(_ context.Context, server *url.URL, req *http.Request) error {
	g.authorized++
	if server.String() != where || req.Header.Get("Authorization") != "" {
		g.t.Errorf("asked for %s, with %v", server, req.Header)
	}
	req.Header.Set("Authorization", fmt.Sprint(g.authorized))
	return g.errs[0]
}

func (g *stubAuthorizer) Challenged(_ context.Context, _ *url.URL, req *http.Request, res *http.Response) (bool, error) {
	g.challenged = append(g.challenged, res.StatusCode)
	if req.Header.Get("Authorization") != fmt.Sprint(g.authorized) {
		g.t.Errorf("the request was sent with %v", req.Header)
	}
	return g.again, g.errs[1]
}

var errAuthorizer = errors.New("no access")

func TestAuthorizer(t *testing.T) {
	for name, test := range map[string]struct {
		stubAuthorizer stubAuthorizer
		refusals       []int // before the server admits
		status         int
		sent           int
		challenged     []int
		delivery       jsonrpc.Delivery
		err            error
	}{
		"admitted":         {stubAuthorizer{}, nil, 200, 1, nil, 0, nil},
		"again":            {stubAuthorizer{again: true}, []int{401, 403}, 200, 3, []int{401, 403}, 0, nil},
		"not again":        {stubAuthorizer{}, []int{401}, 401, 1, []int{401}, 0, nil},
		"without end":      {stubAuthorizer{again: true}, []int{401, 401, 401, 401, 401, 401}, 401, 4, []int{401, 401, 401}, 0, nil},
		"other refusals":   {stubAuthorizer{again: true}, []int{429}, 429, 1, nil, 0, nil},
		"fails before":     {stubAuthorizer{errs: [2]error{errAuthorizer, nil}}, nil, 0, 0, nil, jsonrpc.NotSent, errAuthorizer},
		"fails at refusal": {stubAuthorizer{errs: [2]error{nil, errAuthorizer}}, []int{403}, 0, 1, []int{403}, jsonrpc.Rejected, errAuthorizer},
	} {
		sent := 0
		server := script(t, func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			if sent++; string(text) != "text" || r.Header.Get("Authorization") != fmt.Sprint(sent) || r.Header.Get("Content-Type") != "a/b" {
				t.Errorf("%s: got %q with %v", name, text, r.Header)
			}
			if sent <= len(test.refusals) {
				w.WriteHeader(test.refusals[sent-1])
			}
		})
		for path, given := range paths(t, server) {
			sent = 0
			g := test.stubAuthorizer
			g.t = t
			c := httpclient.New(where, given, nil, &g)
			var progress httpclient.Progress
			res, err := c.Post(t.Context(), parsed(t, where), http.Header{"Content-Type": {"a/b"}}, []byte("text"), &progress)
			status := 0
			if err == nil {
				status = res.StatusCode
				res.Body.Close()
			}
			if status != test.status || !errors.Is(err, test.err) || test.err != nil && (!isNotReached(err) || progress.Delivery() != test.delivery) {
				t.Errorf("%s, %s: got %d, %v (%v)", name, path, status, err, progress.Delivery())
			}
			if diff := cmp.Diff(test.challenged, g.challenged); diff != "" || g.authorized != max(test.sent, 1) {
				t.Errorf("%s, %s: %d times, %s", name, path, g.authorized, diff)
			}
		}
	}
}

// The delivery and the class of each status.
func TestStatus(t *testing.T) {
	for _, test := range []struct {
		status     int
		retryAfter string
		delivery   jsonrpc.Delivery
		notReached bool
		access     bool
	}{
		{201, "", jsonrpc.Rejected, false, false},
		{304, "", jsonrpc.Rejected, false, false},
		{400, "", jsonrpc.Rejected, false, false},
		{401, "", jsonrpc.Rejected, true, true},
		{403, "", jsonrpc.Rejected, true, true},
		{404, "", jsonrpc.Rejected, false, false},
		{413, "", jsonrpc.Rejected, false, false},
		{429, "7", jsonrpc.Rejected, true, true},
		{500, "", jsonrpc.MaybeExecuted, true, false},
		{500, "7", jsonrpc.MaybeExecuted, true, false},
		{502, "", jsonrpc.MaybeExecuted, true, false},
		{503, "", jsonrpc.MaybeExecuted, true, false},
		{503, "7", jsonrpc.Rejected, true, false},
		{504, "", jsonrpc.MaybeExecuted, true, false},
	} {
		t.Run(fmt.Sprint(test.status, test.retryAfter), func(t *testing.T) {
			res := answer(test.status, "")
			if test.retryAfter != "" {
				res.Header.Set("Retry-After", test.retryAfter)
			}
			err := httpclient.ReadStatusError(res)
			if got := httpclient.DeliveryOf(err); got != test.delivery {
				t.Errorf("delivery: %v", got)
			}
			if isNotReached(err) != test.notReached || httpclient.IsAccess(test.status) != test.access {
				t.Errorf("not reached: %t, access: %t", isNotReached(err), httpclient.IsAccess(test.status))
			}
		})
	}
}

// An error contains the retry headers and the beginning of the body.
func TestStatusErrorExcerpt(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for name, read := range map[string]func(res *http.Response) *httptransport.StatusError{
		"body read": func(res *http.Response) *httptransport.StatusError {
			return httpclient.NewStatusError(res, []byte(long))
		},
		"body not read": httpclient.ReadStatusError,
	} {
		res := answer(401, long)
		res.Header = http.Header{"Www-Authenticate": {"Bearer a", "Basic b"}, "Retry-After": {"7"}, "Set-Cookie": {"no"}}
		want := &httptransport.StatusError{
			Method: http.MethodPost, Status: 401, Body: strings.Repeat("é", 128),
			Header: http.Header{"Www-Authenticate": {"Bearer a", "Basic b"}, "Retry-After": {"7"}},
		}
		if diff := cmp.Diff(want, read(res)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	cut := httpclient.ReadStatusError(answer(500, "x"+long))
	if want := "x" + strings.Repeat("é", 127); cut.Body != want {
		t.Errorf("the excerpt is %q", cut.Body)
	}
}

func TestStatusErrorText(t *testing.T) {
	for want, res := range map[string]*http.Response{
		"POST was answered with status 404 Not Found":                    answer(404, ""),
		`POST was answered with status 500 Internal Server Error: "a\n"`: answer(500, "a\n"),
		"POST was answered with status 599":                              answer(599, ""),
	} {
		if got := httpclient.ReadStatusError(res).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// answer is the response to a POST.
func answer(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		Request: &http.Request{Method: http.MethodPost},
	}
}

const (
	loops     = "3 redirects came before it"
	elsewhere = "it leads to another origin"
	becomes   = "it turns a POST into a GET"
)

// A redirect is followed if method and origin stay the same, without additional requests.
func TestRedirects(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		to     string
		times  int    // that the server redirects
		reason string // "" if it is followed
	}{
		"temporary":         {307, "/there", 1, ""},
		"permanent":         {308, "/there", 1, ""},
		"absolute":          {308, "http://script.test/there", 1, ""},
		"port spelled out":  {307, "http://script.test:80/there", 1, ""},
		"three":             {307, "/there", 3, ""},
		"four":              {307, "/there", 4, loops},
		"loop":              {308, "/there", 1 << 30, loops},
		"moved":             {301, "/there", 1, becomes},
		"found":             {302, "/there", 1, becomes},
		"see other":         {303, "/there", 1, becomes},
		"other host":        {307, "http://evil.test/mcp?key=secret", 1, elsewhere},
		"subdomain":         {307, "http://a.script.test/mcp", 1, elsewhere},
		"other port":        {307, "http://script.test:8080/mcp", 1, elsewhere},
		"other scheme":      {307, "https://script.test/mcp", 1, elsewhere},
		"scheme, same port": {307, "https://script.test:80/mcp", 1, elsewhere},
		"user and host":     {307, "http://script.test:secret@evil.test/mcp", 1, elsewhere},
		"no scheme":         {307, "//evil.test/mcp", 1, elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var requests []string
			server := script(t, func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				requests = append(requests, fmt.Sprintf("%s %s %s %s", r.Method, text, r.Header["Authorization"], r.Header["Content-Type"]))
				if len(requests) <= test.times {
					w.Header().Set("Location", test.to+strings.Repeat("/there", len(requests)-1))
					w.WriteHeader(test.status)
					return
				}
				w.WriteHeader(http.StatusAccepted)
			})
			for path, client := range paths(t, server) {
				status, delivery, err := post(t, newClient(client, bearer), where, "hello")
				mu.Lock()
				asked := len(requests)
				for _, r := range requests {
					if r != "POST hello [Bearer secret] [application/json]" {
						t.Errorf("%s: the request was %s", path, r)
					}
				}
				requests = nil
				mu.Unlock()
				if test.reason == "" {
					if err != nil || status != http.StatusAccepted || asked != test.times+1 {
						t.Errorf("%s: got %d, %v, after %d requests", path, status, err, asked)
					}
					continue
				}
				refused, ok := err.(*httptransport.RedirectError)
				if !ok || refused.Reason != test.reason || delivery != jsonrpc.Rejected || isNotReached(err) {
					t.Errorf("%s: got %v (%v)", path, err, delivery)
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: %v tells a secret", path, err)
				}
				if asked != min(test.times, 4) {
					t.Errorf("%s: there were %d requests", path, asked)
				}
			}
		})
	}
}

// A GET may be redirected by any status.
func TestRedirectsOfGET(t *testing.T) {
	server := script(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	})
	for path, client := range paths(t, server) {
		res, err := newClient(client, nil).Do(t.Context(), http.MethodGet, parsed(t, where), http.Header{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		res.Body.Close()
		if got := res.Request.URL.Path; got != "/there" {
			t.Errorf("%s: it went to %s", path, got)
		}
	}
}

// A redirect without a location is an ordinary response.
func TestRedirectToNowhere(t *testing.T) {
	server := script(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	for path, client := range paths(t, server) {
		if status, _, err := post(t, newClient(client, nil), where, ""); status != http.StatusNotModified {
			t.Errorf("%s: got %d, %v", path, status, err)
		}
	}
}

// CheckRedirect of the program is not called.
func TestRedirectRuleIsReplaced(t *testing.T) {
	server := script(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://evil.test/", http.StatusTemporaryRedirect)
	})
	asked := false
	given := &http.Client{Transport: toward(t, server), CheckRedirect: func(*http.Request, []*http.Request) error {
		asked = true
		return nil
	}}
	_, _, err := post(t, newClient(given, nil), where, "")
	if _, ok := errors.AsType[*httptransport.RedirectError](err); !ok || asked {
		t.Errorf("got %v", err)
	}
	if _ = given.CheckRedirect(nil, nil); !asked {
		t.Error("the program's client was changed")
	}
}

// endless is an endless body that counts what was read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// until is a body that arrives when its context has ended.
type until struct{ context.Context }

func (u until) Read([]byte) (int, error) {
	<-u.Done()
	return 0, u.Err()
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		short := strings.NewReader("short")
		httpclient.Drain(short, cancel)
		httpclient.Drain(http.NoBody, cancel)
		long := new(endless)
		httpclient.Drain(long, cancel)
		if short.Len() > 0 || long.read != 64<<10 {
			t.Errorf("%d bytes of the short body are left, %d of the long one were read", short.Len(), long.read)
		}
		<-time.After(time.Hour)
		if ctx.Err() != nil {
			t.Error("what was read in time was cancelled")
		}
		began := time.Now()
		httpclient.Drain(io.Reader(until{ctx}), cancel)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
