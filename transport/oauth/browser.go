package oauth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/internal/procgroup"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// A Receiver receives the authorization responses that a browser delivers to the redirect
// URI.
type Receiver interface {
	// Listen prepares for one response: the one with a state. previousURI is the redirect
	// URI of an earlier response from the same authorization server, "" if there was none.
	// A receiver that uses it again saves a dynamic registration.
	Listen(ctx context.Context, state, previousURI string) (CallbackListener, error)
}

// A CallbackListener waits for one authorization response.
type CallbackListener interface {
	// RedirectURI returns the URL to which the browser delivers the response.
	RedirectURI() string
	// Wait returns the query of the response. When ctx ends first, it returns an error.
	Wait(ctx context.Context) (url.Values, error)
	// Close stops waiting and frees all resources.
	Close() error
}

// A LoopbackReceiver receives responses at a port of 127.0.0.1, which only this machine
// can reach (RFC 8252, section 7.3). Each response has its own listener, which accepts
// only the response with its state. The zero value is ready to use.
type LoopbackReceiver struct {
	// Page is the plain text that the person reads after the response has arrived. Default
	// a sentence in English.
	Page string
	// Port is the port to listen at, for a registration whose redirect URI has a fixed port. Listen
	// returns an error if the port is not free. Default any free port.
	Port uint16
}

const (
	callbackPath = "/callback"
	defaultPage  = "You can close this window now, and go back to the application.\n"
	// maxCallback is the maximum length of a request to a LoopbackReceiver, in bytes.
	maxCallback = 16 << 10
)

// Listen listens at the port of the options, else at the port of previousURI, if it is free, else at
// any port.
func (r *LoopbackReceiver) Listen(ctx context.Context, state, previousURI string) (CallbackListener, error) {
	listener, err := listenLoopback(ctx, r.Port, previousURI)
	if err != nil {
		return nil, err
	}
	l := &loopbackListener{
		host: listener.Addr().String(), page: cmp.Or(r.Page, defaultPage), state: Secret(state),
		response: make(chan url.Values, 1), done: make(chan struct{}),
	}
	l.server = httptransport.NewServer(l)
	l.server.ReadTimeout, l.server.WriteTimeout, l.server.MaxHeaderBytes = fetchTimeout, fetchTimeout, maxCallback
	go func() {
		defer close(l.done)
		_ = l.server.Serve(listener) // returns after Close
	}()
	return l, nil
}

func listenLoopback(ctx context.Context, port uint16, previousURI string) (net.Listener, error) {
	var config net.ListenConfig
	if port != 0 {
		return config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	}
	if u, err := url.Parse(previousURI); err == nil && u.Hostname() == "127.0.0.1" && u.Port() != "" && u.Path == callbackPath {
		if listener, err := config.Listen(ctx, "tcp4", u.Host); err == nil {
			return listener, nil
		}
	}
	return config.Listen(ctx, "tcp4", "127.0.0.1:0")
}

type loopbackListener struct {
	host     string // the address
	server   *http.Server
	page     string
	state    Secret
	received atomic.Bool

	response chan url.Values // has capacity 1
	done     chan struct{}   // closed when the server has ended
	closing  sync.Once
}

// Format prints the redirect URI and not the state.
func (l *loopbackListener) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, l.RedirectURI()) }

func (l *loopbackListener) RedirectURI() string { return "http://" + l.host + callbackPath }

func (l *loopbackListener) Wait(ctx context.Context) (url.Values, error) {
	select {
	case response := <-l.response:
		return response, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.done:
		return nil, errReceiverClosed
	}
}

var errReceiverClosed = errors.New("oauth: the receiver was closed")

// ServeHTTP receives the response. It refuses all other requests: any web page can guess
// the port and send some.
func (l *loopbackListener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Connection", "close")
	switch {
	case r.Host != l.host: // DNS rebinding
		w.WriteHeader(http.StatusMisdirectedRequest)
	case r.Method != http.MethodGet || r.URL.Path != callbackPath:
		w.WriteHeader(http.StatusNotFound)
	case !l.accept(r.URL.RawQuery):
		w.WriteHeader(http.StatusBadRequest)
	default:
		_, _ = io.WriteString(w, l.page)
	}
}

// accept accepts the first response with the state. The number of other requests is not
// limited: the state cannot be guessed, and a limit would let an attacker end the login.
func (l *loopbackListener) accept(query string) bool {
	response, err := url.ParseQuery(query)
	if err != nil || len(response["state"]) != 1 || subtle.ConstantTimeCompare([]byte(response.Get("state")), []byte(l.state)) != 1 {
		return false
	}
	if !l.received.CompareAndSwap(false, true) {
		return false
	}
	l.response <- response
	return true
}

// Close stops the listener and waits for its goroutine. A page that is being sent may take
// one second more.
func (l *loopbackListener) Close() error {
	l.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if l.server.Shutdown(ctx) != nil {
			_ = l.server.Close() // ends idle connections
		}
	})
	<-l.done
	return nil
}

// OpenBrowser opens an https URL, or an http URL of this machine, in the system's browser.
// It starts the system's opener without a shell; the URL is the only argument from
// outside. The error is a [*URLError], or says that the opener did not start or failed
// within two seconds.
func OpenBrowser(ctx context.Context, url string) error {
	return openBrowser(ctx, runtime.GOOS, url, startOpener)
}

func openBrowser(ctx context.Context, system, text string, start func(context.Context, []string) error) error {
	u, err := browserURL(text, true)
	if err != nil {
		return err
	}
	return start(ctx, append(openerCommand(system), u.String()))
}

// openerCommand returns the command that opens URLs. On Windows it is not "start", which
// would interpret the URL as a command line.
func openerCommand(system string) []string {
	switch system {
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case "darwin":
		return []string{"open"}
	}
	return []string{"xdg-open"}
}

// openerTimeout is how long startOpener waits for a failure. An opener that has become the
// browser continues to run.
const openerTimeout = 2 * time.Second

func startOpener(ctx context.Context, command []string) error {
	opener := exec.Command(command[0], command[1:]...) //nolint:noctx // openerCommand and browserURL made it; it outlives the login
	opener.Env = procgroup.Unmarked(os.Environ())      // it must not end with this process
	if err := opener.Start(); err != nil {
		return fmt.Errorf("oauth: opening a browser: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- opener.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("oauth: opening a browser: %s: %w", command[0], err)
		}
	case <-time.After(openerTimeout):
	case <-ctx.Done():
	}
	return nil
}

// maxBrowserURL is the maximum length of a URL for a browser, in bytes. Windows allows command
// lines of 32,767 characters.
const maxBrowserURL = 32_000

// browserURL parses a URL that a browser may open.
func browserURL(text string, loopback bool) (*url.URL, error) {
	if len(text) > maxBrowserURL {
		return nil, &URLError{Reason: fmt.Sprintf("it has %d bytes, expected at most %d", len(text), maxBrowserURL)}
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, &URLError{Reason: "it is not a URL (RFC 3986)"}
	}
	refused := func(reason string) (*url.URL, error) { return nil, &URLError{URL: shown(u), Reason: reason} }
	switch local := netguard.IsLoopback(u.Hostname()); {
	case u.Scheme != "https" && (u.Scheme != "http" || !local || !loopback):
		return refused("only https URLs are opened in a browser")
	case u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-"):
		return refused("expected a host")
	case u.User != nil:
		return refused("it has user information, which can mislead a person")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return refused("expected an authorization endpoint without a fragment (RFC 6749, section 3.1)")
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f || strings.IndexByte("\"'`<>\\^{|}$();", text[i]) >= 0 {
			return refused("it has characters that are not valid in a URL, or that a shell would interpret")
		}
	}
	return u, nil
}
