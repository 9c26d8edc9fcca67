package soak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/faults"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// An exchange is a session with one call, whose bytes are cut at each offset.
type exchange struct {
	name      string
	transport string
	era       client.Era
	// progress says that the call reports progress.
	progress bool
	// resumes says that a call continues after its connection breaks.
	resumes bool
}

var exchanges = []exchange{
	{name: "stdio modern", transport: "stdio", era: client.Modern, progress: true},
	{name: "stdio legacy", transport: "stdio", era: client.Legacy, progress: true},
	{name: "streamable modern, JSON", transport: "streamable", era: client.Modern},
	{name: "streamable modern, events", transport: "streamable", era: client.Modern, progress: true},
	{name: "streamable legacy, resumed", transport: "streamable", era: client.Legacy, progress: true, resumes: true},
	{name: "sse", transport: "sse", era: client.Legacy, progress: true},
	{name: "ws modern", transport: "ws", era: client.Modern, progress: true},
	{name: "ws legacy", transport: "ws", era: client.Legacy, progress: true},
}

const (
	// cutTimeout is how long a call, and opening a session, may wait for a silent connection.
	cutTimeout = 400 * time.Millisecond
	// cutLimit is how long a session may take. It is much longer than cutTimeout because many
	// calls run at the same time.
	cutLimit = 20 * time.Second
)

// Wherever a connection breaks, each call has one outcome, which matches its executions. No
// result is wrong, and no call hangs. Calls of sessions over HTTP continue without a
// duplicate or a gap.
func TestCuts(t *testing.T) {
	for _, e := range exchanges {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			cut(t, e)
		})
	}
}

func cut(t *testing.T, e exchange) {
	r := newCutRig(t, e)
	lengths := r.measure(t)
	began := time.Now()
	var runs []*cutRun
	for _, d := range faults.Directions() {
		for _, kind := range faults.Kinds() {
			count := scaled(t, 3, int(lengths[d])+1)
			for i := range count {
				after := lengths[d] * int64(i) / int64(max(count-1, 1))
				runs = append(runs, &cutRun{fault: faults.Fault{Kind: kind, Direction: d, After: after}, nonce: fmt.Sprint("cut ", len(runs))})
			}
		}
	}
	inParallel(len(runs), 24, func(i int) { r.run(t, runs[i]) })
	r.close()
	executed := r.executed(t)
	counts := make(map[outcome]int)
	for _, run := range runs {
		counts[run.outcome]++
		times := executed[run.nonce]
		switch {
		case times > 1:
			t.Errorf("%+v: %s, and was executed %d times", run.fault, run.outcome, times)
		case run.outcome == answered && times != 1:
			t.Errorf("%+v: answered without an execution", run.fault)
		case (run.outcome == notSent || run.outcome == rejected || run.outcome == notConnected) && times != 0:
			t.Errorf("%+v: %s, and was executed: %v", run.fault, run.outcome, run.err)
		}
	}
	t.Logf("%d cuts of %d and %d bytes in %v: %v", len(runs), lengths[0], lengths[1], time.Since(began).Round(time.Millisecond), counts)
}

// notConnected means that opening the session failed, so that there was no call.
const notConnected outcome = "not connected"

// A cutRun is a session whose connection breaks once.
type cutRun struct {
	fault   faults.Fault
	nonce   string
	outcome outcome
	err     error
}

// isSilent reports whether the fault may leave a side waiting.
func (run *cutRun) isSilent() bool {
	return run.fault.Kind == faults.Stall || run.fault.Kind == faults.HalfClose
}

// timeout returns the limit of a call. It is short only if the call must wait for it.
func (run *cutRun) timeout() time.Duration {
	if run.isSilent() {
		return cutTimeout
	}
	return cutLimit
}

// run opens a session, makes a call and records its outcome.
func (r *cutRig) run(t *testing.T, run *cutRun) {
	dialer, stop := r.dial(t, run.fault, run.timeout())
	defer stop()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	hung := time.AfterFunc(cutLimit, func() { cancel(errHangs) }) // CallTimeout bounds calls without a deadline
	defer hung.Stop()
	session, err := client.Connect(ctx, dialer, &client.Options{
		Era: r.exchange.era, ConnectTimeout: run.timeout(), ProbeTimeout: run.timeout(), Limits: client.Limits{Reconnects: 3},
	})
	if err != nil {
		run.outcome, run.err = notConnected, err
		if errors.Is(err, errHangs) {
			t.Errorf("%+v: opening the session hangs", run.fault)
		}
		return
	}
	defer session.Close()
	var mu sync.Mutex
	var reported []float64
	var opts client.CallOptions
	if r.exchange.progress {
		opts.Progress = func(p *mcp.ProgressParams) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, p.Progress)
		}
	}
	result, err := session.CallTool(ctx, "record", echoIn{run.nonce}, &opts)
	mu.Lock()
	defer mu.Unlock()
	run.err = err
	switch {
	case err != nil:
		run.outcome = r.failed(t, run)
	case textOf(result) == run.nonce:
		run.outcome = answered
	default:
		t.Errorf("%+v: the result of %q is %q", run.fault, run.nonce, textOf(result))
	}
	if r.exchange.resumes && len(reported) > 0 && run.outcome != answered && !run.isSilent() {
		t.Errorf("%+v: the stream of the call was not resumed: %v", run.fault, err)
	}
	if !isGapless(reported) || run.outcome == answered && r.exchange.progress && len(reported) != steps {
		t.Errorf("%+v: %s, after the progress %v", run.fault, run.outcome, reported)
	}
}

// isGapless reports whether progress was reported in steps of 1.
func isGapless(list []float64) bool {
	for i := range list {
		if list[i] != float64(i+1) {
			return false
		}
	}
	return true
}

// failed returns the outcome of a call that has failed.
func (r *cutRig) failed(t *testing.T, run *cutRun) outcome {
	if answer, ok := errors.AsType[*jsonrpc.Error](run.err); ok && (answer.Code == jsonrpc.ParseError || answer.Code == jsonrpc.InvalidRequest) {
		return rejected // the server has received a part of the call
	}
	failure, ok := errors.AsType[*jsonrpc.CallError](run.err)
	if !ok || errors.Is(run.err, errHangs) {
		t.Errorf("%+v: the error is %v, want a CallError in time", run.fault, run.err)
		return wrong
	}
	late := errors.Is(run.err, context.DeadlineExceeded)
	if late && !run.isSilent() {
		t.Errorf("%+v: the error is %v, want one without a wait", run.fault, run.err)
	}
	return map[jsonrpc.Delivery]outcome{jsonrpc.NotSent: notSent, jsonrpc.MaybeExecuted: maybeExecuted, jsonrpc.Rejected: rejected}[failure.Delivery]
}

// A cutRig serves the exchange.
type cutRig struct {
	exchange exchange
	log      executionLog
	addr     string // of the server over HTTP
	close    func()
}

func newCutRig(t *testing.T, e exchange) *cutRig {
	r := &cutRig{exchange: e, log: executionLog(t.TempDir()), close: func() {}}
	if err := r.log.append(callFile, "first"); err != nil { // so that the file exists
		t.Fatal(err)
	}
	if e.transport == "stdio" {
		return r
	}
	s := newCutServer(r.log)
	quiet := slog.New(slog.DiscardHandler)
	overStreamable := streamable.Handler(s, &streamable.Options{Logger: quiet})
	overSSE := sse.Handler(s, &sse.Options{Logger: quiet})
	overWS := ws.Handler(s, &ws.Options{Logger: quiet})
	mux := http.NewServeMux()
	mux.Handle("/mcp", overStreamable)
	mux.Handle("/sse", overSSE)
	mux.Handle("/ws", overWS)
	web := httptest.NewUnstartedServer(mux)
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	web.Start()
	r.addr = web.Listener.Addr().String()
	r.close = sync.OnceFunc(func() {
		_ = overStreamable.Close()
		_ = overSSE.Close()
		_ = overWS.Close()
		web.CloseClientConnections()
		web.Close()
	})
	t.Cleanup(r.close)
	return r
}

// newCutServer returns a server that logs the calls that it executes.
func newCutServer(log executionLog) *server.Server {
	s := server.New(mcp.Implementation{Name: "cut", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	server.AddTool(s, server.Tool{Name: "record"}, func(ctx context.Context, r *server.Request, in echoIn) (string, error) {
		if err := log.logCall(in.Nonce); err != nil {
			return "", err
		}
		for i := range steps { // it does nothing for a call without progress
			if err := r.Progress(ctx, float64(i+1), steps, ""); err != nil {
				return "", err
			}
		}
		return in.Nonce, nil
	})
	return s
}

func (r *cutRig) executed(t *testing.T) map[string]int { return r.log.executed(t) }

// dial returns a dialer for a connection that breaks, and a function that ends it.
func (r *cutRig) dial(t *testing.T, f faults.Fault, callTimeout time.Duration) (dialer transport.Dialer, stop func()) {
	limits := jsonrpc.Options{CallTimeout: callTimeout}
	if r.exchange.transport == "stdio" {
		return stdio.Command(os.Args[0], nil, &stdio.CommandOptions{
			Env: []string{
				roleVariable + "=cut server", logVariable + "=" + string(r.log), "GORACE=atexit_sleep_ms=0",
				faultVariable + "=" + fmt.Sprintf("%s,%d,%d", f.Kind, f.Direction, f.After),
			},
			Grace: 50 * time.Millisecond, Conn: limits,
		}), func() {}
	}
	proxy := faults.NewProxy(t, r.addr)
	proxy.Arm(f)
	return r.dialProxy(proxy, limits)
}

func (r *cutRig) dialProxy(proxy *faults.Proxy, limits jsonrpc.Options) (transport.Dialer, func()) {
	web := &http.Transport{}
	stop := func() {
		web.CloseIdleConnections()
		proxy.Close()
	}
	url := "http://" + proxy.Addr()
	httpClient := &http.Client{Transport: web}
	switch r.exchange.transport {
	case "sse":
		return sse.Dial(url+"/sse", &sse.DialOptions{HTTPClient: httpClient, Conn: limits}), stop
	case "ws":
		return ws.Dial(url+"/ws", &ws.DialOptions{Conn: limits}), stop
	}
	return streamable.Dial(url+"/mcp", &streamable.DialOptions{HTTPClient: httpClient, Conn: limits}), stop
}

// measure returns the length of the exchange in each direction.
func (r *cutRig) measure(t *testing.T) (lengths [2]int64) {
	t.Helper()
	if r.exchange.transport == "stdio" {
		// The child cannot report its counts after the session, so the frames are counted.
		var mu sync.Mutex
		dialer := stdio.Command(os.Args[0], nil, &stdio.CommandOptions{
			Env: []string{roleVariable + "=cut server", logVariable + "=" + string(r.log), faultVariable + "=,0,0"},
			Conn: jsonrpc.Options{Trace: func(_ string, sent bool, frame []byte) {
				mu.Lock()
				defer mu.Unlock()
				d := faults.ToClient
				if sent {
					d = faults.ToServer
				}
				lengths[d] += int64(len(frame)) + 1
			}},
		})
		r.succeeds(t, dialer)
		return lengths
	}
	proxy := faults.NewProxy(t, r.addr)
	dialer, stop := r.dialProxy(proxy, jsonrpc.Options{})
	r.succeeds(t, dialer)
	for _, d := range faults.Directions() {
		lengths[d] = proxy.Count(d)
	}
	stop()
	return lengths
}

// succeeds makes a call over a connection without a fault.
func (r *cutRig) succeeds(t *testing.T, dialer transport.Dialer) {
	t.Helper()
	session, err := client.Connect(t.Context(), dialer, &client.Options{Era: r.exchange.era})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	var opts client.CallOptions
	if r.exchange.progress {
		opts.Progress = func(*mcp.ProgressParams) {}
	}
	result, err := session.CallTool(t.Context(), "record", echoIn{"cut 000"}, &opts)
	if err != nil || textOf(result) != "cut 000" {
		t.Fatalf("answered with %v, %v", result, err)
	}
}

// faultVariable holds the fault of a server over stdio: its kind, direction and offset.
const faultVariable = "SOAK_FAULT"

// serveCut is the main function of a server over stdio whose pipes break.
func serveCut() error {
	parts := strings.Split(os.Getenv(faultVariable), ",")
	if len(parts) != 3 {
		return fmt.Errorf("%s is %q", faultVariable, parts)
	}
	direction, err := strconv.Atoi(parts[1])
	if err != nil {
		return err
	}
	after, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return err
	}
	in, toServer, err := os.Pipe()
	if err != nil {
		return err
	}
	fromServer, out, err := os.Pipe()
	if err != nil {
		return err
	}
	injector := faults.NewInjector()
	injector.Arm(faults.Fault{Kind: faults.Kind(parts[0]), Direction: faults.Direction(direction), After: after})
	forwarded := make(chan struct{})
	stdin, stdout := os.Stdin, os.Stdout
	go func() {
		defer close(forwarded)
		dies := func() { os.Exit(7) }
		injector.Forward(faults.Pipes(stdin, stdout, dies), faults.Pipes(fromServer, toServer, func() {}))
	}()
	err = stdio.Serve(context.Background(), newCutServer(executionLog(os.Getenv(logVariable))), &stdio.ServeOptions{In: in, Out: out})
	_ = out.Close()
	if !slices.Contains([]string{string(faults.Stall), string(faults.HalfClose)}, parts[0]) {
		<-forwarded
	}
	return err
}
