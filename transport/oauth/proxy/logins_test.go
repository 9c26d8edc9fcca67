package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/proxy"
	shared "github.com/dovetail-go/dovetail/transport/store"
)

// A failingStore fails while it is down.
type failingStore struct {
	shared.Store
	down atomic.Bool
}

var errDown = errors.New("the store is down")

func (s *failingStore) Get(ctx context.Context, key string) (shared.Item, error) {
	if s.down.Load() {
		return shared.Item{}, errDown
	}
	return s.Store.Get(ctx, key)
}

func (s *failingStore) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if s.down.Load() {
		return 0, errDown
	}
	return s.Store.Create(ctx, key, value, ttl)
}

// replicas are two proxies with the same keys and store.
type replicas struct {
	*proxied
	store  *failingStore
	second *proxy.Proxy
	log    *logBuffer
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	store := &failingStore{Store: newSharedStore(t)}
	r := newProxies(t, store)
	r.store = store
	return r
}

// newProxies returns two proxies with the same keys, and with a store unless it is nil.
func newProxies(t *testing.T, kv shared.KV) *replicas {
	t.Helper()
	r := &replicas{log: &logBuffer{}}
	var second proxy.Options
	r.proxied = newProxied(t, func(o *proxy.Options) {
		o.Keys, o.Store, o.Logger = []oauth.Secret{"0123456789abcdef0123456789abcdef"}, kv, slog.New(slog.NewTextHandler(r.log, nil))
		second = *o
	})
	var err error
	if r.second, err = proxy.New(&second); err != nil {
		t.Fatal(err)
	}
	return r
}

// atSecond sends a form to the second proxy.
func (r *replicas) atSecond(endpoint string, form url.Values) (int, map[string]any) {
	r.t.Helper()
	req := httptest.NewRequest(http.MethodPost, r.issuer+"/"+endpoint, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	r.second.Wrap(http.NotFoundHandler()).ServeHTTP(w, req)
	var answer map[string]any
	_ = json.Unmarshal(w.Body.Bytes(), &answer)
	return w.Code, answer
}

func refreshForm(id string, tokens map[string]any) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {fmt.Sprint(tokens["refresh_token"])}}
}

// A code is used once at all proxies. The second use ends the login at all.
func TestCodesOfReplicas(t *testing.T) {
	r := newReplicas(t)
	id := r.registered()
	form := r.login(id)
	status, tokens := r.atSecond("token", form)
	if status != http.StatusOK {
		t.Fatalf("got %d, %v", status, tokens)
	}
	if status, _ := r.call(tokens["access_token"]); status != http.StatusOK {
		t.Errorf("the token of the second at the first: %d", status)
	}
	if status, answer := r.token(form); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("a used code: %d, %v", status, answer)
	}
	if status, answer := r.atSecond("token", refreshForm(id, tokens)); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("a refresh after the second use of the code: %d, %v", status, answer)
	}
}

// Refresh tokens are used once at all proxies, in turn at any of them. A failing provider uses none up.
func TestRefreshTokensOfReplicas(t *testing.T) {
	r := newReplicas(t)
	id := r.registered()
	_, first := r.token(r.login(id))
	r.replace("/token", refuseWith(http.StatusBadGateway, ""))
	if status, answer := r.token(refreshForm(id, first)); status != http.StatusServiceUnavailable {
		t.Errorf("while the provider fails: %d, %v", status, answer)
	}
	r.replace("/token", nil)
	status, second := r.atSecond("token", refreshForm(id, first))
	if status != http.StatusOK {
		t.Fatalf("got %d, %v", status, second)
	}
	status, third := r.token(refreshForm(id, second))
	if status != http.StatusOK {
		t.Fatalf("got %d, %v", status, third)
	}
	if status, answer := r.atSecond("token", refreshForm(id, second)); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("a used refresh token: %d, %v", status, answer)
	}
	if status, answer := r.token(refreshForm(id, third)); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("the latest one after the second use of another: %d, %v", status, answer)
	}
}

// Without a store, a proxy that starts again does not know the earlier uses of a login, and counts its own.
func TestStartsAgainWithoutStore(t *testing.T) {
	r := newProxies(t, nil)
	id := r.registered()
	_, first := r.token(r.login(id))
	status, second := r.token(refreshForm(id, first))
	if status != http.StatusOK {
		t.Fatalf("got %d, %v", status, second)
	}
	status, third := r.atSecond("token", refreshForm(id, second))
	if status != http.StatusOK {
		t.Fatalf("a refresh at the new process: %d, %v", status, third)
	}
	if status, answer := r.atSecond("token", refreshForm(id, second)); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("a refresh token that the new process knows: %d, %v", status, answer)
	}
	if status, answer := r.atSecond("token", refreshForm(id, third)); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("a refresh token of the login, which has ended: %d, %v", status, answer)
	}
}

// A login that is revoked at one proxy is not refreshed by another.
func TestRevocationAtReplica(t *testing.T) {
	for _, kind := range []string{"access_token", "refresh_token"} {
		r := newReplicas(t)
		id := r.registered()
		_, tokens := r.token(r.login(id))
		if status, answer := r.atSecond("revoke", url.Values{"token": {fmt.Sprint(tokens[kind])}, "client_id": {id}}); status != http.StatusOK {
			t.Fatalf("%s: got %d, %v", kind, status, answer)
		}
		if status, answer := r.token(refreshForm(id, tokens)); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
			t.Errorf("a refresh after the revocation of the %s: %d, %v", kind, status, answer)
		}
	}
}

// While the store fails, access tokens are accepted, and everything else that needs it is refused and can be
// tried again.
func TestWithoutTheStore(t *testing.T) {
	r := newReplicas(t)
	id := r.registered()
	_, tokens := r.token(r.login(id))
	code := r.login(id)
	revocation := url.Values{"token": {fmt.Sprint(tokens["access_token"])}, "client_id": {id}}

	r.store.down.Store(true)
	for name, form := range map[string]url.Values{"code": code, "refresh token": refreshForm(id, tokens)} {
		if status, answer := r.token(form); status != http.StatusServiceUnavailable || answer["error"] != "temporarily_unavailable" {
			t.Errorf("%s: %d, %v", name, status, answer)
		}
	}
	if status, answer := r.post("revoke", "application/x-www-form-urlencoded", revocation.Encode()); status != http.StatusServiceUnavailable {
		t.Errorf("revocation: %d, %v", status, answer)
	}
	if status, _ := r.call(tokens["access_token"]); status != http.StatusOK {
		t.Errorf("an access token: %d", status)
	}
	if !strings.Contains(r.log.String(), errDown.Error()) {
		t.Errorf("the log is %q", r.log)
	}

	r.store.down.Store(false)
	status, next := r.token(refreshForm(id, tokens))
	if status != http.StatusOK {
		t.Errorf("a refresh afterwards: %d, %v", status, next)
	}
	if status, answer := r.token(code); status != http.StatusOK {
		t.Errorf("the code afterwards: %d, %v", status, answer)
	}
	if status, _ := r.post("revoke", "application/x-www-form-urlencoded", revocation.Encode()); status != http.StatusOK {
		t.Errorf("revocation afterwards: %d", status)
	}
	if status, _ := r.call(next["access_token"]); status != http.StatusUnauthorized {
		t.Errorf("after the revocation: %d", status)
	}
}
