package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	receiving "github.com/dovetail-go/dovetail/client/webhook"
	shared "github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

func TestInvalidRequests(t *testing.T) {
	d := newDeliverer(t, &endpoint{}, webhook.Options{Store: newMemory(t)})
	for _, test := range []struct {
		name   string
		change func(*delivery.Request)
		field  string
	}{
		{"http", func(r *delivery.Request) { r.URL = "http://proxy.example.com/" }, "delivery.url"},
		{"no host", func(r *delivery.Request) { r.URL = "https:///path" }, "delivery.url"},
		{"no URL", func(r *delivery.Request) { r.URL = "" }, "delivery.url"},
		{"loopback", func(r *delivery.Request) { r.URL = "https://localhost/" }, "delivery.url"},
		{"private address", func(r *delivery.Request) { r.URL = "https://10.0.0.1/" }, "delivery.url"},
		{"metadata address", func(r *delivery.Request) { r.URL = "https://169.254.169.254/" }, "delivery.url"},
		{"user", func(r *delivery.Request) { r.URL = "https://user@proxy.example.com/" }, "delivery.url"},
		{"long URL", func(r *delivery.Request) { r.URL = "https://proxy.example.com/" + strings.Repeat("x", 3000) }, "delivery.url"},
		{"secret", func(r *delivery.Request) { r.Secret = "secret" }, "delivery.secret"},
		{"short secret", func(r *delivery.Request) { r.Secret = "whsec_MTIzNA==" }, "delivery.secret"},
		{"principal", func(r *delivery.Request) { r.Principal = "" }, "principal"},
		{"arguments", func(r *delivery.Request) {
			r.Arguments = json.RawMessage(`"` + strings.Repeat("x", 70000) + `"`)
		}, "arguments"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request("alice", callback)
			test.change(&r)
			_, err := d.Subscribe(t.Context(), r)
			refused, ok := errors.AsType[*delivery.RequestError](err)
			if !ok || refused.Field != test.field {
				t.Errorf("the error is %v, want one about %s", err, test.field)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeliverer(t, &endpoint{}, webhook.Options{Store: newMemory(t), MaxPerPrincipal: 2, MaxSubscriptions: 3})
		ask := func(principal string, n int) error {
			r := request(principal, callback)
			r.Arguments = fmt.Appendf(nil, `{"n":%d}`, n)
			_, err := d.Subscribe(t.Context(), r)
			return err
		}
		for _, test := range []struct {
			principal string
			n, max    int
		}{{"alice", 1, 0}, {"alice", 2, 0}, {"alice", 3, 2}, {"alice", 2, 0}, {"bob", 1, 0}, {"bob", 2, 3}} {
			err := ask(test.principal, test.n)
			limit, ok := errors.AsType[*delivery.LimitError](err)
			if ok != (test.max != 0) || ok && (limit.Max != test.max || limit.Limit != "subscriptions") || !ok && err != nil {
				t.Errorf("%s, %d: %v", test.principal, test.n, err)
			}
		}
		sleep(2 * time.Hour) // until all have expired
		for n := range 2 {
			if err := ask("alice", n); err != nil {
				t.Errorf("after the others have expired: %v", err)
			}
		}
	})
}

func TestVerification(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer string // %s is the challenge
		status int
		reason delivery.Reason
	}{
		{"answered", `{"challenge":%q}`, 200, ""},
		{"with another status", `{"challenge":%q}`, 201, ""},
		{"ignored", `ok`, 200, delivery.ChallengeFailed},
		{"another text", `{"challenge":"x%s"}`, 200, delivery.ChallengeFailed},
		{"no text", `{"challenge":""}`, 200, delivery.ChallengeFailed},
		{"not found", `{"challenge":%q}`, 404, delivery.ChallengeFailed},
		{"failed", `{"challenge":%q}`, 500, delivery.ChallengeFailed},
		{"redirected", `{"challenge":%q}`, 302, delivery.ChallengeFailed},
		{"too long", strings.Repeat(" ", 5000) + `{"challenge":%q}`, 200, delivery.ChallengeFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got http.Header
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r.Header
				var control shared.Control
				if err := json.NewDecoder(r.Body).Decode(&control); err != nil || control.Type != "verification" {
					t.Errorf("the first body is %+v, %v", control, err)
				}
				w.WriteHeader(test.status)
				text := test.answer
				if strings.Contains(text, "%") {
					text = fmt.Sprintf(text, control.Challenge)
				}
				_, _ = io.WriteString(w, text)
			})
			d := newDeliverer(t, roundTripper{handler}, webhook.Options{Store: newMemory(t)})
			grant, err := d.Subscribe(t.Context(), request("alice", callback))
			refused, ok := errors.AsType[*delivery.EndpointError](err)
			if ok != (test.reason != "") || ok && refused.Reason != test.reason || !ok && err != nil {
				t.Errorf("Subscribe returns %v, want %q", err, test.reason)
			}
			if err == nil && got.Get(shared.SubscriptionHeader) != grant.ID {
				t.Errorf("the challenge is for %q", got.Get(shared.SubscriptionHeader))
			}
			if !strings.HasPrefix(got.Get("Webhook-Id"), "msg_verification_") {
				t.Errorf("the id is %q", got.Get("Webhook-Id"))
			}
		})
	}
}

type roundTripper struct{ http.Handler }

func (h roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Result(), nil
}

// A URL is verified for each principal once, and not for each subscription.
func TestVerificationIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{}
		d := newDeliverer(t, e, webhook.Options{Store: newMemory(t), Verified: func(_ context.Context, _, url string) bool {
			return strings.HasPrefix(url, "https://listed.example.com/")
		}})
		want := func(n int, principal, url, arguments string) {
			t.Helper()
			r := request(principal, url)
			r.Arguments = json.RawMessage(arguments)
			subscribe(t, d, r)
			if e.challenges != n {
				t.Errorf("after %s, %s, %s: %d challenges, want %d", principal, url, arguments, e.challenges, n)
			}
		}
		want(1, "alice", callback, `{}`)
		want(1, "alice", callback, `{"a":1}`)
		want(2, "bob", callback, `{}`)
		want(3, "bob", callback+"0", `{}`)
		want(3, "bob", "https://listed.example.com/x", `{}`)
		for range 100 { // it lasts as long as the subscription is refreshed
			sleep(50 * time.Minute)
			want(3, "alice", callback, `{}`)
		}
		sleep(25 * time.Hour)
		want(4, "alice", callback, `{}`)
	})
}

// A host gets at most 30 verifications in a minute, and one principal causes at most half of them, so that another one can
// subscribe with the same host.
func TestVerificationsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeliverer(t, roundTripper{http.NotFoundHandler()}, webhook.Options{Store: newMemory(t)})
		for _, test := range []struct {
			principal     string
			count, passed int
		}{{"alice", 40, 15}, {"bob", 10, 10}, {"alice", 1, 0}, {"carol", 10, 5}} {
			passed := 0
			for i := range test.count {
				_, err := d.Subscribe(t.Context(), request(test.principal, fmt.Sprintf("https://victim.example.com/%d", i)))
				if limit, ok := errors.AsType[*delivery.LimitError](err); !ok || limit.Limit != "verifications" {
					passed++
				}
			}
			if passed != test.passed {
				t.Errorf("%d of %d verifications for %s were made, want %d", passed, test.count, test.principal, test.passed)
			}
		}
	})
}

// One principal cannot use up the hosts that are verified in a minute.
func TestVerificationsOfAPrincipalAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeliverer(t, roundTripper{http.NotFoundHandler()}, webhook.Options{Store: newMemory(t)})
		isLimited := func(principal string, n int) bool {
			_, err := d.Subscribe(t.Context(), request(principal, fmt.Sprintf("https://%d.example.com/", n)))
			limit, ok := errors.AsType[*delivery.LimitError](err)
			return ok && limit.Limit == "verifications" && limit.Max == 100
		}
		limited := 0
		for i := range 1100 {
			if isLimited("alice", i) {
				limited++
			}
		}
		if limited != 1000 {
			t.Errorf("%d of 1100 verifications were refused, want 1000", limited)
		}
		if isLimited("bob", 2000) {
			t.Error("a verification of another principal was refused")
		}
		sleep(time.Minute)
		if isLimited("alice", 2000) {
			t.Error("a verification was refused a minute later")
		}
	})
}

func TestInvalidOptions(t *testing.T) {
	memory := newMemory(t)
	for name, opts := range map[string]webhook.Options{
		"store without keys":   {Store: memory},
		"short key":            {Store: memory, Keys: [][]byte{[]byte("short")}},
		"forever in memory":    {Forever: true},
		"negative":             {Attempts: -1},
		"long timeout":         {Timeout: time.Minute},
		"rare sweep":           {Sweep: time.Hour},
		"default above max":    {DefaultTTL: 2 * time.Hour, MaxTTL: time.Hour},
		"default below min":    {DefaultTTL: time.Minute, MinTTL: time.Hour},
		"negative max of TTLs": {MaxTTL: -time.Hour},
	} {
		if _, err := webhook.New(&opts); err == nil {
			t.Errorf("%s: there is no error", name)
		}
	}
}

// tlsServer serves on this machine with a certificate that the options trust.
func tlsServer(t testing.TB, handler http.Handler) (base string, opts webhook.Options) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.URL, webhook.Options{AllowLoopback: true, TLS: &tls.Config{RootCAs: roots}}
}

// Both ends over TLS.
func TestReceiver(t *testing.T) {
	receiver, err := receiving.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	base, opts := tlsServer(t, receiver)
	opts.Store = newMemory(t)
	d, f := newDeliverer(t, nil, opts), &feed{}
	run(t, d, f.read)

	got := make(chan receiving.Delivery, 10)
	fails := true
	registration, err := receiver.Register(func(_ context.Context, d receiving.Delivery) error {
		if fails {
			fails = false
			return errors.New("the disk is full")
		}
		got <- d
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer registration.Close()
	fails = false
	r := request("alice", base+"/hooks")
	r.Secret = registration.Secret()
	grant := subscribe(t, d, r)
	if err := registration.Bind(grant.ID); err != nil {
		t.Fatal(err)
	}
	f.add(2)
	wake(t, d)
	for i := range 2 {
		delivered := <-got
		if delivered.ID != fmt.Sprint("evt_", i+1) || delivered.Type != receiving.Event || delivered.Subscription != grant.ID || *delivered.Cursor != fmt.Sprint(i+1) {
			t.Errorf("delivery %d is %+v", i, delivered)
		}
	}
	r.Secret = registration.Rotate()
	subscribe(t, d, r)
	f.add(1)
	wake(t, d)
	if delivered := <-got; delivered.ID != "evt_3" {
		t.Errorf("after the rotation: %+v", delivered)
	}
	if err := d.Terminate(t.Context(), grant.ID, json.RawMessage(`{"code":-32024,"message":"Forbidden"}`)); err != nil {
		t.Fatal(err)
	}
	if delivered := <-got; delivered.Type != receiving.Terminated || delivered.Error.Code != -32024 {
		t.Errorf("at the end: %+v", delivered)
	}
}

func TestUnreachableEndpoints(t *testing.T) {
	handler := http.NewServeMux()
	release := make(chan struct{})
	handler.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) { <-release })
	handler.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	handler.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/target", http.StatusTemporaryRedirect)
	})
	var followed atomic.Bool
	handler.HandleFunc("/target", func(http.ResponseWriter, *http.Request) { followed.Store(true) })
	base, opts := tlsServer(t, handler)
	t.Cleanup(func() { close(release) })
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, test := range []struct {
		name, url string
		change    func(*webhook.Options)
		reason    delivery.Reason
	}{
		{"slow", base + "/slow", func(o *webhook.Options) { o.Timeout = 50 * time.Millisecond }, delivery.Timeout},
		{"endless", base + "/endless", func(o *webhook.Options) { o.Timeout = 50 * time.Millisecond }, delivery.Timeout},
		{"unknown certificate", base + "/", func(o *webhook.Options) { o.TLS = nil }, delivery.TLSError},
		{"no TLS", strings.Replace(plainServer(t), "http:", "https:", 1), nil, delivery.TLSError},
		{"closed", closed.URL, nil, delivery.ConnectionRefused},
		{"redirect", base + "/redirect", nil, delivery.ChallengeFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := opts
			opts.Store = newMemory(t)
			if test.change != nil {
				test.change(&opts)
			}
			d := newDeliverer(t, nil, opts)
			_, err := d.Subscribe(t.Context(), request("alice", test.url))
			if refused, ok := errors.AsType[*delivery.EndpointError](err); !ok || refused.Reason != test.reason {
				t.Errorf("Subscribe returns %v, want %q", err, test.reason)
			}
			webhook.Close(d)
		})
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
}

func plainServer(t *testing.T) string {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.URL
}

// A name that leads to this machine at the time of the delivery is refused.
func TestPrivateAddressAtDelivery(t *testing.T) {
	e := &endpoint{}
	base, opts := tlsServer(t, e)
	lines := make(lineWriter, 10)
	opts.Logger, opts.Attempts = slog.New(slog.NewTextHandler(lines, nil)), 1
	opts.AllowLoopback, opts.Store = false, newMemory(t)
	opts.Verified = func(context.Context, string, string) bool { return true }
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	opts.Resolver = loopbackResolver()
	d := newDeliverer(t, nil, opts)
	opts.Verified = nil
	strict := newDeliverer(t, nil, opts)
	_, err = strict.Subscribe(t.Context(), request("alice", "https://rebind.example.com:"+u.Port()))
	if refused, ok := errors.AsType[*delivery.EndpointError](err); !ok || refused.Reason != delivery.ConnectionRefused {
		t.Errorf("Subscribe returns %v", err)
	}
	f := &feed{count: 1}
	run(t, d, f.read)
	subscribe(t, d, request("alice", "https://rebind.example.com:"+u.Port()))
	if line := <-lines; !strings.Contains(line, "abandoned") || !strings.Contains(line, "reason=connection_refused") {
		t.Errorf("the log says %q", line)
	}
	if got := e.deliveries(); len(got) != 0 {
		t.Errorf("the endpoint got %+v", got)
	}
}

// lineWriter sends what is written.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// loopbackResolver resolves all names to 127.0.0.1 (RFC 1035, section 4).
func loopbackResolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close()
			for {
				var size [2]byte
				if _, err := io.ReadFull(ours, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(ours, query); err != nil {
					return
				}
				end := 12
				for query[end] != 0 {
					end += 1 + int(query[end])
				}
				question, answers := query[12:end+5], byte(0)
				var record []byte
				if query[end+2] == 1 { // A
					answers, record = 1, []byte{0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1}
				}
				message := append([]byte{query[0], query[1], 0x84, 0, 0, 1, 0, answers, 0, 0, 0, 0}, question...)
				message = append(message, record...)
				if _, err := ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)); err != nil {
					return
				}
			}
		}()
		return theirs, nil
	}}
}
