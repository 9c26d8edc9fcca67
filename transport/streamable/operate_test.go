package streamable_test

import (
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// An operator sees the sessions of an endpoint, and ends them from any replica.
func TestOperateSessions(t *testing.T) {
	for _, tc := range []struct {
		name   string
		shared store.Store
		other  bool // replica ends the session
	}{
		{"one process", nil, false},
		{"replicas, at the one that has it", newStore(t), false},
		{"replicas, at another one", newStore(t), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var replicas []*streamable.Endpoint
			for range 2 {
				s := server.New(mcp.Implementation{Name: "s", Version: "1"}, &server.Options{Store: tc.shared})
				endpoint := streamable.Handler(s, &streamable.Options{Limits: transport.Limits{Sessions: 7}})
				t.Cleanup(func() { endpoint.Close() })
				replicas = append(replicas, endpoint)
			}
			web := httptest.NewServer(replicas[0])
			t.Cleanup(web.Close)
			session, err := client.Connect(t.Context(), streamable.Dial(web.URL, nil), &client.Options{Era: client.Legacy})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { session.Close() })
			open := replicas[0].Sessions()
			if len(open) != 1 || open[0].ID == "" || open[0].Version != mcp.Version20251125 || open[0].Until.IsZero() {
				t.Fatalf("the sessions are %+v", open)
			}
			if used := replicas[0].Stats().Sessions; used != (transport.Usage{Used: 1, Max: 7}) {
				t.Errorf("in use are %+v", used)
			}
			ending := replicas[0]
			if tc.other {
				ending = replicas[1]
			} else if found, err := replicas[1].EndSession(t.Context(), "no-such-session"); err != nil || found {
				t.Errorf("an unknown session: %v %v", found, err)
			}
			if found, err := ending.EndSession(t.Context(), open[0].ID); err != nil || !found {
				t.Fatalf("ending the session: %v %v", found, err)
			}
			waittest.Until(t, "the end of the session", func() bool { return len(replicas[0].Sessions()) == 0 })
			if found, err := ending.EndSession(t.Context(), open[0].ID); err != nil || found {
				t.Errorf("ending it again: %v %v", found, err)
			}
		})
	}
}
