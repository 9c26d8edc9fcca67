package webhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// A slow endpoint takes so long to confirm its URL that many subscriptions are being made at the same time.
type slow struct{ *endpoint }

func (s slow) RoundTrip(req *http.Request) (*http.Response, error) {
	<-time.After(20 * time.Millisecond)
	return s.endpoint.RoundTrip(req)
}

// A principal that subscribes at all replicas at the same moment gets as many subscriptions as MaxPerPrincipal, and
// as many again when they have ended. Another principal gets its own.
func TestLimitOfPrincipalAtTheSameMoment(t *testing.T) {
	const limit, attempts = 10, 200
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			shared := newMemory(t)
			all := make([]delivery.Deliverer, replicas)
			for i := range all {
				all[i] = newDeliverer(t, slow{&endpoint{}}, webhook.Options{Store: shared, MaxPerPrincipal: limit})
				run(t, all[i], (&feed{}).read)
			}
			for round := range 3 {
				var granted, refused atomic.Int64
				var mu sync.Mutex
				var held []delivery.Key
				var calls sync.WaitGroup
				begin := make(chan struct{})
				for i := range attempts {
					calls.Go(func() {
						<-begin
						r := request("alice", callback)
						r.Arguments = fmt.Appendf(nil, `{"n":%d}`, round*attempts+i)
						_, err := all[i%replicas].Subscribe(t.Context(), r)
						limited, ok := errors.AsType[*delivery.LimitError](err)
						switch {
						case err == nil:
							granted.Add(1)
							mu.Lock()
							held = append(held, r.Key)
							mu.Unlock()
						case ok && limited.Max == limit && limited.Limit == "subscriptions":
							refused.Add(1)
						default:
							t.Error(err)
						}
					})
				}
				close(begin)
				calls.Wait()
				if granted.Load() != limit || refused.Load() != attempts-limit {
					t.Errorf("round %d: %d were granted and %d refused, want %d and %d", round, granted.Load(), refused.Load(), limit, attempts-limit)
				}
				if _, err := all[0].Subscribe(t.Context(), request("bob", callback)); err != nil {
					t.Errorf("another principal: %v", err)
				}
				for i, key := range held {
					if err := all[i%replicas].Unsubscribe(t.Context(), key); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// Endpoints that do not answer hold places of their principal only, until Timeout. Endpoints that refuse, or that redirect,
// hold none.
func TestEndpointsThatDoNotConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		d := newDeliverer(t, unwilling{&endpoint{}}, webhook.Options{Store: newMemory(t), MaxPerPrincipal: 20, MaxSubscriptions: 30, Timeout: timeout})
		ask := func(principal, host string, n int) error {
			r := request(principal, "https://"+host+"/"+principal)
			r.Arguments = fmt.Appendf(nil, `{"n":%d}`, n)
			_, err := d.Subscribe(t.Context(), r)
			return err
		}
		for round := range 3 {
			var calls sync.WaitGroup
			var full, refused atomic.Int64
			for i := range 100 {
				calls.Go(func() {
					err := ask("mallory", fmt.Sprintf("%s%d.example.com", []string{"silent", "redirects", "refuses"}[i%3], i), i)
					if limit, ok := errors.AsType[*delivery.LimitError](err); ok && limit.Max == 20 {
						full.Add(1)
					} else if _, ok := errors.AsType[*delivery.EndpointError](err); ok {
						refused.Add(1)
					} else {
						t.Error(err)
					}
				})
			}
			sleep(timeout / 2)
			if err := ask("ann", "good.example.com", round); err != nil {
				t.Errorf("round %d: another principal while endpoints do not answer: %v", round, err)
			}
			began := time.Now()
			calls.Wait()
			if took := time.Since(began); took > timeout {
				t.Errorf("round %d: places were held for %v more", round, took)
			}
			if full.Load() == 0 || refused.Load() == 0 {
				t.Errorf("round %d: %d were refused because of the limit, and %d because of the endpoint", round, full.Load(), refused.Load())
			}
			sleep(time.Minute)
			if err := ask("mallory", "good.example.com", round); err != nil {
				t.Errorf("round %d: the same principal later: %v", round, err)
			}
		}
	})
}

// An unwilling endpoint confirms only URLs of good.example.com.
type unwilling struct{ *endpoint }

func (u unwilling) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Hostname()
	switch {
	case host == "good.example.com":
		return u.endpoint.RoundTrip(req)
	case strings.HasPrefix(host, "silent"):
		<-req.Context().Done()
		return nil, req.Context().Err()
	case strings.HasPrefix(host, "redirects"):
		return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"https://good.example.com/"}}, Body: http.NoBody, Request: req}, nil
	}
	return nil, errors.New("connection refused")
}
