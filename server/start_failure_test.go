package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// driverError is an error with a type and a text that are nobody else's business.
type driverError struct{ address string }

func (e *driverError) Error() string { return "pq: password of baker refused at " + e.address }

// TestFailedStartIsAReference: whatever a client asks of a server that could not start, and
// whether it has waited or comes later, it gets one reference, and the log has the rest.
func TestFailedStartIsAReference(t *testing.T) {
	const address = "10.0.0.7:5432"
	failing := newMarket()
	failing.start = func(context.Context) error { return &driverError{address} }
	for what, test := range map[string]struct {
		dependency func(ctx context.Context) (*oven, func(context.Context) error, error)
		mounted    server.Provider
		logged     []string
	}{
		"error of a dependency": {
			dependency: func(context.Context) (*oven, func(context.Context) error, error) {
				<-time.After(5 * time.Second)
				return nil, nil, fmt.Errorf("dialling: %w", &driverError{address})
			},
			logged: []string{"starting *server_test.oven: dialling: pq: password of baker refused at " + address},
		},
		"panic of a dependency": {
			dependency: func(context.Context) (*oven, func(context.Context) error, error) {
				<-time.After(5 * time.Second)
				panic(&driverError{address})
			},
			logged: []string{"starting *server_test.oven: it panicked"},
		},
		"error of a provider": {
			dependency: func(context.Context) (*oven, func(context.Context) error, error) {
				<-time.After(5 * time.Second)
				return &oven{}, nil, nil
			},
			mounted: failing,
			logged:  []string{`starting mount 1 (prefix "m_"): pq: password of baker refused at ` + address},
		},
	} {
		t.Run(what, func(t *testing.T) {
			virtualEras(t, func(t *testing.T, era client.Era) {
				var log bytes.Buffer
				s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Dependencies: []server.Dependency{server.Provide(test.dependency)}})
				addEveryKind(s, surround{}, func(*server.Request) error { return nil })
				if test.mounted != nil {
					mountProvider(t, s, test.mounted, "m_")
				}
				session := connectInMemory(t, s, &client.Options{Era: era})
				if err := session.Ping(t.Context()); err != nil {
					t.Errorf("a ping while the server starts: %v", err)
				}
				calls := slices.Clone(everyKind)
				for _, method := range []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList} {
					calls = append(calls, struct{ kind, name, method, params string }{method: method, params: `{}`})
				}
				told := make(chan error, len(calls)+1)
				for _, c := range calls {
					go func() {
						_, err := raw(t, session, c.method, c.params)
						told <- err
					}()
				}
				go func() { told <- subscribed(t.Context(), session, "app:r") }()
				synctest.Wait()
				if len(told) > 0 {
					t.Errorf("while the server starts, %d calls are answered", len(told))
				}
				var errs []error
				for range cap(told) {
					errs = append(errs, <-told)
				}
				_, err := session.CallTool(t.Context(), "tool", nil, nil) // later
				_, refused := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
				var record struct{ Msg, Error, Reference string }
				for line := range strings.Lines(log.String()) {
					if strings.Contains(line, `"reference"`) {
						if err := json.Unmarshal([]byte(line), &record); err != nil {
							t.Fatal(err)
						}
					}
				}
				for _, err := range append(errs, err, refused) {
					e, ok := errors.AsType[*jsonrpc.Error](err)
					if !ok || e.Code != jsonrpc.InternalError || e.Data != nil || e.Message != "the server could not start, reference "+record.Reference {
						t.Errorf("a client is told %+v, and the log's reference is %q", err, record.Reference)
					}
				}
				for _, want := range test.logged {
					if !strings.Contains(record.Error, want) || record.Reference == "" {
						t.Errorf("the operator is told %+v, want %q", record, want)
					}
				}
				if !strings.Contains(log.String(), address) {
					t.Errorf("the log does not have the cause: %s", &log)
				}
			})
		})
	}
}
