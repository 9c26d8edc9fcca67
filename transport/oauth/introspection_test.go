package oauth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// introspectionServer is an introspection endpoint whose response tests set.
type introspectionServer struct {
	asked   atomic.Int64
	arrived chan struct{} // nil if hold is nil
	hold    chan struct{} // nil: responds immediately

	mu   sync.Mutex
	says string
	last *http.Request
}

func (a *introspectionServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	if a.hold != nil {
		a.arrived <- struct{}{}
		<-a.hold
	}
	_ = r.ParseForm()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = r
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(a.says))
}

func (a *introspectionServer) say(claims claimSet) {
	text, _ := json.Marshal(claims)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.says = string(text)
}

func introspection(t *testing.T, endpoint http.Handler, change func(*oauth.IntrospectionOptions)) oauth.Verifier {
	t.Helper()
	opts := &oauth.IntrospectionOptions{
		Issuer: testIssuer, Endpoint: serve(t, endpoint).URL + "/introspect", AllowLoopback: true,
		Client: oauth.Registration{ClientID: "shop server", Secret: "pass:word/ä"},
	}
	if change != nil {
		change(opts)
	}
	v, err := oauth.NewIntrospection(opts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// activeClaims returns the response about a valid token, with changes.
func activeClaims(others claimSet) claimSet {
	all := validClaims(others)
	if _, there := all["active"]; !there {
		all["active"] = true
	}
	return all
}

func TestIntrospection(t *testing.T) {
	a := &introspectionServer{}
	v := introspection(t, a, nil)
	a.say(activeClaims(claimSet{"scope": "mcp orders:write", "cnf": claimSet{"jkt": "abc"}}))
	grant := wantValid(t, "good", v, "opaque-token")
	want := &oauth.Grant{
		Issuer: testIssuer, Subject: "ada", ClientID: "app", Scopes: []string{"mcp", "orders:write"}, Confirmation: "abc",
		Expires: grant.Expires, Claims: grant.Claims,
	}
	if diff := cmp.Diff(want, grant); diff != "" || grant.Expires.IsZero() {
		t.Errorf("(-want +got):\n%s", diff)
	}
	user, password, _ := a.last.BasicAuth()
	if user != "shop+server" || password != url.QueryEscape("pass:word/ä") {
		t.Errorf("the client is %q with %q", user, password)
	}
	if diff := cmp.Diff(url.Values{"token": {"opaque-token"}, "token_type_hint": {"access_token"}}, a.last.PostForm); diff != "" || a.last.Method != http.MethodPost || a.last.URL.RawQuery != "" {
		t.Errorf("%s %s (-want +got):\n%s", a.last.Method, a.last.URL, diff)
	}
}

func TestIntrospectionRefuses(t *testing.T) {
	a := &introspectionServer{}
	v := introspection(t, a, nil)
	now := time.Now().Unix()
	for name, claims := range map[string]claimSet{
		"not active":       {"active": false},
		"another issuer":   activeClaims(claimSet{"iss": "https://other.example.com"}),
		"another audience": activeClaims(claimSet{"aud": "https://mcp.example.com/other"}),
		"no audience":      activeClaims(claimSet{"aud": nil}),
		"expired":          activeClaims(claimSet{"exp": now - 60}),
		"not yet":          activeClaims(claimSet{"nbf": now + 60}),
		"nobody":           activeClaims(claimSet{"sub": nil, "client_id": nil}),
		"bound otherwise":  activeClaims(claimSet{"cnf": claimSet{"x5t#S256": "x"}}),
	} {
		a.say(claims)
		before := a.asked.Load()
		wantInvalid(t, name, v, "token of "+name)
		wantInvalid(t, name, v, "token of "+name)
		if got := a.asked.Load() - before; got != 1 {
			t.Errorf("%s: %d questions", name, got)
		}
	}
	for name, claims := range map[string]claimSet{
		"without an issuer": activeClaims(claimSet{"iss": nil}),
		"without an end":    activeClaims(claimSet{"exp": nil}),
		"a client's":        activeClaims(claimSet{"sub": nil}),
	} {
		a.say(claims)
		grant := wantValid(t, name, v, "token "+name)
		if grant != nil && (grant.Issuer != testIssuer || grant.Principal() == "") {
			t.Errorf("%s: %+v", name, grant)
		}
	}
}

// A malformed response refuses the request, and does not call the token invalid.
func TestIntrospectionFails(t *testing.T) {
	good, _ := json.Marshal(activeClaims(nil))
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    any
	}{
		"status 401":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, nil},
		"status 500":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, nil},
		"status 201":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated); _, _ = w.Write(good) }, nil},
		"no JSON":            {respondJSON("yes"), nil},
		"a list":             {respondJSON("[" + string(good) + "]"), nil},
		"nothing":            {respondJSON(""), nil},
		"an empty object":    {respondJSON("{}"), nil},
		"active in text":     {respondJSON(strings.Replace(string(good), "true", `"true"`, 1)), nil},
		"active in capitals": {respondJSON(strings.Replace(string(good), "active", "ACTIVE", 1)), nil},
		"active twice":       {respondJSON(strings.Replace(string(good), "{", `{"active":false,`, 1)), nil},
		"too long":           {respondJSON(string(good) + strings.Repeat(" ", 64<<10)), nil},
		"much too long":      {respondJSON(string(good) + strings.Repeat(" ", 2<<20)), nil},
		"a redirect":         {redirectTo("/elsewhere"), new(*oauth.URLError)},
		"a redirect inside":  {redirectTo("http://10.0.0.1/"), new(*oauth.URLError)},
		"hanging up":         {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil},
	} {
		v := introspection(t, test.handler, nil)
		grant, err := v.Verify(t.Context(), "secret-token", testResource)
		if _, invalid := errors.AsType[*oauth.InvalidTokenError](err); err == nil || invalid || grant != nil {
			t.Errorf("%s: %+v, %v", name, grant, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret-token") {
			t.Errorf("%s: the error repeats the token: %v", name, err)
		}
		if test.want != nil && !errors.As(err, test.want) {
			t.Errorf("%s: the error is a %T: %v", name, err, err)
		}
	}
	v := introspection(t, &introspectionServer{}, nil)
	wantInvalid(t, "a huge token", v, strings.Repeat("a", 8<<10+1))
}

// Responses are cached per token and audience, for a limited time.
func TestIntrospectionIsKept(t *testing.T) {
	a := &introspectionServer{}
	kept, never := introspection(t, a, nil), introspection(t, a, func(o *oauth.IntrospectionOptions) { o.CacheTime = -1 })
	ask := func(v oauth.Verifier, token oauth.Secret, audience string, want int64) {
		t.Helper()
		before := a.asked.Load()
		if _, err := v.Verify(t.Context(), token, audience); err != nil {
			t.Error(err)
		}
		if got := a.asked.Load() - before; got != want {
			t.Errorf("%d questions, want %d", got, want)
		}
	}
	a.say(activeClaims(claimSet{"aud": []string{testResource, "other"}}))
	ask(kept, "one", testResource, 1)
	ask(kept, "one", testResource, 0)
	ask(kept, "two", testResource, 1)
	ask(kept, "one", "other", 1)
	ask(kept, "one", testResource, 0)
	ask(never, "one", testResource, 1)
	ask(never, "one", testResource, 1)
	a.say(activeClaims(claimSet{"exp": time.Now().Unix() - 1})) // within the skew, but not cached
	ask(kept, "three", testResource, 1)
	ask(kept, "three", testResource, 1)
}

// Responses about invalid tokens are cached for five seconds, unless the cache is
// disabled.
func TestIntrospectionForgetsRefusals(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	a := &introspectionServer{}
	kept, never := introspection(t, a, nil), introspection(t, a, func(o *oauth.IntrospectionOptions) { o.CacheTime = -1 })
	a.say(claimSet{"active": false})
	wantInvalid(t, "unknown", kept, "late")
	wantInvalid(t, "unknown", never, "late")
	a.say(activeClaims(nil))
	wantValid(t, "known by now", never, "late")
	wantInvalid(t, "unknown a moment ago", kept, "late")
	<-time.After(5 * time.Second)
	wantValid(t, "known by now", kept, "late")
}

// When many queries run, a request waits until it can run its own or its client leaves.
// Others with the same token are not affected.
func TestIntrospectionWaitsForATurn(t *testing.T) {
	a := &introspectionServer{hold: make(chan struct{}), arrived: make(chan struct{}, 100)}
	a.say(activeClaims(nil))
	v := introspection(t, a, nil)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { wantValid(t, "one of many", v, rand.Text()) })
	}
	for range 64 {
		waittest.Receive(t, "the request at the server", a.arrived)
	}
	ctx, gone := context.WithCancelCause(t.Context())
	reason := errors.New("gone")
	waiting := make(chan error, 1)
	go func() {
		_, err := v.Verify(ctx, "good", testResource)
		waiting <- err
	}()
	all.Go(func() { wantValid(t, "the same token", v, "good") })
	for oauth.Querying(v) != 66 {
		runtime.Gosched()
	}
	gone(reason)
	if err := waittest.Receive(t, "the end of the waiting call call", waiting); !errors.Is(err, reason) {
		t.Errorf("who has gone gets %v", err)
	}
	close(a.hold)
	all.Wait()
}

// Requests with one token share a query, which continues when one of them ends. The
// number of queries is bounded.
func TestIntrospectionIsShared(t *testing.T) {
	a := &introspectionServer{hold: make(chan struct{}), arrived: make(chan struct{}, 100)}
	a.say(activeClaims(nil))
	v := introspection(t, a, nil)
	first, gone := context.WithCancel(t.Context())
	defer gone()
	var all sync.WaitGroup
	for i := range 50 {
		ctx := t.Context()
		if i == 0 {
			ctx = first
		}
		all.Go(func() {
			if _, err := v.Verify(ctx, "one", testResource); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	waittest.Receive(t, "the request at the server", a.arrived)
	var refused atomic.Int64
	for range 80 {
		all.Go(func() {
			if _, err := v.Verify(t.Context(), oauth.Secret(rand.Text()), testResource); err != nil {
				if refused.Add(1) == 17 { // 64 queries run
					gone()
					close(a.hold)
				}
			}
		})
	}
	all.Wait()
	if refused.Load() != 17 {
		t.Errorf("%d requests were refused", refused.Load())
	}
	if got := a.asked.Load(); got != 64 {
		t.Errorf("%d questions", got)
	}
}

func TestIntrospectionMethods(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &introspectionServer{}
	a.say(activeClaims(nil))
	for name, test := range map[string]struct {
		client oauth.Registration
		form   []string
		header bool
	}{
		"basic":    {oauth.Registration{ClientID: "s", Secret: "x"}, nil, true},
		"post":     {oauth.Registration{ClientID: "s", Secret: "x", Method: "client_secret_post"}, []string{"client_id", "client_secret"}, false},
		"none":     {oauth.Registration{ClientID: "s", Method: "none"}, []string{"client_id"}, false},
		"with key": {oauth.Registration{ClientID: "s", Key: key}, []string{"client_assertion", "client_assertion_type"}, false},
	} {
		v := introspection(t, a, func(o *oauth.IntrospectionOptions) { o.Client = test.client })
		wantValid(t, name, v, rand.Text())
		if _, _, header := a.last.BasicAuth(); header != test.header || len(a.last.PostForm) != 2+len(test.form) {
			t.Errorf("%s: header %t, form %v", name, header, a.last.PostForm)
		}
		for _, field := range test.form {
			if a.last.PostForm.Get(field) == "" {
				t.Errorf("%s: there is no %s", name, field)
			}
		}
	}
}

func TestIntrospectionOptions(t *testing.T) {
	for name, change := range map[string]func(*oauth.IntrospectionOptions){
		"no issuer":        func(o *oauth.IntrospectionOptions) { o.Issuer = "" },
		"no endpoint":      func(o *oauth.IntrospectionOptions) { o.Endpoint = "" },
		"http":             func(o *oauth.IntrospectionOptions) { o.Endpoint = "http://login.example.com/x" },
		"on this machine":  func(o *oauth.IntrospectionOptions) { o.Endpoint = "https://localhost/x" },
		"inside":           func(o *oauth.IntrospectionOptions) { o.Endpoint = "https://10.0.0.1/x" },
		"no client":        func(o *oauth.IntrospectionOptions) { o.Client = oauth.Registration{} },
		"no secret":        func(o *oauth.IntrospectionOptions) { o.Client.Secret = "" },
		"another's client": func(o *oauth.IntrospectionOptions) { o.Client.Issuer = "https://other.example.com" },
		"a long memory":    func(o *oauth.IntrospectionOptions) { o.CacheTime = time.Hour },
		"a long skew":      func(o *oauth.IntrospectionOptions) { o.Skew = time.Hour },
		"a method":         func(o *oauth.IntrospectionOptions) { o.Client.Method = "x" },
	} {
		opts := &oauth.IntrospectionOptions{Issuer: testIssuer, Endpoint: "https://login.example.com/introspect", Client: oauth.Registration{ClientID: "s", Secret: "canary-secret"}}
		change(opts)
		if _, err := oauth.NewIntrospection(opts); err == nil || !strings.HasPrefix(err.Error(), "oauth.NewIntrospection: ") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := oauth.NewIntrospection(nil); err == nil {
		t.Error("nil options are taken")
	}
	longest := &oauth.IntrospectionOptions{
		Issuer: testIssuer, Endpoint: "https://login.example.com/introspect", Client: oauth.Registration{ClientID: "s", Secret: "canary-secret"},
		Skew: 5 * time.Minute,
	}
	if _, err := oauth.NewIntrospection(longest); err != nil {
		t.Errorf("the longest skew: %v", err)
	}
}

// A query continues although its first client has left, because others may wait for it.
func TestIntrospectionOutlastsItsClient(t *testing.T) {
	a := &introspectionServer{hold: make(chan struct{}), arrived: make(chan struct{}, 1)}
	a.say(activeClaims(nil))
	v := introspection(t, a, nil)
	ctx, gone := context.WithCancel(t.Context())
	ask := func(ctx context.Context) <-chan error {
		results := make(chan error, 1)
		go func() {
			_, err := v.Verify(ctx, "one", testResource)
			results <- err
		}()
		return results
	}
	first := ask(ctx)
	waittest.Receive(t, "the request at the server", a.arrived)
	other := ask(t.Context())
	for oauth.Querying(v) != 2 {
		runtime.Gosched()
	}
	gone()
	if err := waittest.Receive(t, "the end of the first call", first); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone gets %v", err)
	}
	select {
	case err := <-other:
		t.Errorf("it ends with its client: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(a.hold)
	if err := waittest.Receive(t, "the end of the other call", other); err != nil || a.asked.Load() != 1 {
		t.Errorf("%v, after %d questions", err, a.asked.Load())
	}
}
