package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// closeLimit bounds Close: the grace periods of the connection's, the server's and the session's
// handlers.
const closeLimit = 7 * time.Second

func TestClose(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			c := newCounter()
			session := connect(t, transport.Pipe(c), client.Options{Era: era})
			sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
			if err != nil {
				t.Fatal(err)
			}
			held := make(chan error, 1)
			go func() {
				_, err := session.CallTool(t.Context(), "hold", nil, nil)
				held <- err
			}()
			<-c.entered

			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					if err := session.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			session.Close()

			if call := failed(t, <-held, jsonrpc.MaybeExecuted); !errors.Is(call, jsonrpc.ErrClosed) {
				t.Errorf("the call under way: %v", call)
			}
			<-sub.Done()
			if !errors.Is(sub.Err(), jsonrpc.ErrClosed) {
				t.Errorf("the subscription: %v", sub.Err())
			}
			_, err = session.CallTool(t.Context(), "count", nil, nil)
			if call := failed(t, err, jsonrpc.NotSent); !errors.Is(call, jsonrpc.ErrClosed) {
				t.Errorf("a call after: %v", call)
			}
			failed(t, session.Ping(t.Context()), jsonrpc.NotSent)
			if _, err := session.Subscribe(t.Context(), everything); !errors.Is(err, jsonrpc.ErrClosed) {
				t.Errorf("a subscription after: %v", err)
			}
		})
	})
}

// TestCloseWithBlockedHandler checks that a handler that ignores its context delays neither its
// call nor Close for long.
func TestCloseWithBlockedHandler(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			asked, leave := make(chan struct{}), make(chan struct{})
			session := connect(t, transport.Pipe(newElicitServer()), client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				close(asked)
				<-leave
				return nil, errors.New("too late")
			}})
			held := make(chan error, 1)
			go func() {
				_, err := session.CallTool(t.Context(), "order", nil, nil)
				held <- err
			}()
			<-asked
			begun := time.Now()
			session.Close()
			if took := time.Since(begun); took > closeLimit {
				t.Errorf("closing took %v", took)
			}
			failed(t, <-held, jsonrpc.MaybeExecuted)
			close(leave)
		})
	})
}

// TestCloseEndsHandlers checks that the contexts of handlers end with the session.
func TestCloseEndsHandlers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			s := newLogServer()
			ended := make(chan struct{}, 2)
			inside := make(chan struct{}, 2)
			wait := func(ctx context.Context) {
				inside <- struct{}{}
				<-ctx.Done()
				ended <- struct{}{}
			}
			server.AddTool(s, server.Tool{Name: "order"}, func(_ context.Context, r *server.Request, _ noServer) (string, error) {
				_, err := server.Elicit[preferences](r, "k", "m")
				return "", err
			})
			session := connect(t, transport.Pipe(s), client.Options{
				Era:   era,
				OnLog: func(ctx context.Context, _ *mcp.LoggingMessageParams) { wait(ctx) },
				Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					wait(ctx)
					return nil, ctx.Err()
				},
			})
			if _, err := session.CallTool(t.Context(), "talk", stepsIn{3}, nil); err != nil {
				t.Fatal(err)
			}
			held := make(chan error, 1)
			go func() {
				_, err := session.CallTool(t.Context(), "order", nil, nil)
				held <- err
			}()
			<-inside
			<-inside
			begun := time.Now()
			session.Close()
			if took := time.Since(begun); took != 0 {
				t.Errorf("closing took %v", took)
			}
			<-ended
			<-ended
			failed(t, <-held, jsonrpc.MaybeExecuted)
		})
	})
}

// TestCloseFromHandlers checks that callbacks may close their session.
func TestCloseFromHandlers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			var session *client.Session
			closed := make(chan struct{})
			session = connect(t, transport.Pipe(newElicitServer()), client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				defer close(closed)
				return nil, session.Close()
			}})
			begun := time.Now()
			if _, err := session.CallTool(t.Context(), "order", nil, nil); err == nil {
				t.Error("the call was answered")
			}
			<-closed
			if took := time.Since(begun); took > closeLimit {
				t.Errorf("it took %v", took)
			}
		})
	})
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, transport.Pipe(newStepper()), client.Options{Era: era})
		opts := &client.CallOptions{Progress: func(*mcp.ProgressParams) { session.Close() }}
		// The result may have come before the end.
		if _, err := session.CallTool(t.Context(), "step", stepsIn{3}, opts); err != nil {
			failed(t, err, jsonrpc.MaybeExecuted)
		}
	})
}

// TestCancelledCalls checks that cancelling ends a call immediately at the client, and soon at the
// server.
func TestCancelledCalls(t *testing.T) {
	cause := errors.New("the person has left")
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			c := newCounter()
			stopped := make(chan error, 1)
			server.AddTool(c.Server, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ noServer) (int, error) {
				c.entered <- struct{}{}
				<-ctx.Done()
				stopped <- context.Cause(ctx)
				return 0, nil
			})
			session := connect(t, transport.Pipe(c), client.Options{Era: era})
			for _, progress := range []func(*mcp.ProgressParams){nil, func(*mcp.ProgressParams) {}} {
				ctx, cancel := context.WithCancelCause(t.Context())
				held := make(chan error, 1)
				go func() {
					_, err := session.CallTool(ctx, "wait", nil, &client.CallOptions{Progress: progress})
					held <- err
				}()
				<-c.entered
				cancel(cause)
				if call := failed(t, <-held, jsonrpc.MaybeExecuted); !errors.Is(call, cause) {
					t.Errorf("the error is %v, want the cause", call)
				}
				if why := <-stopped; !errors.Is(why, jsonrpc.ErrCancelled) {
					t.Errorf("the server's handler ended with %v", why)
				}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			_, err := session.CallTool(ctx, "count", nil, nil)
			if call := failed(t, err, jsonrpc.NotSent); !errors.Is(call, cause) || c.executed.Load() != 0 {
				t.Errorf("a call that was cancelled before: %v, executed %d times", call, c.executed.Load())
			}
		})
	})
}

// TestCancelledQuestions checks cancelling a call that waits for a person, even if the handler
// ignores it.
func TestCancelledQuestions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			asked, leave := make(chan struct{}), make(chan struct{})
			session := connect(t, transport.Pipe(newElicitServer()), client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				close(asked)
				<-leave
				return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
			}})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-asked
				cancel()
			}()
			begun := time.Now()
			_, err := session.CallTool(ctx, "order", nil, nil)
			if call := failed(t, err, jsonrpc.MaybeExecuted); !errors.Is(call, context.Canceled) {
				t.Errorf("the error is %v", call)
			}
			if took := time.Since(begun); took != 0 {
				t.Errorf("it took %v", took)
			}
			close(leave)
		})
	})
}

// TestLateAnswers checks that a call without an answer ends after a minute, and that a late answer
// is dropped.
func TestLateAnswers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			var held []string
			session := connect(t, script(func(req *jsonrpc.Request) []string {
				switch req.Method {
				case mcp.MethodToolsCall:
					held = append(held, result(req, text("late")))
					return []string{}
				case mcp.MethodPromptsGet:
					return append(held, result(req, `{"resultType":"complete","messages":[],"description":"timely"}`))
				}
				return nil
			}), client.Options{Era: era})
			begun := time.Now()
			_, err := session.CallTool(t.Context(), "x", nil, nil)
			if call := failed(t, err, jsonrpc.MaybeExecuted); !errors.Is(call, context.DeadlineExceeded) {
				t.Errorf("the error is %v", call)
			}
			if took := time.Since(begun); took != time.Minute {
				t.Errorf("the call waited %v", took)
			}
			prompt, err := session.GetPrompt(t.Context(), "x", nil, nil)
			if err != nil || prompt.Description != "timely" {
				t.Errorf("the next call: %+v, %v", prompt, err)
			}
		})
	})
}

func TestConnectFails(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			dialer := &breaker{}
			dialer.refuse.Store(true)
			if _, err := client.Connect(t.Context(), dialer, &client.Options{Era: era}); !errors.Is(err, errRefused) {
				t.Errorf("nobody listens: %v", err)
			}
			silent := script(func(*jsonrpc.Request) []string { return []string{} })
			begun := time.Now()
			if _, err := client.Connect(t.Context(), silent, &client.Options{Era: era, ConnectTimeout: 3 * time.Second}); err == nil {
				t.Error("connected to a server that says nothing")
			}
			if took := time.Since(begun); took != 3*time.Second {
				t.Errorf("gave up after %v", took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := client.Connect(ctx, silent, &client.Options{Era: era}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the context has ended: %v", err)
			}
		})
	})
}

// TestOnSession checks that a session begins once and ends once, with its reason.
func TestOnSession(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			begun, ends := 0, []error{}
			opts := client.Options{Era: era, OnSession: func(_ context.Context, c *mcp.Caller) func(error) {
				if begun++; c.Version.Modern() != (era == client.Modern) || c.Info.Name == "" {
					t.Errorf("the session is %+v", c)
				}
				return func(reason error) { ends = append(ends, reason) }
			}}
			cuttable := &breaker{server: newCounter()}
			session := connect(t, cuttable, opts)
			cuttable.cut() // the session connects again
			if _, err := session.CallTool(t.Context(), "count", nil, nil); err != nil {
				t.Fatal(err)
			}
			if begun != 1 || len(ends) != 0 {
				t.Errorf("%d sessions have begun and %d have ended while one is open", begun, len(ends))
			}
			session.Close()
			session.Close()
			if begun != 1 || len(ends) != 1 || ends[0] != nil {
				t.Errorf("%d sessions have begun, and ended with %v", begun, ends)
			}

			opts.NoReconnect = true
			lost := connect(t, cuttable, opts)
			cuttable.cut()
			<-lost.Done()
			if begun != 2 || len(ends) != 2 || ends[1] == nil {
				t.Errorf("%d sessions have begun, and ended with %v", begun, ends)
			}

			cuttable.refuse.Store(true)
			if _, err := client.Connect(t.Context(), cuttable, &opts); err == nil || begun != 2 {
				t.Errorf("a session that was not opened has begun: %v", err)
			}
			opts.OnSession = func(context.Context, *mcp.Caller) func(error) { return nil }
			cuttable.refuse.Store(false)
			connect(t, cuttable, opts).Close()
		})
	})
}
