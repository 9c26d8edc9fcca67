package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// anHour is when the tests end a call without a bound.
const anHour = time.Hour

// TestCallTimeout checks how long a call lasts that the server does not answer.
func TestCallTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		all, call  time.Duration // Options.CallTimeout and CallOptions.Timeout
		deadline   time.Duration // of the context
		want       time.Duration
		wantOption string
	}{
		"default":                           {want: time.Minute, wantOption: "client.Options.CallTimeout"},
		"of the session":                    {all: 5 * time.Second, want: 5 * time.Second, wantOption: "5s (client.Options.CallTimeout)"},
		"longer":                            {all: 5 * time.Minute, want: 5 * time.Minute, wantOption: "5m0s (client.Options.CallTimeout)"},
		"none":                              {all: -1, want: anHour},
		"of the call":                       {all: -1, call: 7 * time.Second, want: 7 * time.Second, wantOption: "7s (client.CallOptions.Timeout)"},
		"none of the call":                  {all: 5 * time.Second, call: -1, want: anHour},
		"a deadline replaces the default":   {deadline: 2 * time.Minute, want: 2 * time.Minute},
		"a deadline replaces the session's": {all: time.Second, deadline: 2 * time.Minute, want: 2 * time.Minute},
		"a deadline after the call's":       {call: time.Second, deadline: 2 * time.Minute, want: time.Second, wantOption: "client.CallOptions.Timeout"},
		"a deadline before the call's":      {call: 2 * time.Minute, deadline: time.Second, want: time.Second},
		"a deadline and none of the call":   {call: -1, deadline: time.Second, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				synctest.Test(t, func(t *testing.T) {
					session := connect(t, transport.Pipe(newWaitingServer()), client.Options{Era: era, CallTimeout: test.all})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if test.deadline > 0 {
						ctx, cancel = context.WithTimeout(t.Context(), test.deadline)
						defer cancel()
					}
					if test.want == anHour { // without a bound the call would never end
						defer time.AfterFunc(anHour, cancel).Stop()
					}
					wantDuration(t, test.want, func() {
						_, err := session.CallTool(ctx, "hang", nil, &client.CallOptions{Timeout: test.call})
						call := failed(t, err, jsonrpc.MaybeExecuted)
						if test.want < anHour && !errors.Is(call, context.DeadlineExceeded) || !strings.Contains(err.Error(), test.wantOption) {
							t.Errorf("the error is %v, want one that names %q", err, test.wantOption)
						}
						if test.wantOption == "" && strings.Contains(err.Error(), "client.") {
							t.Errorf("the error is %v, want the error of the context", err)
						}
					})
				})
			})
		})
	}
}

// TestCallTimeoutOfEachMethod checks that each kind of call has the timeout.
func TestCallTimeoutOfEachMethod(t *testing.T) {
	calls := map[string]func(ctx context.Context, s *client.Session) error{
		"Call": func(ctx context.Context, s *client.Session) error {
			_, err := s.Call(ctx, "tools/list", nil, nil)
			return err
		},
		"CallAs": func(ctx context.Context, s *client.Session) error {
			_, err := client.CallAs[string](ctx, s, "x", nil, nil)
			return err
		},
		"Stream": func(ctx context.Context, s *client.Session) (last error) {
			for _, err := range s.Stream(ctx, "x", nil, nil) {
				last = err
			}
			return last
		},
		"Tools": func(ctx context.Context, s *client.Session) (last error) {
			for _, err := range s.Tools(ctx, nil) {
				last = err
			}
			return last
		},
		"ReadResource": func(ctx context.Context, s *client.Session) error {
			_, err := s.ReadResource(ctx, "a:1", nil)
			return err
		},
		"Ping": func(ctx context.Context, s *client.Session) error { return s.Ping(ctx) },
		"Subscribe": func(ctx context.Context, s *client.Session) error {
			_, err := s.Subscribe(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{"a:1"}})
			return err
		},
		"Forward": func(ctx context.Context, s *client.Session) error {
			request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, []byte(`{"name":"x"}`))
			if err != nil {
				return err
			}
			call := mcp.NewCall(request, &mcp.Caller{Version: s.Version()}, nil)
			_, err = s.Forward(ctx, &call, nil)
			return err
		},
	}
	for name, make := range calls {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				for timeout, want := range map[time.Duration]time.Duration{0: time.Minute, 3 * time.Second: 3 * time.Second} {
					synctest.Test(t, func(t *testing.T) {
						var silent atomic.Bool
						session := connect(t, script(func(*jsonrpc.Request) []string {
							if silent.Load() {
								return []string{}
							}
							return nil
						}), client.Options{Era: era, CallTimeout: timeout})
						silent.Store(true)
						wantDuration(t, want, func() {
							err := make(t.Context(), session)
							if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "client.Options.CallTimeout") {
								t.Errorf("the error is %v, want one that names client.Options.CallTimeout", err)
							}
						})
					})
				}
			})
		})
	}
}

// TestProgressAndQuestionsExtendCallTimeout checks the timeout of Options with progress, chunks and
// questions.
func TestProgressAndQuestionsExtendCallTimeout(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			session := connect(t, transport.Pipe(newWaitingServer()), client.Options{
				Era: era, CallTimeout: 51 * time.Second,
				Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					<-time.After(5 * time.Minute)
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":"Ann"}`)}, nil
				},
			})
			progress := &client.CallOptions{Progress: func(*mcp.ProgressParams) {}}
			wantDuration(t, 500*time.Second, func() {
				if _, err := session.CallTool(t.Context(), "step", stepsIn{10}, progress); err != nil {
					t.Error(err)
				}
			})
			wantDuration(t, 500*time.Second, func() {
				for _, err := range session.Stream(t.Context(), "chunks", stepsIn{10}, nil) {
					if err != nil {
						t.Error(err)
					}
				}
			})
			wantDuration(t, 49*time.Second, func() {
				progress.Timeout = 49 * time.Second
				_, err := session.CallTool(t.Context(), "step", stepsIn{10}, progress)
				failed(t, err, jsonrpc.MaybeExecuted)
			})
			wantDuration(t, 5*time.Minute, func() {
				if name, err := client.CallAs[string](t.Context(), session, "ask", nil, nil); err != nil || name != "Ann" {
					t.Errorf("the call gives %q, %v", name, err)
				}
			})
		})
	})
}

// TestCallTimeoutOverTransports checks the timeout over the transport of the test run.
func TestCallTimeoutOverTransports(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "hang"}, func(ctx context.Context, _ *server.Request, _ noServer) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		session := connect(t, transporttests.Dialer(t, s), client.Options{Era: era, CallTimeout: 20 * time.Millisecond})
		_, err := session.CallTool(t.Context(), "hang", nil, nil)
		failed(t, err, jsonrpc.MaybeExecuted)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "20ms (client.Options.CallTimeout)") {
			t.Errorf("the error is %v, want one that names the option", err)
		}
	})
}
