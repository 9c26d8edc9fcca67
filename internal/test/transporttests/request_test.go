package transporttests_test

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// seen are the headers and sessions of requests, by the place in the server that has seen them.
type seen struct {
	mu     sync.Mutex
	places map[string]map[string]bool
	ids    map[string]bool
}

func (s *seen) add(place string, header map[string][]string, sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places[place] == nil {
		s.places[place] = make(map[string]bool)
	}
	s.places[place][fmt.Sprintf("tenant %q, session %t", header["X-Tenant"], sessionID != "")] = true
	if sessionID != "" {
		s.ids[sessionID] = true
	}
}

func (s *seen) addContext(ctx context.Context, place string) {
	s.add(place, transport.Header(ctx), transport.SessionID(ctx))
}

// requestServer returns a server whose function, guard and middleware note what they see of a request.
func requestServer(s *seen) *server.Server {
	guard := mcp.Guard{
		Name: "tenant",
		Visible: func(ctx context.Context, _ *mcp.Caller, _ *mcp.Target) bool {
			s.addContext(ctx, "Visible")
			return true
		},
		Check: func(ctx context.Context, _ *mcp.Call) error {
			s.addContext(ctx, "Check")
			return nil
		},
		Run: func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				s.addContext(ctx, "Run")
				return next(ctx, call)
			}
		},
	}
	srv := server.New(mcp.Implementation{Name: "s", Version: "1"}, &server.Options{
		Logger: quiet(), Guards: []mcp.Guard{guard},
		Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				s.addContext(ctx, "Middleware")
				return next(ctx, call)
			}
		}},
		OnSession: func(ctx context.Context, _ *mcp.Caller) func(error) {
			s.addContext(ctx, "OnSession")
			return nil
		},
	})
	server.AddTool(srv, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		s.add("function", r.Header(), r.SessionID())
		_, err := server.Elicit[bool](r, "sure", "Sure?")
		s.add("function after a question", r.Header(), r.SessionID())
		return "done", err
	})
	return srv
}

// Functions, guards, middleware and OnSession get the header of the request and the id of the session over each endpoint of
// HTTP, and neither over other transports.
func TestHeaderAndSessionID(t *testing.T) {
	for name, test := range map[string]struct {
		endpoint, header string
		session          bool
	}{
		"streamable":          {"streamable", `["blue"]`, false},
		"streamable sessions": {"streamable sessions", `["blue"]`, true},
		"sse":                 {"sse", `["blue"]`, true},
		"ws":                  {"ws", `["blue"]`, false},
		"ws sessions":         {"ws sessions", `["blue"]`, false},
		"pipe":                {"", `[]`, false},
		"pipe sessions":       {"", `[]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := &seen{places: make(map[string]map[string]bool), ids: make(map[string]bool)}
			srv := requestServer(got)
			dialer, era := transport.Pipe(srv), client.Modern
			if name == "pipe sessions" {
				era = client.Legacy
			}
			if test.endpoint != "" {
				e := endpoints[test.endpoint]
				endpoint := e.serve(srv, transport.Limits{}, quiet())
				web := httptest.NewServer(endpoint)
				t.Cleanup(func() {
					_ = endpoint.Close()
					web.Close()
				})
				era, dialer = e.era, e.dial(web.URL, httptransport.StaticHeader(map[string]string{"X-Tenant": "blue"}))
			}
			session, err := client.Connect(t.Context(), dialer, &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":true}`)}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			for _, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := session.CallTool(t.Context(), "ask", nil, nil); err != nil {
				t.Fatal(err)
			}
			places := []string{"Check", "Middleware", "OnSession", "Run", "Visible", "function", "function after a question"}
			if era == client.Modern {
				places = slices.DeleteFunc(places, func(place string) bool { return place == "OnSession" })
			}
			if noted := slices.Sorted(maps.Keys(got.places)); !slices.Equal(noted, places) {
				t.Errorf("noted by %q, want %q", noted, places)
			}
			want := fmt.Sprintf("tenant %s, session %t", test.header, test.session)
			for place, requests := range got.places {
				if len(requests) != 1 || !requests[want] {
					t.Errorf("%s sees %v, want %q", place, slices.Collect(maps.Keys(requests)), want)
				}
			}
			if test.session && len(got.ids) != 1 {
				t.Errorf("the session has the ids %v", got.ids)
			}
		})
	}
}
