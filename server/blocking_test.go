package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
)

// asksDeep are functions that ask, each in another way. They have an effect before and after each question.
var asksDeep = map[string]struct {
	ask  func(ctx context.Context, r *server.Request, effect func()) (string, error)
	want string
	runs int // effects of one run
}{
	"elicit": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		effect()
		sure, err := server.Elicit[bool](r, "q", "Sure?")
		effect()
		return fmt.Sprint(sure), err
	}, "true", 2},
	"form": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		effect()
		answer, err := server.ElicitForm(r, "q", "Sure?", &mcp.ElicitSchema{Fields: []mcp.ElicitField{{Name: "value", Schema: &mcp.BooleanSchema{}}}})
		return string(answer), err
	}, `{"value":true}`, 1},
	"url": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		effect()
		return "visited", server.ElicitURL(r, "q", "Visit?", "https://bakery.example/")
	}, "visited", 1},
	"sample": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		effect()
		result, err := server.Sample(r, "q", sampleParams())
		if err != nil {
			return "", err
		}
		return result.Content[0].(*mcp.TextContent).Text, nil
	}, "7", 1},
	"sampleAs": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		effect()
		n, err := server.SampleAs[int](r, "q", sampleParams())
		return fmt.Sprint(n), err
	}, "7", 1},
	"roots": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		effect()
		roots, err := server.Roots(r, "q")
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	}, "file:///home", 1},
	"one key three times": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		for range 3 {
			effect()
			if sure, err := server.Elicit[bool](r, "q", "Sure?"); err != nil || !sure {
				return "", err
			}
		}
		return "three", nil
	}, "three", 3},
	"at the same time": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		var all sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			all.Go(func() {
				effect()
				_, errs[i] = server.Elicit[bool](r, fmt.Sprint(i), "Sure?")
			})
		}
		all.Wait()
		return "all", errors.Join(errs...)
	}, "all", 3},
	"error is ignored": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		effect()
		sure, _ := server.Elicit[bool](r, "q", "Sure?")
		return fmt.Sprint(sure), nil
	}, "true", 1},
	"once": {func(_ context.Context, r *server.Request, effect func()) (string, error) {
		var got []int
		for range 2 {
			n, err := server.Once(r, "n", func() (int, error) { effect(); return len(got) + 1, nil })
			if err != nil {
				return "", err
			}
			got = append(got, n)
			if _, err := server.Elicit[bool](r, "q", "Sure?"); err != nil {
				return "", err
			}
		}
		return fmt.Sprint(got), nil
	}, "[1 1]", 1},
}

func sampleParams() *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 5, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text("A number.")}}}}
}

// agreeable returns the options of a client that answers every question.
func agreeable(era client.Era) *client.Options {
	return &client.Options{
		Era: era, ElicitURLs: true, Limits: client.Limits{QuestionBurst: -1},
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"value":true}`)}, nil
		},
		Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: mcp.SamplingContent{mcp.Text("7")}}, nil
		},
		Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///home"}}, nil },
	}
}

// A blocking function runs once, however it asks.
func TestBlockingToolRunsOnce(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for name, test := range asksDeep {
			t.Run(name, func(t *testing.T) {
				var effects atomic.Int32
				s := newServer(nil)
				server.AddTool(s, server.Tool{Name: "ask", Blocking: true}, func(ctx context.Context, r *server.Request, in struct{ Text string }) (string, error) {
					got, err := test.ask(ctx, r, func() { effects.Add(1) })
					return in.Text + got, err
				})
				session := connectWith(t, s, agreeable(era))
				for range 2 {
					effects.Store(0)
					result := call(t, session, "ask", `{"Text":"> "}`)
					if textOf(result) != "> "+test.want || result.IsError || effects.Load() != int32(test.runs) {
						t.Errorf("the tool says %q and has %d effects, want %q and %d", textOf(result), effects.Load(), "> "+test.want, test.runs)
					}
				}
			})
		}
	})
}

// A client that refuses, or cannot be asked, has the same errors as with other tools.
func TestBlockingToolGetsRefusals(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		for name, blocking := range map[string]bool{"blocking": true, "repeated": false} {
			server.AddTool(s, server.Tool{Name: name, Blocking: blocking}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				sure, err := server.Elicit[bool](r, "q", "Sure?")
				return fmt.Sprint(sure), err
			})
		}
		for what, elicit := range map[string]func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error){
			"cannot be asked": nil,
			"declines": func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
			},
			"answers something else": func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"value":"yes"}`)}, nil
			},
		} {
			session := connectWith(t, s, &client.Options{Era: era, Elicit: elicit})
			got := map[string]string{}
			for _, name := range []string{"blocking", "repeated"} {
				result, err := session.CallTool(t.Context(), name, nil, nil)
				got[name] = fmt.Sprint(result, err)
				if err == nil {
					got[name] = fmt.Sprint(textOf(result), result.IsError)
				}
			}
			if got["blocking"] != got["repeated"] || got["blocking"] == "true false" {
				t.Errorf("a client that %s gets %q, and %q from a tool that runs again", what, got["blocking"], got["repeated"])
			}
		}
	})
}

// A stream may ask after its first chunk, and a method of a service may be blocking.
func TestBlockingStreamsAndServices(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddStream(s, server.Tool{Name: "stream", Blocking: true}, func(_ context.Context, r *server.Request, _ struct{}) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				if !yield("a", nil) {
					return
				}
				if _, err := server.Elicit[bool](r, "q", "Sure?"); err != nil {
					yield("", err)
					return
				}
				yield("b", nil)
			}
		}, server.JoinText)
		server.AddService(s, deepService{})
		session := connectWith(t, s, agreeable(era))
		var chunks []string
		result, err := session.CallTool(t.Context(), "stream", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) { chunks = append(chunks, p.Message) }})
		if err != nil || textOf(result) != "ab" {
			t.Errorf("the stream returns %v, %v", result, err)
		}
		if want := []string{`"a"`, `"b"`}; !slices.Equal(chunks, want) {
			t.Errorf("the chunks are %q, want %q", chunks, want)
		}
		if got := textOf(call(t, session, "deep", `{}`)); got != "true" {
			t.Errorf("the service says %q", got)
		}
	})
}

type deepService struct{}

func (deepService) Deep(_ context.Context, r *server.Request, _ struct {
	_ server.ToolTag `blocking:"true"`
}) (string, error) {
	sure, _ := server.Elicit[bool](r, "q", "Sure?")
	return fmt.Sprint(sure), nil
}

// Progress and log messages go to the request that waits.
func TestBlockingToolReportsToTheLastRequest(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "ask", Blocking: true}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			for i := range 3 {
				r.Logger("").Info(fmt.Sprint("before ", i))
				if err := r.Progress(ctx, float64(i), 3, ""); err != nil {
					return "", err
				}
				if _, err := server.Elicit[bool](r, "q", "Sure?"); err != nil {
					return "", err
				}
			}
			return "", r.Progress(ctx, 3, 3, "")
		})
		var mu sync.Mutex
		var logged []string
		opts := agreeable(era)
		opts.LogLevel = mcp.LevelInfo
		opts.OnLog = func(_ context.Context, m *mcp.LoggingMessageParams) {
			mu.Lock()
			logged = append(logged, string(m.Data))
			mu.Unlock()
		}
		session := connectWith(t, s, opts)
		var steps []float64
		if _, err := session.CallTool(t.Context(), "ask", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) { steps = append(steps, p.Progress) }}); err != nil {
			t.Fatal(err)
		}
		if want := []float64{0, 1, 2, 3}; !slices.Equal(steps, want) {
			t.Errorf("the progress is %v, want %v", steps, want)
		}
		waittest.Until(t, "the log messages", func() bool { // which the client may still handle after the result
			mu.Lock()
			defer mu.Unlock()
			return len(logged) == 3
		})
		for i := range 3 {
			if !strings.Contains(logged[i], fmt.Sprint("before ", i)) {
				t.Errorf("the log is %q", logged)
			}
		}
	})
}

// A blockingPeer calls a tool ask of a server in virtual time, request by request.
type blockingPeer struct {
	*eratest.Peer
	begun, ended, after *atomic.Int32 // how often the function has begun, has ended, and was continued by an answer
	causes              chan error    // of the function's context at its end
}

// addBlocking adds a tool that asks as often as its argument says, and then returns a text of a size.
func addBlocking(s *server.Server, tool server.Tool) *blockingPeer {
	p := &blockingPeer{begun: new(atomic.Int32), ended: new(atomic.Int32), after: new(atomic.Int32), causes: make(chan error, 2000)}
	tool.Name, tool.Blocking = "ask", true
	server.AddTool(s, tool, func(ctx context.Context, r *server.Request, in struct {
		Questions int `json:"questions,omitempty" jsonschema:"default=1"`
		Size      int `json:"size,omitempty"`
	}) (string, error) {
		p.begun.Add(1)
		defer func() {
			p.ended.Add(1)
			p.causes <- context.Cause(ctx)
		}()
		for i := range in.Questions {
			if err := r.Progress(ctx, float64(i), 0, "before the question"); err != nil {
				return "", err
			}
			if _, err := server.Elicit[string](r, "q", "?"); err != nil {
				return "", fmt.Errorf("asking: %w", err)
			}
			p.after.Add(1)
		}
		return "done" + strings.Repeat(".", in.Size), nil
	})
	return p
}

func (p *blockingPeer) connect(t testing.TB, s *server.Server) *blockingPeer {
	t.Helper()
	connected := *p
	connected.Peer = eratest.Open(t, s, mcp.LatestVersion, eratest.Askable)
	return &connected
}

// ask makes a call that asks, and returns its state.
func (p *blockingPeer) ask(arguments string) (state string) {
	p.T.Helper()
	return p.stateOf(p.Call(mcp.MethodToolsCall, `{"name":"ask","arguments":`+arguments+`}`))
}

func (p *blockingPeer) stateOf(reply string) (state string) {
	p.T.Helper()
	eratest.Want(p.T, reply, `"input_required"`, "result", "resultType")
	return eratest.Text(reply, "result", "requestState")
}

// params are the params of a request that answers the nth question.
func answering(arguments, state string, n int) string {
	key := "q"
	if n > 1 {
		key = fmt.Sprintf("q (%d)", n)
	}
	return fmt.Sprintf(`{"name":"ask","arguments":%s,"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"value":"yes"}}},"_meta":{"progressToken":"t%d"}}`,
		arguments, state, key, n)
}

func (p *blockingPeer) answer(arguments, state string, n int) (reply string) {
	p.T.Helper()
	id := p.Start(mcp.MethodToolsCall, answering(arguments, state, n))
	for {
		reply = p.next()
		if eratest.At(reply, "id") == id {
			return reply
		}
	}
}

// next waits for the next frame, also while another replica works.
func (p *blockingPeer) next() string {
	p.T.Helper()
	select {
	case frame := <-p.Frames:
		return frame
	case <-time.After(time.Minute):
		p.T.Fatal("there is no reply within a minute")
		return ""
	}
}

// shutdown shuts a server down at the end of a test.
func shutdown(t testing.TB, s *server.Server) {
	t.Helper()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

const noArguments = `{}`

// A request that is sent twice has one effect, and the same answer.
func TestBlockingAnswerIsSentTwice(t *testing.T) {
	for name, arguments := range map[string]string{"a result": noArguments, "a question": `{"questions":2}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(nil)
				defer shutdown(t, s)
				p := addBlocking(s, server.Tool{}).connect(t, s)
				state := p.ask(arguments)
				var replies []string
				for range 3 {
					reply := p.answer(arguments, state, 1)
					replies = append(replies, cmpText(reply))
				}
				if replies[0] == "" || replies[1] != replies[0] || replies[2] != replies[0] || p.begun.Load() != 1 || p.after.Load() != 1 {
					t.Errorf("the replies are %q, the function has begun %d times and was continued %d times", replies, p.begun.Load(), p.after.Load())
				}
				eratest.Pass(2 * time.Minute)
				if name == "a result" { // which is no longer kept
					wantType(t, p.answer(arguments, state, 1), "CALL_NOT_WAITING")
				}
			})
		})
	}
}

// cmpText returns what a reply says, without its state.
func cmpText(reply string) string {
	return eratest.ResultText(reply) + eratest.At(reply, "result", "inputRequests") + eratest.At(reply, "error")
}

// wantType checks the type of an error, which says that the call may have been executed.
func wantType(t testing.TB, reply, kind string) {
	t.Helper()
	eratest.Want(t, reply, `{"type":"`+kind+`"}`, "error", "data")
	if !strings.Contains(eratest.Text(reply, "error", "message"), "the call may have been executed in part") {
		t.Errorf("the error does not say that the call may have been executed: %s", reply)
	}
}

// Requests with the same answer at the same time have the same outcome.
func TestBlockingAnswersAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		defer shutdown(t, s)
		p := addBlocking(s, server.Tool{}).connect(t, s)
		state := p.ask(noArguments)
		for range 10 {
			p.Start(mcp.MethodToolsCall, answering(noArguments, state, 1))
		}
		for range 10 {
			if reply := p.next(); eratest.ResultText(reply) != "done" {
				t.Errorf("a reply is %s", reply)
			}
		}
		if p.begun.Load() != 1 || p.after.Load() != 1 {
			t.Errorf("the function has begun %d times and was continued %d times", p.begun.Load(), p.after.Load())
		}
	})
}

// Guards decide about each request. A refused one leaves the function as it is.
func TestGuardsDecideAboutBlockingCallsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		var runs atomic.Int32
		s := newServer(&server.Options{Logger: discardLogger()})
		defer shutdown(t, s)
		p := addBlocking(s, server.Tool{Guards: []mcp.Guard{{
			Name: "g",
			Check: func(context.Context, *mcp.Call) error {
				if refuse.Load() {
					return errors.New("no longer")
				}
				return nil
			},
			Run: func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					runs.Add(1)
					return next(ctx, call)
				}
			},
		}}}).connect(t, s)
		state := p.ask(noArguments)
		refuse.Store(true)
		eratest.WantError(t, p.answer(noArguments, state, 1), jsonrpc.InternalError)
		if p.after.Load() != 0 {
			t.Error("a refused request has continued the function")
		}
		refuse.Store(false)
		if reply := p.answer(noArguments, state, 1); eratest.ResultText(reply) != "done" || p.begun.Load() != 1 || runs.Load() != 2 {
			t.Errorf("the reply is %s; the function has begun %d times, and the guard has run %d times", reply, p.begun.Load(), runs.Load())
		}
	})
}

// What ends a call ends its function, which says so to whoever asks later.
func TestBlockingFunctionIsInterrupted(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(p *blockingPeer, s *server.Server, state string)
		cause string
		later string // type of the error of a later request
	}{
		"no answer": {func(p *blockingPeer, _ *server.Server, _ string) {
			eratest.Pass(11*time.Minute - time.Second)
			if p.ended.Load() != 0 {
				p.T.Error("the function has ended too early")
			}
			eratest.Pass(2 * time.Second)
		}, "the question was not answered within 11m0s", "CALL_INTERRUPTED"},
		"no answer for long": {func(*blockingPeer, *server.Server, string) { eratest.Pass(13 * time.Minute) }, "the question was not answered within 11m0s", "CALL_NOT_WAITING"},
		"shutdown":           {func(p *blockingPeer, s *server.Server, _ string) { shutdown(p.T, s) }, "the server is shutting down", "CALL_INTERRUPTED"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(&server.Options{Logger: discardLogger()})
				defer shutdown(t, s)
				p := addBlocking(s, server.Tool{}).connect(t, s)
				state := p.ask(noArguments)
				test.end(p, s, state)
				if p.ended.Load() != 1 {
					t.Fatal("the function waits")
				}
				if cause := <-p.causes; cause == nil || cause.Error() != test.cause {
					t.Errorf("the cause is %v, want %q", cause, test.cause)
				}
				wantType(t, p.answer(noArguments, state, 1), test.later)
				if p.begun.Load() != 1 {
					t.Errorf("the function has begun %d times", p.begun.Load())
				}
			})
		})
	}
}

// A request that is cancelled, and a session that ends, interrupt the function while it works or waits.
func TestBlockingFunctionEndsWithItsCaller(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		for _, waits := range []bool{false, true} { // for an answer, instead of something else
			s := newServer(&server.Options{Logger: discardLogger()})
			ended := make(chan error, 1)
			server.AddTool(s, server.Tool{Name: "ask", Blocking: true}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				defer func() { ended <- context.Cause(ctx) }()
				if _, err := server.Elicit[string](r, "first", "?"); err != nil {
					return "", err
				}
				if waits {
					_, err := server.Elicit[string](r, "second", "?")
					return "", err
				}
				<-ctx.Done()
				return "", ctx.Err()
			})
			questions := 0
			opts := &client.Options{Era: era, Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				if questions++; questions == 2 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"value":"x"}`)}, nil
			}}
			session := connectInMemory(t, s, opts)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := session.CallTool(ctx, "ask", nil, nil); err == nil {
				t.Error("the call has succeeded")
			}
			cancel()
			synctest.Wait()
			if waits && era == client.Modern { // no request is open that could be cancelled
				eratest.Pass(12 * time.Minute)
			}
			select {
			case cause := <-ended:
				if cause == nil {
					t.Error("the context of the function has not ended")
				}
			default:
				t.Errorf("the function has not ended, waits for an answer: %t", waits)
			}
			session.Close()
			shutdown(t, s)
		}
	})
}

// A shutdown waits for functions that work, and those cannot ask.
func TestShutdownWaitsForBlockingFunctions(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
		var ended atomic.Bool
		server.AddTool(s, server.Tool{Name: "ask", Blocking: true}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			<-time.After(time.Minute)
			defer ended.Store(true)
			_, err := server.Elicit[bool](r, "q", "?")
			return fmt.Sprint("asking: ", err), nil
		})
		session := connectInMemory(t, s, agreeable(era))
		answered := make(chan string)
		go func() {
			result, err := session.CallTool(t.Context(), "ask", nil, &client.CallOptions{Timeout: time.Hour})
			if err != nil {
				answered <- err.Error()
				return
			}
			answered <- textOf(result)
		}()
		synctest.Wait()
		done := make(chan struct{})
		go func() {
			shutdown(t, s)
			if !ended.Load() {
				t.Error("the shutdown has not waited for the function")
			}
			close(done)
		}()
		if got := <-answered; got != "asking: the server is shutting down" {
			t.Errorf("the tool says %q", got)
		}
		<-done
	})
}

// A function whose call has been answered with the end of its time ends too, and so does one that panics.
func TestBlockingFunctionFails(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		var logged strings.Builder
		s := newServer(&server.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		add := func(name string, fail func(ctx context.Context) (string, error)) {
			server.AddTool(s, server.Tool{Name: name, Blocking: true, Timeout: time.Second}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				if _, err := server.Elicit[bool](r, "q", "?"); err != nil {
					return "", err
				}
				return fail(ctx)
			})
		}
		add("panics", func(context.Context) (string, error) { panic("out of flour") })
		add("fails", func(context.Context) (string, error) { return "", errors.New("out of flour") })
		add("late", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) })
		opts := agreeable(era)
		answer := opts.Elicit
		opts.Elicit = func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			<-time.After(time.Minute) // which does not count
			return answer(ctx, params)
		}
		session := connectInMemory(t, s, opts)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := session.CallTool(ctx, "panics", nil, nil); !strings.HasPrefix(message(err), "internal error, reference ") {
			t.Errorf("a panic is %v", err)
		}
		if !strings.Contains(logged.String(), "out of flour") || !strings.Contains(logged.String(), "stack=") {
			t.Errorf("the log is %s", logged.String())
		}
		for name, want := range map[string]string{"fails": "out of flour", "late": `tool "late" took longer than 1s`} {
			result, err := session.CallTool(ctx, name, nil, nil)
			if err != nil || !result.IsError || textOf(result) != want {
				t.Errorf("%s: %v, %v, want %q", name, result, err, want)
			}
		}
		shutdown(t, s)
	})
}

// A client has a limited number of functions, of each of which it has been refused none after it has begun.
func TestLimitOfBlockingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(&server.Options{Logger: discardLogger()})
		defer shutdown(t, s)
		tool := addBlocking(s, server.Tool{})
		connect := func(principal string) *blockingPeer {
			p := *tool
			p.Peer = eratest.ConnectAs(t, s, principal)
			p.Version, p.Capabilities = mcp.LatestVersion, eratest.Askable
			return &p
		}
		ann, bob := connect("ann"), connect("bob")
		var states []string
		for range 64 {
			states = append(states, ann.ask(noArguments))
		}
		eratest.WantError(t, ann.Call(mcp.MethodToolsCall, `{"name":"ask"}`), jsonrpc.Busy)
		bob.ask(noArguments)
		if n := tool.begun.Load(); n != 65 {
			t.Errorf("%d functions have begun, want 65", n)
		}
		if reply := ann.answer(noArguments, states[0], 1); eratest.ResultText(reply) != "done" {
			t.Errorf("the reply is %s", reply)
		}
		ann.ask(noArguments)
		eratest.WantError(t, bob.answer(noArguments, states[1], 1), jsonrpc.InvalidParams) // of another client
	})
}

// Functions use a part of what clients may leave behind, and nothing when they have ended.
func TestBlockingCallsAreRetained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(&server.Options{Logger: discardLogger(), RetainedBytes: 400 << 10})
		defer shutdown(t, s)
		p := addBlocking(s, server.Tool{}).connect(t, s)
		for range 3 {
			var states []string
			for {
				reply := p.Call(mcp.MethodToolsCall, `{"name":"ask","arguments":{}}`)
				if eratest.At(reply, "error") != "" {
					eratest.WantError(t, reply, jsonrpc.Busy)
					break
				}
				states = append(states, p.stateOf(reply))
			}
			if n := len(states); n < 4 || n > 6 { // a quarter, and 17 KiB for each
				t.Errorf("%d functions wait", n)
			}
			for _, state := range states {
				p.answer(noArguments, state, 1)
			}
			eratest.Pass(2 * time.Minute)
		}
		if p.begun.Load() != p.ended.Load() {
			t.Errorf("%d functions have begun and %d have ended", p.begun.Load(), p.ended.Load())
		}
	})
}

// A mounted tool waits at the server that has received the call.
func TestMountedBlockingTool(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		inner, outer := newServer(nil), newServer(nil)
		addBlockingTo := func(s *server.Server) *atomic.Int32 {
			var runs atomic.Int32
			server.AddTool(s, server.Tool{Name: "ask", Blocking: true}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				runs.Add(1)
				sure, err := server.Elicit[bool](r, "q", "?")
				return fmt.Sprint(sure), err
			})
			return &runs
		}
		runs := addBlockingTo(inner)
		mountProvider(t, outer, inner.Provider(), "in_")
		session := connectWith(t, outer, agreeable(era))
		if got := textOf(call(t, session, "in_ask", `{}`)); got != "true" || runs.Load() != 1 {
			t.Errorf("the tool says %q after %d runs", got, runs.Load())
		}
	})
}

// newBlockingReplicas returns replicas with one store and one tool, and a peer of each.
func newBlockingReplicas(t *testing.T, shared store.Store) (servers []*server.Server, peers []*blockingPeer) {
	t.Helper()
	for range 2 {
		s := newServer(&server.Options{Store: shared, Logger: discardLogger()})
		servers = append(servers, s)
		peers = append(peers, addBlocking(s, server.Tool{}).connect(t, s))
	}
	return servers, peers
}

// A call continues at the replica that has its function, whichever replica gets the answers, also with large results.
func TestBlockingCallContinuesAtAnotherReplica(t *testing.T) {
	for name, arguments := range map[string]string{
		"small": `{"questions":3}`, "large": `{"questions":3,"size":2000000}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers, peers := newBlockingReplicas(t, newStore(t))
				here, there := peers[0], peers[1]
				state := here.stateOf(here.Call(mcp.MethodToolsCall, `{"name":"ask","arguments":`+arguments+`}`))
				second := there.stateOf(there.answer(arguments, state, 1))
				third := here.stateOf(here.answer(arguments, second, 2))
				id := there.Start(mcp.MethodToolsCall, answering(arguments, third, 3))
				reply := there.next()
				if eratest.At(reply, "id") != id || !strings.HasPrefix(eratest.ResultText(reply), "done") {
					t.Errorf("the reply is %.200s", reply)
				}
				if got, want := len(eratest.ResultText(reply)), len("done"); name == "large" && got != want+2000000 {
					t.Errorf("the result has %d bytes, want %d", got, want+2000000)
				}
				if got := there.answer(arguments, third, 3); eratest.ResultText(got) != eratest.ResultText(reply) { // again
					t.Errorf("the second reply is %.200s", got)
				}
				if here.begun.Load() != 1 || here.after.Load() != 3 || there.begun.Load() != 0 {
					t.Errorf("the function has begun %d and %d times, and was continued %d times", here.begun.Load(), there.begun.Load(), here.after.Load())
				}
				for _, s := range servers {
					shutdown(t, s)
				}
			})
		})
	}
}

// Progress of a function arrives in the request at another replica.
func TestBlockingCallReportsThroughReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, peers := newBlockingReplicas(t, newStore(t))
		const arguments = `{"questions":2}`
		state := peers[0].ask(arguments)
		peers[1].Start(mcp.MethodToolsCall, answering(arguments, state, 1))
		progress := peers[1].next()
		eratest.Want(t, progress, `"t1"`, "params", "progressToken")
		eratest.Want(t, progress, `1`, "params", "progress")
		peers[1].stateOf(peers[1].next())
		for _, s := range servers {
			shutdown(t, s)
		}
	})
}

// A cancelled request at another replica interrupts the function.
func TestBlockingCallIsCancelledAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		var servers []*server.Server
		ended := make(chan error, 1)
		for range 2 {
			s := newServer(&server.Options{Store: shared, Logger: discardLogger()})
			server.AddTool(s, server.Tool{Name: "ask", Blocking: true}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				if _, err := server.Elicit[string](r, "q", "?"); err != nil {
					return "", err
				}
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return "", ctx.Err()
			})
			servers = append(servers, s)
		}
		here := (&blockingPeer{}).connect(t, servers[0])
		there := (&blockingPeer{}).connect(t, servers[1])
		state := here.ask(noArguments)
		id := there.Start(mcp.MethodToolsCall, answering(noArguments, state, 1))
		eratest.Pass(5 * time.Second)
		there.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		eratest.Pass(5 * time.Second)
		select {
		case <-ended:
		default:
			t.Error("the function works on")
		}
		for _, s := range servers {
			shutdown(t, s)
		}
	})
}

// When the replica with the function has ended, or cannot be reached, the call fails and does not run again.
func TestReplicaOfBlockingCallIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, peers := newBlockingReplicas(t, newStore(t))
		const arguments = `{"questions":2}`
		state := peers[0].ask(arguments)
		shutdown(t, servers[0])
		began := time.Now()
		wantType(t, peers[1].answer(arguments, state, 1), "CALL_LOST")
		if waited := time.Since(began); waited > 15*time.Second {
			t.Errorf("the client has waited %v", waited)
		}
		if peers[1].begun.Load() != 0 {
			t.Error("the function has begun again")
		}
		shutdown(t, servers[1])
	})
}

// Servers with common keys and without a common store cannot continue each other's functions.
func TestBlockingCallWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := [][]byte{[]byte(strings.Repeat("k", 32))}
		one, other := newServer(&server.Options{StateKeys: keys}), newServer(&server.Options{StateKeys: keys})
		defer shutdown(t, one)
		defer shutdown(t, other)
		here, there := addBlocking(one, server.Tool{}).connect(t, one), addBlocking(other, server.Tool{}).connect(t, other)
		state := here.ask(noArguments)
		wantType(t, there.answer(noArguments, state, 1), "CALL_ELSEWHERE")
		if reply := here.answer(noArguments, state, 1); eratest.ResultText(reply) != "done" || there.begun.Load() != 0 {
			t.Errorf("the reply is %s", reply)
		}
	})
}

// A blocking function waits as a task too. The cancellation of the task ends it.
func TestBlockingToolAsTask(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(c *taskClient, id string)
		want   mcp.TaskStatus
		pass   time.Duration // until the function has ended
	}{
		"answered":  {func(c *taskClient, id string) { c.answer(id, "q", `{"action":"accept","content":{"value":"yes"}}`) }, mcp.TaskCompleted, 0},
		"cancelled": {func(c *taskClient, id string) { c.cancel(id) }, mcp.TaskCancelled, time.Second},
		"too late": {func(c *taskClient, id string) {
			eratest.Pass(12 * time.Minute)
			c.answer(id, "q", `{"action":"accept","content":{"value":"yes"}}`)
		}, mcp.TaskFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &server.Options{Logger: discardLogger()}, func(t *testing.T, c *taskClient) {
				tool := addBlocking(c.server, server.Tool{Task: server.TaskOptional})
				id := c.start("ask", noArguments)
				c.expect(id, mcp.TaskInputRequired)
				test.answer(c, id)
				eratest.Pass(test.pass)
				c.expect(id, test.want)
				if tool.begun.Load() != 1 || tool.ended.Load() != 1 {
					t.Errorf("the function has begun %d times and ended %d times", tool.begun.Load(), tool.ended.Load())
				}
			})
		})
	}
}

// An answer does not continue the function of a variant that the caller no longer sees, also if the definitions are equal.
func TestAnswerToHiddenVariant(t *testing.T) {
	for name, descriptions := range map[string][2]string{"equal definitions": {"asks", "asks"}, "other definitions": {"asks the owner", "asks a guest"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var demoted atomic.Bool
				s := newServer(&server.Options{Logger: slog.New(slog.DiscardHandler)})
				var entries []*server.Entry
				for i, description := range descriptions {
					visible := mcp.Guard{Name: "role", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return demoted.Load() == (i == 1) }}
					e, err := server.NewTool(server.Tool{Name: "ask", Description: description, Blocking: true, Guards: []mcp.Guard{visible}},
						func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
							_, err := server.Elicit[bool](r, "q", "Sure?")
							return fmt.Sprint("variant ", i), err
						})
					if err != nil {
						t.Fatal(err)
					}
					entries = append(entries, e)
				}
				if err := s.Replace(entries...); err != nil {
					t.Fatal(err)
				}
				session := connectWith(t, s, &client.Options{Era: client.Modern, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					demoted.Store(true)
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":true}`)}, nil
				}})
				result, err := session.CallTool(t.Context(), "ask", nil, nil)
				got := message(err)
				if err == nil {
					got = result.Text()
				}
				if strings.Contains(got, "variant") || err == nil && !result.IsError {
					t.Errorf("got %q, %v", got, err)
				}
				session.Close()
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
