package servertest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A test scripts the answers of the user.
func ExampleConnect() {
	runTest(func(t testing.TB) { // in a test, t is its *testing.T
		session := servertest.Connect(t, newServer(nil), &servertest.Options{
			Mode: servertest.Mode{Transport: "streamable", Era: client.Legacy},
			Answers: map[string]any{
				"How many guests?": 4,
				"Which name?":      map[string]string{"first": "Ada", "last": "Lovelace"},
			},
		})
		booked, err := client.CallAs[string](t.Context(), session, "book", nil, nil)
		fmt.Println(booked, err)
	})
	// Output: 4 for Ada Lovelace <nil>
}

// The answer to the first call is lost, and the client cannot know whether the tool ran.
func ExampleConnect_fault() {
	runTest(func(t testing.TB) {
		session := servertest.Connect(t, newServer(nil), &servertest.Options{
			Fault: func(m servertest.Message) servertest.Fault {
				if m.FromServer && m.Method == mcp.MethodToolsCall {
					return servertest.Cut
				}
				return servertest.Deliver
			},
		})
		_, err := session.CallTool(t.Context(), "upper", map[string]string{"text": "a"}, nil)
		fmt.Println(err)
	})
	// Output: tools/call: connection closed (may have been executed)
}

func ExampleGolden() {
	runTest(func(t testing.TB) {
		session := servertest.Connect(t, newServer(nil), nil)
		servertest.Golden(t, session, "testdata/catalog.json")
	})
	// Output:
}

// The client is tested with a session that was recorded.
func ExampleReplayServer() {
	runTest(func(t testing.TB) {
		recorded := servertest.ReplayServer(t, "testdata/upper.jsonl")
		session, err := client.Connect(t.Context(), transport.Pipe(recorded), nil)
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		defer session.Close()
		text, err := client.CallAs[string](t.Context(), session, "upper", map[string]string{"text": "hello"}, nil)
		fmt.Println(text, err)
	})
	// Output: HELLO <nil>
}

// A session over a network is recorded.
func ExampleRecord() {
	endpoint := streamable.Handler(newServer(nil), nil)
	web := httptest.NewServer(endpoint)
	defer web.Close()
	defer endpoint.Close()
	runTest(func(t testing.TB) {
		opts := &streamable.DialOptions{Conn: jsonrpc.Options{Trace: servertest.Record(t, "testdata/remote.jsonl")}}
		session, err := client.Connect(t.Context(), streamable.Dial(web.URL, opts), nil)
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		defer session.Close()
		text, err := client.CallAs[string](t.Context(), session, "upper", map[string]string{"text": "hello"}, nil)
		fmt.Println(text, err)
	})
	// Output: HELLO <nil>
}

// The server still answers as it did when the session was recorded.
func ExampleCheckTranscript() {
	runTest(func(t testing.TB) {
		servertest.CheckTranscript(t, newServer(nil), "testdata/upper.jsonl", nil)
	})
	// Output:
}

// A tool panics, so the test fails.
func ExampleLogger() {
	runTest(func(t testing.TB) {
		s := newServer(&server.Options{Logger: servertest.Logger(t)})
		session := servertest.Connect(t, s, nil)
		_, err := session.CallTool(t.Context(), "panic", nil, nil)
		fmt.Println(err != nil)
	})
	// Output:
	// true
	// the test has failed
}

// exampleTB is the test of an example.
type exampleTB struct {
	testing.TB
	ctx      context.Context
	failed   bool
	cleanups []func()
}

// runTest runs a test and prints its failures.
func runTest(test func(t testing.TB)) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t := &exampleTB{ctx: ctx}
	test(t)
	cancel()
	for _, cleanup := range slices.Backward(t.cleanups) {
		cleanup()
	}
	if t.failed {
		fmt.Println("the test has failed")
	}
}

func (t *exampleTB) Helper()                  {}
func (t *exampleTB) Context() context.Context { return t.ctx }
func (t *exampleTB) Cleanup(fn func())        { t.cleanups = append(t.cleanups, fn) }
func (t *exampleTB) Fail()                    { t.failed = true }
func (t *exampleTB) Failed() bool             { return t.failed }
func (t *exampleTB) Logf(string, ...any)      {}

func (t *exampleTB) Errorf(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
	t.Fail()
}

func (t *exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// The files of the examples.
func TestFilesOfExamples(t *testing.T) {
	session := servertest.Connect(t, newServer(nil), &servertest.Options{Transcript: "testdata/upper.jsonl"})
	if _, err := session.CallTool(t.Context(), "upper", map[string]string{"text": "hello"}, nil); err != nil {
		t.Error(err)
	}
	servertest.Golden(t, servertest.Connect(t, newServer(nil), nil), "testdata/catalog.json")
}
