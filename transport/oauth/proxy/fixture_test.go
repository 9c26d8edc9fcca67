package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// An identityProvider records its requests. Tests can replace its handlers.
type identityProvider struct {
	url string
	as  *oauthtest.Server

	mu           sync.Mutex
	editMetadata func(metadata map[string]any)
	handlers     map[string]http.HandlerFunc // replaced handlers, by path
	requests     []string                    // "METHOD path?form", in order
}

func newIdentityProvider(t testing.TB, opts *oauthtest.Options) *identityProvider {
	i := &identityProvider{handlers: make(map[string]http.HandlerFunc)}
	web := httptest.NewServer(i)
	t.Cleanup(web.Close)
	i.url = web.URL
	var err error
	if i.as, err = oauthtest.New(web.URL, opts); err != nil {
		t.Fatal(err)
	}
	return i
}

// replace sets another handler for a path.
func (i *identityProvider) replace(path string, by http.HandlerFunc) { i.handlers[path] = by }

func (i *identityProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	i.mu.Lock()
	i.requests = append(i.requests, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery+string(body))
	other := i.handlers[r.URL.Path]
	i.mu.Unlock()
	if other != nil {
		other(w, r)
		return
	}
	if r.URL.Path != "/.well-known/oauth-authorization-server" || i.editMetadata == nil {
		i.as.ServeHTTP(w, r)
		return
	}
	recorded := httptest.NewRecorder()
	i.as.ServeHTTP(recorded, r)
	var metadata map[string]any
	_ = json.Unmarshal(recorded.Body.Bytes(), &metadata)
	i.editMetadata(metadata)
	writeJSON(w, metadata)
}

// forms returns the parameters of the requests for a path.
func (i *identityProvider) forms(path string) []url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []url.Values
	for _, request := range i.requests {
		if _, text, ok := strings.Cut(request, " "+path+"?"); ok {
			form, _ := url.ParseQuery(text)
			all = append(all, form)
		}
	}
	return all
}

// count counts the requests for a path.
func (i *identityProvider) count(path string) int { return len(i.forms(path)) }

func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// refuseWith answers with an error of OAuth.
func refuseWith(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		writeJSON(w, map[string]string{"error": code})
	}
}

// newClient returns a client for a person whose browser is open.
func newClient(t testing.TB, clock func() time.Time, timeout time.Duration, open func(context.Context, string) error) *oauth.Client {
	t.Helper()
	client, err := oauth.NewClient(&oauth.ClientOptions{
		AllowLoopback: true, Flow: &oauth.CodeFlow{Open: open, Timeout: timeout}, Clock: clock, Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// request sends a request to a protected endpoint with the client's authorization.
func request(t testing.TB, client *oauth.Client, at string) {
	t.Helper()
	server, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req := &http.Request{Method: http.MethodPost, URL: server, Header: http.Header{}, Body: http.NoBody}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := httpclient.Authorize(ctx, client, server, req.WithContext(ctx), transport.RoundTrip)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Fatalf("got %d", res.StatusCode)
	}
}

func bodyOf(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func isInvalidToken(err error) bool {
	_, ok := errors.AsType[*oauth.InvalidTokenError](err)
	return ok
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

const canary = "tweet-7f3a9c"

// printed formats a value in the ways in which it could become visible.
func printed(t *testing.T, value any) string {
	t.Helper()
	var b bytes.Buffer
	text, err := json.Marshal(value)
	fmt.Fprintf(&b, "%v\n%+v\n%#v\n%10.3v\n%s %v\n", value, value, value, value, text, err)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(handler).Info("x", "value", value)
	}
	return b.String()
}

func newSharedStore(t testing.TB) store.Store {
	t.Helper()
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return memory
}
