package oauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// ask makes a request of a receiver, and returns the status and the page.
func askReceiver(t *testing.T, method, to, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	page, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(page)
}

// The one answer is that with the state; what else comes spoils nothing, and learns
// nothing.
func TestLoopbackReceiver(t *testing.T) {
	reception, err := new(oauth.LoopbackReceiver).Open(t.Context(), "the-state", "")
	if err != nil {
		t.Fatal(err)
	}
	defer reception.Close()
	uri := reception.RedirectURI()
	at, _ := url.Parse(uri)
	if at.Scheme != "http" || at.Hostname() != "127.0.0.1" || at.Path != "/callback" {
		t.Errorf("it listens at %s", uri)
	}
	for _, test := range []struct {
		method, to, host string
		want             int
	}{
		{"GET", uri, "", 400}, {"GET", uri + "?code=x", "", 400}, {"GET", uri + "?code=x&state=other", "", 400}, {"GET", uri + "?code=x&state=the-state&state=the-state", "", 400},
		{"GET", uri + "?code=%zz&state=the-state", "", 400}, {"POST", uri + "?code=x&state=the-state", "", 404}, {"GET", strings.Replace(uri, "callback", "other", 1) + "?state=the-state", "", 404},
		{"GET", uri + "?code=x&state=the-state", "rebound.example", 421}, {"GET", uri + "?code=x&state=the-state", "localhost:" + at.Port(), 421},
		{"GET", uri + "?code=good&state=the-state", "", 200}, {"GET", uri + "?code=late&state=the-state", "", 400},
	} {
		status, page := askReceiver(t, test.method, test.to, test.host)
		if status != test.want || strings.Contains(page, "the-state") {
			t.Errorf("%s %s: got %d %q, want %d", test.method, test.to, status, page, test.want)
		}
	}
	answer, err := reception.Wait(t.Context())
	if err != nil || answer.Get("code") != "good" {
		t.Errorf("got %v, %v", answer, err)
	}
}

// No wrong answers spoil the right one; nor do long ones. It ends when it is told to.
func TestLoopbackReceiverIsBounded(t *testing.T) {
	reception, err := (&oauth.LoopbackReceiver{Page: "done"}).Open(t.Context(), "s", "")
	if err != nil {
		t.Fatal(err)
	}
	uri := reception.RedirectURI()
	for range 100 {
		askReceiver(t, "GET", uri+"?state=x", "")
	}
	if status, _ := askReceiver(t, "GET", uri+"?state=s&code="+strings.Repeat("x", 100_000), ""); status != http.StatusRequestHeaderFieldsTooLarge && status != 0 {
		t.Errorf("a long one: got %d", status)
	}
	if status, page := askReceiver(t, "GET", uri+"?state=s&code=x", ""); status != http.StatusOK || page != "done" {
		t.Errorf("got %d %q", status, page)
	}
	if answer, err := reception.Wait(t.Context()); err != nil || answer.Get("code") != "x" {
		t.Errorf("got %v, %v", answer, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("reason")
	cancel(reason)
	if _, err := reception.Wait(ctx); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(reception.Close(), reception.Close()); err != nil {
		t.Error(err)
	}
	if _, err := reception.Wait(t.Context()); err == nil {
		t.Error("it waits when it is closed")
	}
	again, err := new(oauth.LoopbackReceiver).Open(t.Context(), "s", uri)
	if err != nil || again.RedirectURI() != uri {
		t.Fatalf("the port of the last time: %v", err)
	}
	defer again.Close()
	other, err := new(oauth.LoopbackReceiver).Open(t.Context(), "s", uri)
	if err != nil || other.RedirectURI() == uri {
		t.Fatalf("a port that is taken: %v", err)
	}
	other.Close()
}
