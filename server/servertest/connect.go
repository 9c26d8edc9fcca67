package servertest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/server/internal/effects"
	"github.com/dovetail-go/dovetail/server/internal/unasked"
	"github.com/dovetail-go/dovetail/transport"
)

// Transports. None of them needs a socket or a process.
const (
	pipe           = "pipe"       // messages in memory
	stdioLines     = "stdio"      // lines, as between a client and its child process
	streamableHTTP = "streamable" // Streamable HTTP
	httpSSE        = "sse"        // HTTP+SSE, of the versions that begin with a handshake
	webSocket      = "ws"
)

// A Mode is a transport and a family of protocol versions. The zero Mode is a pipe with the newest
// version.
type Mode struct {
	// Transport carries the messages: "pipe" (in memory), "stdio" (lines, as between a client and its child process),
	// "streamable" (Streamable HTTP), "sse" (HTTP+SSE, of the versions that begin with a handshake) or "ws"
	// (WebSocket). Default "pipe".
	Transport string
	Era       client.Era
}

// String returns the transport and the era, such as "pipe/modern".
func (m Mode) String() string { return cmp.Or(m.Transport, pipe) + "/" + m.Era.String() }

// EachMode runs a test in each mode, as a subtest with the name of the mode: over each
// transport, with the newest version and, as most clients do, with a handshake.
func EachMode(t *testing.T, test func(t *testing.T, mode Mode)) {
	t.Helper()
	for _, transport := range []string{pipe, stdioLines, streamableHTTP, httpSSE, webSocket} {
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			if mode := (Mode{transport, era}); transport != httpSSE || era == client.Legacy {
				t.Run(mode.String(), func(t *testing.T) { test(t, mode) })
			}
		}
	}
}

// Options configures [Connect]. The zero value is valid.
type Options struct {
	// Mode is the transport and the protocol version.
	Mode Mode
	// Principal is the name of the authenticated client. Default: none.
	Principal string
	// Scopes are the scopes of the client's token. A call that needs another scope fails as it does
	// behind package oauth. Default: nil, which means that scopes are not checked.
	Scopes []string

	// Answers are the answers to the server's questions. The key is the message of an elicitation,
	// or the text of the last message to the model. The value is one of these:
	//
	//   - mcp.ElicitAccept, mcp.ElicitDecline or mcp.ElicitCancel: what the user does;
	//   - an *mcp.ElicitResult or *mcp.CreateMessageResult: the result;
	//   - a string, for a question to the model: its text;
	//   - a func() any, which is called for each question: one of the others;
	//   - any other value: the form. A struct or a map is the whole form, and another value is the
	//     answer to a form with one field.
	//
	// Other questions are passed to Client.Elicit and Client.Sample if these are set. A question
	// without an answer fails the test.
	Answers map[string]any
	// NoQuestions makes the client declare that it cannot be asked. Answers must be empty then.
	NoQuestions bool
	// Client configures the client. Its Era has no effect. Its Logger discards records by default.
	Client client.Options

	// Fault, if set, is called for each message and says what happens to it. It may block, which
	// delays the message and, except over "streamable", those after it. It is called concurrently.
	Fault func(message Message) Fault

	// Transcript is the path of a file with the messages of the session. When the test ends, the
	// messages are compared with the file, or written to it; see the package documentation. At most
	// 10,000 messages and 16 MiB are recorded. Make calls one after another, since the order of
	// concurrent ones varies. Default: none.
	Transcript string
	// Volatile are the names of members whose values differ in each session, such as "createdAt". In
	// the texts of tools they count too if the text is JSON. The values of two sessions need not be
	// equal, but the same value must recur at the same places. The encrypted state of a call that
	// asks is always among them.
	Volatile []string
}

// shutdownTimeout bounds the shutdown of a server.
const shutdownTimeout = 10 * time.Second

// Connect opens a session with a server. It stops the test if that fails. opts may be nil.
//
// A function that opens a question and does not return its error fails the test: the question is
// not asked.
//
// When the test ends, the session is closed and the server is shut down; a tool that does not end
// within 10 seconds fails the test. Create a server for each test. Several sessions of one test may
// share a server.
func Connect(tb testing.TB, server transport.Server, opts *Options) *client.Session {
	tb.Helper()
	c := newConnection(tb, server, opts)
	tb.Cleanup(func() {
		tb.Helper()
		c.close()
	})
	dialer := c.dialer()
	settings := c.options.Client
	settings.Era = c.options.Mode.Era
	c.setAnswers(&settings)
	session, err := client.Connect(tb.Context(), dialer, &settings)
	if err != nil {
		tb.Fatalf("servertest: connect over %v: %v", c.options.Mode, err)
	}
	c.session = session
	return session
}

// A connection has the client, the server and the goroutines of one call of Connect.
type connection struct {
	testing.TB
	options  Options
	server   transport.Server
	session  *client.Session // nil until it is open
	recorder *recorder       // nil without a transcript
	faults   *faults         // nil without Options.Fault
	output   *testOutput
	effects  *effects.Calls
	stop     func(stuck bool) // ends an HTTP server, and waits for its requests unless they are stuck
}

func newConnection(tb testing.TB, server transport.Server, opts *Options) *connection {
	c := &connection{TB: tb, server: server, output: &testOutput{tb: tb}}
	if opts != nil {
		c.options = *opts
	}
	c.effects = effects.NewCalls(c.report)
	return c
}

// watch returns the context of the server's end, or of a request. With it, a question that is opened
// and not asked fails the test, and so does an effect that is repeated.
func (c *connection) watch(ctx context.Context) context.Context {
	return effects.WithCalls(unasked.WithReport(ctx, c.report), c.effects)
}

// report fails the test.
func (c *connection) report(text string) {
	_, _ = c.output.Write([]byte("servertest: " + text)) // never fails
	c.output.fail()
}

func (c *connection) close() {
	c.Helper()
	defer c.output.end()
	if c.session != nil {
		_ = c.session.Close() // returns nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := c.server.Shutdown(ctx)
	if err != nil {
		c.Errorf("servertest: shut down the server: %v", err)
	}
	if c.stop != nil {
		c.stop(err != nil)
	}
	if c.recorder != nil && c.session != nil {
		c.recorder.check(c.TB, c.options.Transcript)
	}
}

// Main runs the tests of a package and exits. If the tests pass and goroutines still run two seconds
// later, it prints their stacks and exits with 1.
func Main(m *testing.M) { leaktest.Main(m) }
