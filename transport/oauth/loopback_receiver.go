package oauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// A LoopbackReceiver takes answers at a port of 127.0.0.1, which only this machine can
// reach. RFC 8252, section 7.3. Each answer has a listener of its own, which takes the
// one with the right state and is gone. The zero value is good.
type LoopbackReceiver struct {
	// Page is what the person reads when the answer has come, as plain text. Default a
	// sentence in English.
	Page string
}

const (
	callbackPath = "/callback"
	defaultPage  = "You can close this window now, and go back to the application.\n"
)

// Open listens: at the port of the last time, if it is free.
func (r *LoopbackReceiver) Open(ctx context.Context, state, before string) (Reception, error) {
	listener, err := listenLoopback(ctx, before)
	if err != nil {
		return nil, err
	}
	page := r.Page
	if page == "" {
		page = defaultPage
	}
	l := &loopback{
		host: listener.Addr().String(), page: page, state: Secret(state),
		answer: make(chan url.Values, 1), ended: make(chan struct{}),
	}
	l.server = &http.Server{
		Handler: l, ReadTimeout: fetchTimeout, WriteTimeout: fetchTimeout, MaxHeaderBytes: maxAnswer,
	}
	go func() {
		defer close(l.ended)
		_ = l.server.Serve(listener) // it ends when Close says so
	}()
	return l, nil
}

func listenLoopback(ctx context.Context, before string) (net.Listener, error) {
	var config net.ListenConfig
	if u, err := url.Parse(before); err == nil && u.Hostname() == "127.0.0.1" && u.Port() != "" && u.Path == callbackPath {
		if listener, err := config.Listen(ctx, "tcp4", u.Host); err == nil {
			return listener, nil
		}
	}
	return config.Listen(ctx, "tcp4", "127.0.0.1:0")
}

// A loopback waits for one answer.
type loopback struct {
	host   string // where it listens
	server *http.Server
	page   string
	state  Secret

	answer  chan url.Values // the one answer
	ended   chan struct{}   // closed when the server has ended
	closing sync.Once

	mu    sync.Mutex
	taken bool // the answer has come
}

// Format does not tell the state.
func (l *loopback) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, l.RedirectURI()) }

// RedirectURI is where the listener is.
func (l *loopback) RedirectURI() string { return "http://" + l.host + callbackPath }

// Wait waits for the answer.
func (l *loopback) Wait(ctx context.Context) (url.Values, error) {
	select {
	case answer := <-l.answer:
		return answer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.ended:
		return nil, errReceiverClosed
	}
}

var errReceiverClosed = errors.New("oauth: the receiver was closed")

// ServeHTTP takes the answer. Others that come here, such as a page that guesses at the
// port, learn nothing and spoil nothing.
func (l *loopback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Connection", "close")
	switch {
	case r.Host != l.host: // a name that was rebound
		w.WriteHeader(http.StatusMisdirectedRequest)
	case r.Method != http.MethodGet || r.URL.Path != callbackPath:
		w.WriteHeader(http.StatusNotFound)
	case !l.take(r.URL.RawQuery):
		w.WriteHeader(http.StatusBadRequest)
	default:
		_, _ = io.WriteString(w, l.page)
	}
}

// take takes an answer, if it has the state. Any number of others may come before: nobody
// guesses that, and who could make it give up would spoil the login.
func (l *loopback) take(query string) bool {
	answer, err := url.ParseQuery(query)
	if err != nil || len(answer["state"]) != 1 || subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(l.state)) != 1 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken {
		return false
	}
	l.taken = true
	l.answer <- answer
	return true
}

// Close ends the listener, and waits until nothing of it runs. A page that is on its way
// gets through.
func (l *loopback) Close() error {
	l.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if l.server.Shutdown(ctx) != nil {
			_ = l.server.Close() // who has connected and says nothing is cut off
		}
	})
	<-l.ended
	return nil
}
