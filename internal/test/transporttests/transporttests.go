package transporttests

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

const (
	pipe           = "pipe"
	overStreamable = "streamable"
	overSSE        = "sse"
	overWS         = "ws"

	// Suffixes of the transports over HTTP.
	encrypted = "-tls" // HTTP/1.1 over TLS
	http2     = "-h2"  // HTTP/2 over TLS

	// envTransport is the environment variable with the transport of the run.
	envTransport = "DOVETAIL_TEST_TRANSPORT"
	// envDialing is the environment variable with the folder that has a file for each test that
	// called [Dialer].
	envDialing = "DOVETAIL_TEST_DIALING"
)

// plain returns the transports of a run that names none.
func plain() []string { return []string{pipe, overStreamable, overSSE, overWS} }

// all returns the transports that a run can name. WebSockets use HTTP/1.1 in any case.
func all() []string {
	return append(plain(), overStreamable+encrypted, overStreamable+http2, overSSE+encrypted, overSSE+http2, overWS+encrypted)
}

// Main runs the tests over the pipe, runs those that called [Dialer] again over streamable HTTP,
// HTTP+SSE and WebSockets, checks for goroutine leaks, and exits. The variable
// DOVETAIL_TEST_TRANSPORT names other transports, separated by commas: all tests run over the first
// one. It knows also streamable-tls, streamable-h2, sse-tls, sse-h2 and ws-tls. Benchmarks and fuzzing
// use the first transport only.
func Main(m *testing.M) {
	leaktest.MainOf(func() int {
		transports := plain()
		if chosen := os.Getenv(envTransport); chosen != "" {
			transports = strings.Split(chosen, ",")
		}
		flag.Parse()
		if isSet("test.bench") || isSet("test.fuzz") || isSet("test.fuzzworker") || isSet("test.list") {
			transports = transports[:1]
		}
		return runOver(transports, m.Run)
	})
}

// runOver runs the tests over the transports and returns the exit status.
func runOver(transports []string, run func() int) int {
	dialing, err := os.MkdirTemp("", "dialing")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dialing)
	for i, name := range transports {
		if !slices.Contains(all(), name) {
			fmt.Fprintf(os.Stderr, "%s has %q, expected some of %q\n", envTransport, name, all())
			return 1
		}
		if i > 0 && !selectTests(dialing) {
			break
		}
		if err := errors.Join(os.Setenv(envTransport, name), os.Setenv(envDialing, dialing)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if code := run(); code != 0 {
			fmt.Fprintf(os.Stderr, "transporttests: failed over %s\n", name)
			return code
		}
	}
	return 0
}

// recordDialing notes that a test dials, as a file with the name of the test.
func recordDialing(tb testing.TB) {
	folder := os.Getenv(envDialing)
	if folder == "" {
		return // the tests of this package
	}
	name, _, _ := strings.Cut(tb.Name(), "/")
	if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// selectTests restricts the next run to the tests that dialed. It returns false if there are none.
func selectTests(dialing string) bool {
	files, err := os.ReadDir(dialing)
	if err != nil || len(files) == 0 {
		return false
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name()
	}
	pattern := "^(" + strings.Join(names, "|") + ")$"
	chosen := flag.Lookup("test.run").Value
	if _, subtests, ok := strings.Cut(chosen.String(), "/"); ok {
		pattern += "/" + subtests
	}
	return chosen.Set(pattern) == nil
}

func isSet(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != f.DefValue
}

// Dialer returns a dialer for a server over the transport of this run. The endpoint is
// closed when the test ends.
func Dialer(tb testing.TB, server transport.Binder) transport.Dialer {
	tb.Helper()
	recordDialing(tb)
	return DialerOver(tb, cmp.Or(current(), pipe), server)
}

// DialerOver is [Dialer] for the transport with a name, such as "streamable-h2".
func DialerOver(tb testing.TB, name string, server transport.Binder) transport.Dialer {
	tb.Helper()
	if !slices.Contains(all(), name) {
		tb.Fatalf("the transport is %q, expected one of %q", name, all())
	}
	carrier, suffix, _ := strings.Cut(name, "-")
	switch carrier {
	case overStreamable:
		url, client := serve(tb, streamable.Handler(server, nil), suffix)
		return streamable.Dial(url, &streamable.DialOptions{HTTPClient: client})
	case overSSE:
		url, client := serve(tb, sse.Handler(server, nil), suffix)
		return sse.Dial(url, &sse.DialOptions{HTTPClient: client})
	case overWS:
		url, client := serve(tb, ws.Handler(server, nil), suffix)
		return ws.Dial(url, &ws.DialOptions{HTTPClient: client})
	}
	return transport.Pipe(server)
}

// serve serves an endpoint over HTTP. The client is nil without TLS, because the dialers have
// their own. With TLS, it has the same settings and trusts the certificate of the server.
func serve(tb testing.TB, endpoint interface {
	http.Handler
	io.Closer
}, suffix string) (url string, client *http.Client) {
	tb.Helper()
	server := httptest.NewUnstartedServer(endpoint)
	network := httptransport.NewClient(nil)
	tb.Cleanup(func() {
		if err := endpoint.Close(); err != nil {
			tb.Error(err)
		}
		network.CloseIdleConnections()
		server.Close()
	})
	start(server, suffix)
	if suffix == "" {
		return server.URL, nil
	}
	network.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	return server.URL, network
}

func start(server *httptest.Server, suffix string) {
	if suffix == "" {
		server.Start()
		return
	}
	server.EnableHTTP2 = "-"+suffix == http2
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that a test interrupts
	server.StartTLS()
}

// StartWeb starts a server with TLS or HTTP/2 if the transport of this run has them. It is for
// tests of one transport, whose requests go through the server's own client.
func StartWeb(server *httptest.Server) {
	_, suffix, _ := strings.Cut(current(), "-")
	start(server, suffix)
}

// current returns the transport of this run. A list of transports is for packages that call [Main],
// which sets the variable to one of them.
func current() string {
	name := os.Getenv(envTransport)
	if strings.Contains(name, ",") {
		return ""
	}
	return name
}

// IsPipe reports whether the tests run over the pipe. A test that tries many random inputs may try fewer over the other
// transports.
func IsPipe() bool { return cmp.Or(current(), pipe) == pipe }

// CarriesModern reports whether the transport of this run supports versions without a
// handshake. HTTP+SSE does not.
func CarriesModern() bool { return !strings.HasPrefix(current(), overSSE) }
