package transporttests

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// protocolOf answers with the protocol of the request.
type protocolOf struct{}

func (protocolOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %t", r.Proto, r.TLS != nil)
}

func (protocolOf) Close() error { return nil }

func TestProtocolOfTransport(t *testing.T) {
	for suffix, want := range map[string]string{"": "HTTP/1.1 false", "tls": "HTTP/1.1 true", "h2": "HTTP/2.0 true"} {
		url, web := serve(t, protocolOf{}, suffix)
		if web == nil {
			web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		}
		res, err := web.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if string(body) != want {
			t.Errorf("%q: the request came by %s, want %s", suffix, body, want)
		}
	}
}

// Each transport carries calls, progress, cancellation and questions, in each version that it
// supports.
func TestEveryTransport(t *testing.T) {
	for _, name := range all() {
		eras := []client.Era{client.Modern, client.Legacy}
		if strings.HasPrefix(name, overSSE) {
			eras = eras[1:]
		}
		for _, era := range eras {
			t.Run(fmt.Sprintf("%s/%v", name, era), func(t *testing.T) { testTransport(t, name, era) })
		}
	}
}

type orderIn struct {
	Pad string `json:"pad"`
}

func testTransport(t *testing.T, name string, era client.Era) {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, in orderIn) (string, error) {
		if err := r.Progress(ctx, 1, 2, "half"); err != nil {
			return "", err
		}
		answer, err := server.Elicit[string](r, "sure", "Sure?")
		return fmt.Sprint(len(in.Pad), " ", answer), err
	})
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return "", ctx.Err()
	})
	session, err := client.Connect(t.Context(), DialerOver(t, name, s), &client.Options{
		Era: era,
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: json.RawMessage(`{"value":"yes"}`)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()

	var calls sync.WaitGroup
	for i := range 4 {
		calls.Go(func() {
			steps := 0
			pad := strings.Repeat("x", i*100_000)
			result, err := session.CallTool(t.Context(), "order", orderIn{pad}, &client.CallOptions{Progress: func(*mcp.ProgressParams) { steps++ }})
			if err != nil {
				t.Error(err)
				return
			}
			if text := fmt.Sprint(result.Content[0]); !strings.Contains(text, fmt.Sprint(len(pad), " yes")) || steps == 0 {
				t.Errorf("the result is %s, after %d steps", text, steps)
			}
		})
	}
	calls.Wait()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-began
		cancel()
	}()
	if _, err := session.CallTool(ctx, "wait", struct{}{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled call: %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the function ended with %v", err)
	}
}

func TestMain(m *testing.M) { leaktest.Main(m) }

// The first transport runs all tests. The others run the tests that called Dialer.
func TestOnlyDialingTestsRunOverOtherTransports(t *testing.T) {
	chosen := flag.Lookup("test.run").Value
	before := chosen.String()
	t.Cleanup(func() { _ = chosen.Set(before) })
	t.Setenv(envTransport, "")
	t.Setenv(envDialing, "")
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)

	for name, test := range map[string]struct {
		run  string
		dial bool
		want []string
	}{
		"a test dials":  {"", true, []string{"pipe ", "ws ^(" + t.Name() + ")$"}},
		"subtests":      {"Test/x", true, []string{"pipe Test/x", "ws ^(" + t.Name() + ")$/x"}},
		"no test dials": {"", false, []string{"pipe "}},
	} {
		if err := chosen.Set(test.run); err != nil {
			t.Fatal(err)
		}
		var got []string
		code := runOver([]string{pipe, overWS}, func() int {
			got = append(got, os.Getenv(envTransport)+" "+chosen.String())
			if test.dial {
				t.Run("subtest", func(t *testing.T) { Dialer(t, s) })
			}
			return 0
		})
		if code != 0 || !slices.Equal(got, test.want) {
			t.Errorf("%s: exit status %d, runs %q, want %q", name, code, got, test.want)
		}
	}
}

func TestRunsStopAtTheFirstFailure(t *testing.T) {
	t.Setenv(envTransport, "")
	t.Setenv(envDialing, "")
	for transports, want := range map[string]struct{ code, runs int }{
		"pipe,ws":     {7, 1},
		"pigeon,pipe": {1, 0},
	} {
		runs := 0
		if code := runOver(strings.Split(transports, ","), func() int { runs++; return 7 }); code != want.code || runs != want.runs {
			t.Errorf("%s: exit status %d after %d runs, want %d after %d", transports, code, runs, want.code, want.runs)
		}
	}
}
