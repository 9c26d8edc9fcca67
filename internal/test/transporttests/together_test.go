package transporttests_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// What a principal asks for at the same moment, over several connections, is granted up to its limit, whichever the
// endpoint is. Another principal gets its own. What has been released can be granted again.
func TestLimitsAtTheSameMoment(t *testing.T) {
	const limit, attempts, connections = 10, 80, 4
	limits := transport.Limits{CallsPerPrincipal: limit, SessionsPerPrincipal: limit}
	overEndpoints(t, limits, func(l *limited) {
		// open opens what is counted, on a connection of a principal.
		what, open := "sessions", func(_ *client.Session, principal string) (closing func(), err error) {
			opened, err := client.Connect(l.Context(), l.dial(l.url, func(_ context.Context, h http.Header) error {
				h.Set("X-Principal", principal)
				return nil
			}), &client.Options{Era: l.era})
			return func() { _ = opened.Close() }, err
		}
		if l.era == client.Modern {
			what, open = "subscriptions", func(session *client.Session, _ string) (closing func(), err error) {
				opened, err := session.Subscribe(l.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
				return func() { opened.Close() }, err
			}
		}
		for _, principal := range []string{"ann", "bob", "carol"} { // the ones before keep what they have
			sessions := make([]*client.Session, connections)
			for i := range sessions {
				sessions[i] = l.connect("connections of " + principal)
				if l.era == client.Modern {
					sessions[i] = l.connect(principal)
				}
			}
			var mu sync.Mutex
			var granted []func()
			var calls sync.WaitGroup
			begin := make(chan struct{})
			for i := range attempts {
				calls.Go(func() {
					<-begin
					if closing, err := open(sessions[i%connections], principal); err == nil {
						mu.Lock()
						granted = append(granted, closing)
						mu.Unlock()
					}
				})
			}
			close(begin)
			calls.Wait()
			if len(granted) != limit {
				l.Errorf("%s: %d of %d %s were granted, want %d", principal, len(granted), attempts, what, limit)
			}
			if _, err := open(sessions[0], principal); err == nil {
				l.Errorf("%s: one more of the %s was granted", principal, what)
			}
			granted[0]()
			waittest.Until(l, "another one is granted", func() bool {
				closing, err := open(sessions[0], principal)
				if err == nil {
					l.Cleanup(closing)
				}
				return err == nil
			})
			for _, closing := range granted[1:] {
				l.Cleanup(closing)
			}
		}
	})
}
