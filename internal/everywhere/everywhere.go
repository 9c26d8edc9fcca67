// Package everywhere runs the tests of a package over every transport, unchanged:
//
//	func TestMain(m *testing.M) { everywhere.Main(m) }
//
// A test connects by [Dialer], and gets the transport of the run that it is in. Tests
// in virtual time cannot wait for sockets: they use transport.Pipe, in every run.
package everywhere

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

const (
	pipe           = "pipe"
	overStreamable = "streamable"
	overSSE        = "sse"
	overWS         = "ws"

	// variable holds the transport of the run.
	variable = "DOVETAIL_TEST_TRANSPORT"
)

// Main runs the tests once over each transport, checks that they leave no goroutines
// behind, and exits. A variable DOVETAIL_TEST_TRANSPORT chooses one; benchmarks and
// fuzzing use the pipe.
func Main(m *testing.M) {
	leak.MainOf(func() int {
		transports := []string{pipe, overStreamable, overSSE, overWS}
		if chosen := os.Getenv(variable); chosen != "" {
			transports = []string{chosen}
		} else if flag.Parse(); isSet("test.bench") || isSet("test.fuzz") || isSet("test.fuzzworker") {
			transports = transports[:1]
		}
		for _, name := range transports {
			if err := os.Setenv(variable, name); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			if code := m.Run(); code != 0 {
				fmt.Fprintf(os.Stderr, "everywhere: this was over %s\n", name)
				return code
			}
		}
		return 0
	})
}

func isSet(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != f.DefValue
}

// Dialer connects to a server over the transport of this run; what carries it ends
// with the test.
func Dialer(tb testing.TB, server transport.Binder) transport.Dialer {
	tb.Helper()
	switch name := os.Getenv(variable); name {
	case pipe, "":
		return transport.Pipe(server)
	case overStreamable:
		endpoint := streamable.Handler(server, nil)
		return streamable.Dial(serve(tb, endpoint), nil)
	case overSSE:
		endpoint := sse.Handler(server, nil)
		return sse.Dial(serve(tb, endpoint), nil)
	case overWS:
		endpoint := ws.Handler(server, nil)
		return ws.Dial(serve(tb, endpoint), nil)
	default:
		tb.Fatalf("%s is %q, expected one of %q", variable, name, []string{pipe, overStreamable, overSSE, overWS})
		return nil
	}
}

func serve(tb testing.TB, endpoint interface {
	http.Handler
	io.Closer
}) (url string) {
	tb.Helper()
	server := httptest.NewServer(endpoint)
	tb.Cleanup(func() {
		if err := endpoint.Close(); err != nil {
			tb.Error(err)
		}
		server.Close()
	})
	return server.URL
}

// CarriesModern says whether the transport of this run carries versions without a
// handshake. HTTP+SSE is older.
func CarriesModern() bool { return os.Getenv(variable) != overSSE }
