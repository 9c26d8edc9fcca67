package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/url"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/store"
)

// maxConnections is how many logins that people have begun at this replica go on at the same time.
const maxConnections = 256

// A connection is a login at a server that a person has begun. The replica at which it has begun waits for the response of the
// authorization server, which the browser delivers to any replica. That puts it here, and waits for the result.
type connection struct {
	Alias     string `json:"alias"`
	Principal string `json:"principal"`
	Browser   string `json:"browser"`            // the ID in its cookie
	Response  string `json:"response,omitempty"` // the query of the response
	Result    string `json:"result,omitempty"`   // of the login: connected, or what went wrong
}

// connected is the result of a login that has succeeded.
const connected = "connected"

// Errors of logins, for people.
var (
	errManyConnections = errors.New("too many people are connecting accounts: try again in a few minutes")
	errOtherPerson     = errors.New("this login was begun by somebody else, or in another browser, or too long ago. Nothing was connected")
	errLoginAgain      = errors.New("the login has ended before its time. Connect the account again")
	errSlowLogin       = errors.New("the server has not answered in time. Look at the list again in a moment")
)

// connect begins to connect an account for a person, and returns the URL at which it goes on. A login of the same person at the
// same server that was begun earlier ends.
func (a *accounts) connect(ctx context.Context, server *userServer, principal, browser string) (to string, err error) {
	login, end, err := a.beginLogin(server.nameOf(principal))
	if err != nil {
		return "", err
	}
	receiver := &connectionReceiver{accounts: a, connection: connection{Alias: server.Alias, Principal: principal, Browser: browser}}
	opened := make(chan string, 1)
	flow := &oauth.CodeFlow{Receiver: receiver, Timeout: connectTime, Open: func(_ context.Context, to string) error {
		select {
		case opened <- to:
			return nil
		default:
			return errLoginAgain // the browser waits for the first login
		}
	}}
	// The server may have forgotten a registration with which no account works. It then shows an error in place of a login.
	tokens := &connectionStore{accounts: a, server: server, register: !a.areConnected(server), values: make(map[string]string)}
	client, err := a.networks.clientOf(server.Resolved, flow, tokens)
	if err != nil {
		end()
		return "", err
	}
	failed := make(chan error, 1)
	a.mu.Lock()
	a.begin(func() {
		defer end()
		var before account
		err := client.Login(login, server.url)
		if err == nil {
			before, err = a.keep(login, server, principal, tokens.all())
		}
		receiver.finish(login, err)
		failed <- err
		if err != nil {
			a.logger.Info("an account was not connected", "server", server.Alias, "principal", principal, "error", err)
			return
		}
		a.logger.Info("an account was connected", "server", server.Alias, "principal", principal)
		a.readLists(server, principal)
		a.revoke(server, &before)
	})
	a.mu.Unlock()
	select {
	case to = <-opened:
		return to, nil
	case err := <-failed:
		return "", err
	case <-login.Done(): // a newer login has begun, or the program ends
		return "", errLoginAgain
	case <-ctx.Done():
		end()
		return "", context.Cause(ctx)
	}
}

// areConnected reports whether there is an account at a server that it has not refused.
func (a *accounts) areConnected(server *userServer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, known := range a.known {
		if known.Alias == server.Alias && known.URL == server.url && !known.Refused {
			return true
		}
	}
	return false
}

// beginLogin begins a login, and ends an earlier one for the same account. end must be called, and may be called several times.
func (a *accounts) beginLogin(name string) (login context.Context, end func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if earlier := a.begun[name]; earlier != nil {
		(*earlier)()
	} else if len(a.begun) >= maxConnections {
		return nil, nil, errManyConnections
	}
	login, cancel := context.WithTimeout(a.ctx, connectTime)
	a.begun[name] = &cancel
	return login, func() {
		cancel()
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.begun[name] == &cancel {
			delete(a.begun, name)
		}
	}, nil
}

// keep stores the account that a person has connected, and returns the one before, which has no ID if there was none.
func (a *accounts) keep(ctx context.Context, server *userServer, principal string, values map[string]string) (before account, err error) {
	next := account{ID: newID(), Alias: server.Alias, URL: server.url, Principal: principal, Connected: time.Now(), Values: values}
	_, err = a.records.Put(ctx, server.nameOf(principal), func(r *state.Record[account]) error {
		before = account{}
		if r.Stored() {
			before = r.Value
		}
		r.Value = next
		r.Extend(next.Connected.Add(accountLife))
		return nil
	})
	return before, err
}

// revoke revokes the tokens of an account that was replaced.
func (a *accounts) revoke(server *userServer, replaced *account) {
	if replaced.ID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, resultTime)
	defer cancel()
	values := &connectionStore{accounts: a, server: server, values: replaced.Values}
	client, err := a.networks.clientOf(server.Resolved, &oauth.SavedTokens{}, values)
	if err == nil {
		err = client.Logout(ctx, server.url)
	}
	if err != nil {
		a.logger.Warn("the tokens of the account that was connected before were not revoked", "server", server.Alias, "principal", replaced.Principal, "error", err)
	}
}

// A connectionReceiver gets the response for one login, through the store.
type connectionReceiver struct {
	accounts   *accounts
	connection connection
	name       string // of the record; "" before Listen
}

var _ oauth.Receiver = (*connectionReceiver)(nil)

// Listen makes the record of the login.
func (r *connectionReceiver) Listen(ctx context.Context, state, _ string) (oauth.CallbackListener, error) {
	r.name = recordName(connectionNames, state)
	_, err := r.accounts.connections.Create(ctx, r.name, r.connection, time.Now().Add(connectTime))
	return r, err
}

// RedirectURI returns the page that receives responses.
func (r *connectionReceiver) RedirectURI() string { return r.accounts.base + "/accounts/callback" }

// Wait returns the response that [accounts.deliver] has stored.
func (r *connectionReceiver) Wait(ctx context.Context) (url.Values, error) {
	c, err := r.accounts.await(ctx, r.name, func(c *connection) bool { return c.Response != "" })
	if err != nil {
		return nil, err
	}
	return url.ParseQuery(c.Response)
}

// Close does nothing: the result is stored in the same record, which ends by itself.
func (r *connectionReceiver) Close() error { return nil }

// finish stores the result for the replica that has received the response.
func (r *connectionReceiver) finish(ctx context.Context, err error) {
	if r.name == "" {
		return
	}
	result := connected
	if err != nil {
		result = err.Error()
	}
	_, err = r.accounts.connections.Update(context.WithoutCancel(ctx), r.name, func(rec *state.Record[connection]) error {
		rec.Value.Result = result
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		r.accounts.logger.Warn("the result of a login was not stored", "server", r.connection.Alias, "error", err)
	}
}

// await waits until the record of a login is as it should be.
func (a *accounts) await(ctx context.Context, name string, is func(c *connection) bool) (*connection, error) {
	for change, err := range a.connections.Watch(ctx, name) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		if change.Key == name && change.Record != nil && is(&change.Record.Value) {
			return &change.Record.Value, nil
		}
	}
	return nil, context.Cause(ctx)
}

// resultTime is how long a browser waits for the result of a login.
const resultTime = 30 * time.Second

// deliver passes the response of an authorization server to the replica that waits for it, once, and returns the result of the
// login. Only the person who has begun the login may deliver it, in the same browser.
func (a *accounts) deliver(ctx context.Context, response url.Values, principal, browser string) (alias string, err error) {
	name := recordName(connectionNames, response.Get("state"))
	changed, err := a.connections.Update(ctx, name, func(r *state.Record[connection]) error {
		c := &r.Value
		if c.Principal != principal || subtle.ConstantTimeCompare([]byte(c.Browser), []byte(browser)) != 1 || c.Response != "" {
			return errOtherPerson
		}
		c.Response = response.Encode()
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return "", errOtherPerson
	}
	if err != nil {
		return "", err
	}
	alias = changed.Value.Alias
	ctx, cancel := context.WithTimeoutCause(ctx, resultTime, errSlowLogin)
	defer cancel()
	done, err := a.await(ctx, name, func(c *connection) bool { return c.Result != "" })
	if err != nil {
		return alias, err
	}
	_ = a.connections.Delete(ctx, name, nil) // otherwise it ends by itself
	if done.Result != connected {
		return alias, errors.New(done.Result)
	}
	return alias, nil
}
