package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// servedLogins are the logins that operators begin in the console. The tokens are saved, as those of dovetail -login are.
type servedLogins struct {
	mu      sync.Mutex
	servers map[string]*config.Resolved // by alias
	open    map[string]string           // the URLs of logins that go on, by alias; "" until it is known
	running sync.WaitGroup
	ctx     context.Context // of the logins
	end     context.CancelFunc
}

func newServedLogins() *servedLogins {
	l := &servedLogins{open: make(map[string]string)}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// set sets the servers at which a login is possible.
func (l *servedLogins) set(servers []*config.Resolved) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = make(map[string]*config.Resolved)
	for _, server := range servers {
		l.servers[server.Alias] = server
	}
}

// close ends the logins, and waits for them.
func (l *servedLogins) close() {
	l.end()
	l.running.Wait()
}

// begin notes that a login at a server begins. goesOn is the URL of a login that goes on already, if there is one.
func (l *servedLogins) begin(alias string) (server *config.Resolved, goesOn string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	server = l.servers[alias]
	url, open := l.open[alias]
	switch {
	case server == nil:
		return nil, "", fmt.Errorf("there is no server %q in the configuration", alias)
	case open && url == "":
		return nil, "", fmt.Errorf("a login at %s is about to begin: try again", alias)
	case open:
		return nil, url, nil
	case l.ctx.Err() != nil:
		return nil, "", l.ctx.Err()
	}
	l.open[alias] = ""
	l.running.Add(1)
	return server, "", nil
}

func (l *servedLogins) opened(alias, url string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[alias] = url
}

func (l *servedLogins) ended(alias string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, alias)
	l.running.Done()
}

// logIn begins a login at a server, and returns the URL that the operator opens: the browser returns to a port of this machine.
// The server is connected when the operator has logged in.
func (h *hub) logIn(ctx context.Context, alias string) (url string, err error) {
	server, goesOn, err := h.logins.begin(alias)
	if server == nil {
		return goesOn, err
	}
	urls, failed := make(chan string, 1), make(chan error, 1)
	go func() {
		defer h.logins.ended(alias)
		err := h.obtainToken(server, func(to string) {
			h.logins.opened(alias, to)
			urls <- to
		})
		if err == nil {
			err = h.bridge.Restart(alias)
		}
		if err != nil {
			h.events.Error("a login has failed", "server", alias, "error", err)
		} else {
			h.events.Info("an operator has logged in", "server", alias)
		}
		failed <- err
	}()
	select {
	case url := <-urls:
		return url, nil
	case err := <-failed: // or the token of another program was found
		return "", err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// obtainToken lets an operator log in at a server. open gets the URL.
func (h *hub) obtainToken(server *config.Resolved, open func(url string)) error {
	asked := false
	flow := &oauth.CodeFlow{
		Receiver: &oauth.LoopbackReceiver{Port: uint16(server.CallbackPort)},
		Open: func(_ context.Context, to string) error {
			asked = true
			open(to)
			return nil
		},
	}
	tokens, err := h.opts.logins.client(server, flow)
	if err != nil {
		return err
	}
	address := server.URL.Reveal()
	if err = tokens.Login(h.logins.ctx, address); err != nil || asked {
		return err
	}
	// There is a token, and the server has refused it.
	if err := tokens.Logout(h.logins.ctx, address); err != nil {
		h.events.Warn("a refused token was not revoked", "server", server.Alias, "error", err)
	}
	return tokens.Login(h.logins.ctx, address)
}
