package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// accountLife is how long an account is kept after its token was last refreshed.
	accountLife = 180 * 24 * time.Hour
	// connectTime is how long a person may take to connect an account, and how long a call waits for that.
	connectTime = 10 * time.Minute
	// linkLife is how long the link of a question may be opened.
	linkLife = time.Hour
	// waitNotice is the pause between the notices of progress of a call that waits for an account.
	waitNotice = 5 * time.Second
)

// The names of records begin with these.
const (
	accountNames      = "serve/accounts/tokens"
	connectionNames   = "serve/accounts/logins"
	registrationNames = "serve/accounts/clients"
	listNames         = "serve/accounts/lists"
	lockNames         = "serve/accounts/locks"
)

// recordName returns the name of a record about some texts.
func recordName(kind string, texts ...string) string {
	hash := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(hash, "%d %s", len(text), text)
	}
	return kind + "/" + hex.EncodeToString(hash.Sum(nil))
}

// An account is that of one person at one server. A person who connects again has another one.
type account struct {
	ID        string    `json:"id"` // random
	Alias     string    `json:"alias"`
	URL       string    `json:"url"` // of the server
	Principal string    `json:"principal"`
	Connected time.Time `json:"connected"`
	Refused   bool      `json:"refused,omitempty"` // by the server: the person has to connect again
	// Values are what an oauth.Client keeps: the tokens, and the registration of the program to which they were issued.
	Values map[string]string `json:"values"`
}

// accounts are the logins that people have at servers. With auth user, each person connects an account, in a browser. It is sealed in
// the store, so that all replicas use it, and its token is refreshed by one replica at a time. With auth exchange and enterprise, a
// login lasts as long as the session with the server, and follows from the token with which the person calls.
type accounts struct {
	networks      *loginOptions
	tokens        *callerTokens
	issuer        string             // of callers
	client        oauth.Registration // of this program there
	logger        *slog.Logger
	kv            store.KV
	key           *state.Key
	records       state.Records[account]
	connections   state.Records[connection]
	registrations state.Records[string]
	lists         state.Records[knownLists]

	bridge *bridge.Bridge // set before the first request, as is base
	base   string         // the URL under which browsers reach this program

	ctx     context.Context // of everything in the background
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	servers map[string]*userServer         // with auth user, by alias
	known   map[string]account             // without values, by the names of their records
	changed chan struct{}                  // closed when known changes
	begun   map[string]*context.CancelFunc // the logins that go on here, by the names of the accounts' records
	read    *lru.Cache[string, time.Time]  // when this replica has read the lists with an account, by the name of its record
}

// A userServer is a server at which each person has a login of its own.
type userServer struct {
	*config.Resolved
	dial   config.DialOptions
	url    string
	offers atomic.Bool // its lists are known
}

// newUserServer returns a server whose connections have options.
func newUserServer(server *config.Resolved, opts config.DialOptions) *userServer {
	return &userServer{Resolved: server, dial: opts, url: server.URL.Reveal()}
}

// newAccounts returns the accounts of callers in a store, which may be one in memory. client is the registration of this program at
// the issuer of the callers.
func newAccounts(of *callers, client oauth.Registration, networks *loginOptions, kv store.KV, key *state.Key, logger *slog.Logger) (*accounts, error) {
	read, err := lru.New[string, time.Time](maxKnownCallers)
	if err != nil {
		return nil, err
	}
	a := &accounts{
		networks: networks, tokens: of.tokens, issuer: of.opts.issuer, client: client, logger: logger, kv: kv, key: key,
		records: state.NewRecords[account](kv, key), connections: state.NewRecords[connection](kv, key),
		registrations: state.NewRecords[string](kv, key), lists: state.NewRecords[knownLists](kv, key),
		servers: make(map[string]*userServer), known: make(map[string]account), changed: make(chan struct{}),
		begun: make(map[string]*context.CancelFunc), read: read,
	}
	a.ctx, a.end = context.WithCancel(context.Background())
	a.tokens.kept = a.seen
	return a, nil
}

// prepare changes the configuration of a server: nothing reads its lists for everybody, and it offers what is known of them.
func (a *accounts) prepare(ctx context.Context, s *userServer, c *bridge.Config) {
	c.NoLists, c.CachedCatalog = true, a.catalog(ctx, s)
}

// start follows what other replicas change.
func (a *accounts) start(of *bridge.Bridge) {
	a.bridge = of
	a.running.Go(func() { follow(a.ctx, a.records, accountNames, a.logger, a.noteChange) })
	a.running.Go(func() { follow(a.ctx, a.lists, listNames, a.logger, a.noteLists) })
}

// close ends everything in the background, and waits for it.
func (a *accounts) close() {
	a.mu.Lock()
	a.end()
	a.mu.Unlock()
	a.running.Wait()
}

// begin runs a function in the background, unless the program ends. a.mu is locked.
func (a *accounts) begin(function func()) {
	if a.ctx.Err() == nil {
		a.running.Go(function)
	}
}

// follow calls changed for each record, and each change, until ctx ends.
func follow[T any](ctx context.Context, records state.Records[T], prefix string, logger *slog.Logger, changed func(state.Change[T])) {
	for pause := (backoff.Backoff{}); ctx.Err() == nil; _ = pause.Wait(ctx) {
		for change, err := range records.Watch(ctx, prefix) {
			switch {
			case err == nil:
				pause.Reset()
				changed(change)
			case ctx.Err() == nil:
				logger.Warn("the changes of accounts cannot be followed", "error", err)
			}
		}
	}
}

// noteChange notes that an account was connected, refused, refreshed or disconnected. The session with an account that exists no
// more ends.
func (a *accounts) noteChange(change state.Change[account]) {
	a.mu.Lock()
	before, was := a.known[change.Key]
	if change.Record == nil {
		delete(a.known, change.Key)
	} else {
		now := change.Record.Value
		now.Values = nil
		a.known[change.Key] = now
		was = was && (before.ID != now.ID || now.Refused)
	}
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	if was {
		_ = a.bridge.EndSession(before.Alias, before.Principal) // the server may be gone, and its sessions with it
	}
}

// setServers sets the servers at which each person has a login of its own.
func (a *accounts) setServers(servers map[string]*userServer) {
	exchanging := func(s *userServer) bool { return s.exchanges() }
	a.tokens.need(slices.ContainsFunc(slices.Collect(maps.Values(servers)), exchanging))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.servers = servers
}

// exchanges reports whether the tokens of callers are exchanged for those of the server, so that people connect no accounts.
func (s *userServer) exchanges() bool { return s.Options.Auth != config.AuthUser }

// server returns a server at which each person has a login of its own, nil if the alias is that of none.
func (a *accounts) server(alias string) *userServer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.servers[alias]
}

// nameOf returns the name of the record of a person's account at a server.
func (s *userServer) nameOf(principal string) string {
	return recordName(accountNames, s.Alias, s.url, principal)
}

// find returns the account of a person at a server, without values, and a channel that is closed when accounts change.
func (a *accounts) find(ctx context.Context, server *userServer, principal string) (found account, ok bool, changed <-chan struct{}) {
	name := server.nameOf(principal)
	a.mu.Lock()
	found, ok = a.known[name]
	changed = a.changed
	a.mu.Unlock()
	if !ok { // at another replica, perhaps, a moment ago
		if record, err := a.records.Load(ctx, name); err == nil {
			found, ok = record.Value, true
		}
	}
	return found, ok && !found.Refused, changed
}

// errNoAccount says that a person has no account at a server.
var errNoAccount = errors.New("the caller has no account at the server")

// dialAs returns the function that connects to a server with the account of a person. There is none for lists and for callers
// without a name.
func (a *accounts) dialAs(server *userServer) func(ctx context.Context, principal string) (transport.Dialer, error) {
	return func(ctx context.Context, principal string) (transport.Dialer, error) {
		if principal == "" {
			return nil, errNoAccount
		}
		if server.exchanges() {
			return a.exchangeDialer(server, principal)
		}
		record, err := a.records.Load(ctx, server.nameOf(principal))
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, errNoAccount
		case err != nil:
			return nil, err
		}
		return a.dialer(server, &record.Value)
	}
}

// dialer returns a dialer that sends the token of an account, and no other.
func (a *accounts) dialer(server *userServer, with *account) (transport.Dialer, error) {
	tokens, err := a.networks.clientOf(server.Resolved, &oauth.SavedTokens{}, a.storeOf(server, with))
	if err != nil {
		return nil, err
	}
	opts := server.dial
	opts.Authorizer = func(*config.Resolved) httptransport.Authorizer { return &accountLogin{tokens, with.ID} }
	return server.Dialer(&opts)
}

// An accountLogin authorizes requests with the token of an account.
type accountLogin struct {
	*oauth.Client
	account string // its ID
}

func (l *accountLogin) Challenged(ctx context.Context, server *url.URL, req *http.Request, res *http.Response) (again bool, err error) {
	again, err = l.Client.Challenged(ctx, server, req, res)
	if res.StatusCode == http.StatusUnauthorized && !again && (err == nil || errors.Is(err, oauth.ErrLoginRequired)) {
		err = &accountRefusedError{l.account}
	}
	return again, err
}

// An accountRefusedError says that a server accepts the tokens of an account no more.
type accountRefusedError struct{ account string }

func (e *accountRefusedError) Error() string {
	return "the server does not accept the account of the caller any more: it has to be connected again"
}

// guard returns the guard that asks for an account that a call needs.
func (a *accounts) guard() mcp.Guard {
	return mcp.Guard{Name: accountsGuard, Check: a.check, Run: a.run}
}

const accountsGuard = "accounts"

// refusal returns the error of a call that is not made.
func refusal(format string, args ...any) error {
	return &mcp.Refusal{Reason: fmt.Sprintf(format, args...), Guard: accountsGuard}
}

// serverOf returns the server with auth user that a call is for, or nil.
func (a *accounts) serverOf(call *mcp.Call) *userServer {
	if target := call.Target(); target != nil {
		return a.server(target.Origin.Server)
	}
	return nil
}

// check refuses callers that can have no account, and calls that cannot ask for one.
func (a *accounts) check(ctx context.Context, call *mcp.Call) error {
	server := a.serverOf(call)
	if server == nil {
		return nil
	}
	principal := call.Caller.Principal
	switch {
	case principal == "" || strings.HasPrefix(principal, console.PrincipalPrefix):
		return refusal("at %s each person has a login of their own, and this caller is no person", server.Alias)
	case strings.HasPrefix(principal, keyPrefix):
		return refusal("at %s each person has a login of their own: a login in place of an API key is needed", server.Alias)
	}
	if server.exchanges() || call.Method() == mcp.MethodToolsCall || call.Method() == mcp.MethodPromptsGet {
		return nil // run asks
	}
	if _, ok, _ := a.find(ctx, server, principal); !ok {
		return a.missing(ctx, server, principal)
	}
	return nil
}

// missing returns the error of a call without an account.
func (a *accounts) missing(ctx context.Context, server *userServer, principal string) error {
	link, err := a.link(ctx, server.Alias, principal)
	if err != nil {
		return err
	}
	return refusal("No account at %s is connected. The user has to open %s in a browser and to connect one; then the call can be made again.", server.Alias, link)
}

// link returns the URL at which a person connects an account. The page refuses it to others.
func (a *accounts) link(ctx context.Context, alias, principal string) (string, error) {
	asked, err := a.key.Seal(ctx, []byte(principal), []byte("accounts/asked"), time.Now().Add(linkLife))
	if err != nil {
		return "", err
	}
	return a.base + "/accounts/?" + url.Values{"server": {alias}, "asked": {asked}}.Encode(), nil
}

// run makes a call with the account of its caller. Without one, it asks the caller with the URL at which one is connected, and
// makes the call when that is done.
func (a *accounts) run(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		server := a.serverOf(call)
		if server == nil {
			return next(ctx, call)
		}
		if !server.exchanges() {
			if err := a.ask(ctx, call, server); err != nil {
				return nil, err
			}
		}
		result, err := next(ctx, call)
		if refused, ok := errors.AsType[*exchangeError](err); ok {
			a.logger.Info("a server gives a caller no token", "server", server.Alias, "principal", call.Caller.Principal, "error", refused.cause)
			return nil, refusal("%s gives this caller no access: %s", server.Alias, refused.reason())
		}
		if refused, ok := errors.AsType[*accountRefusedError](err); ok {
			a.noteRefused(ctx, server, call.Caller.Principal, refused.account)
			return nil, a.missing(ctx, server, call.Caller.Principal)
		}
		if err == nil {
			a.readListsAgain(server, call.Caller.Principal)
		}
		return result, err
	}
}

// accountQuestion begins the key of the question for an account.
const accountQuestion = "io.dovetail/account/"

// ask returns nil when the caller of a call has an account at a server.
func (a *accounts) ask(ctx context.Context, call *mcp.Call, server *userServer) error {
	principal := call.Caller.Principal
	if _, ok, _ := a.find(ctx, server, principal); ok {
		return nil
	}
	link, err := a.link(ctx, server.Alias, principal)
	if err != nil {
		return err
	}
	params, err := (&mcp.ElicitParams{Mode: mcp.ElicitURL, Message: fmt.Sprintf("Connect your account at %s, and the call continues.", server.Alias), URL: link}).AppendJSON(nil)
	if err != nil {
		return err
	}
	raw, err := call.Input(accountQuestion+server.Alias, mcp.InputRequest{Method: mcp.MethodElicit, Params: params})
	if _, asks := mcp.AsInputRequired(err); asks {
		return err
	}
	var answer mcp.ElicitResult
	if err != nil || answer.UnmarshalJSON(raw) != nil || answer.Action != mcp.ElicitAccept { // the client cannot ask, or the person does not want to
		return a.missing(ctx, server, principal)
	}
	if !a.wait(ctx, call, server, principal) {
		return a.missing(ctx, server, principal)
	}
	return call.Recheck(ctx)
}

// wait waits until a person has connected an account. It returns false if that takes too long.
func (a *accounts) wait(ctx context.Context, call *mcp.Call, server *userServer, principal string) bool {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	notice := time.NewTicker(waitNotice)
	defer notice.Stop()
	for waited := 0.0; ; {
		_, ok, changed := a.find(ctx, server, principal)
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-notice.C:
			if token := call.ProgressToken(); token != nil {
				waited += waitNotice.Seconds()
				_ = call.Notify(ctx, mcp.NotificationProgress, &mcp.ProgressParams{ProgressToken: mcp.ProgressToken(token), Progress: waited, Message: "waiting for the account at " + server.Alias})
			}
		case <-ctx.Done():
			return false
		case <-a.ctx.Done():
			return false
		}
	}
}

// noteRefused notes that a server accepts an account no more.
func (a *accounts) noteRefused(ctx context.Context, server *userServer, principal, id string) {
	_, err := a.records.Update(context.WithoutCancel(ctx), server.nameOf(principal), func(r *state.Record[account]) error {
		if r.Value.ID != id || r.Value.Refused {
			return state.ErrUnchanged
		}
		r.Value.Refused = true
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		a.logger.Warn("that a server refuses an account was not stored", "server", server.Alias, "principal", principal, "error", err)
		return
	}
	a.logger.Info("a server does not accept an account any more", "server", server.Alias, "principal", principal)
}

// disconnect deletes the account of a person at a server, and revokes its tokens.
func (a *accounts) disconnect(ctx context.Context, server *userServer, principal string) error {
	record, err := a.records.Load(ctx, server.nameOf(principal))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	tokens, err := a.networks.clientOf(server.Resolved, &oauth.SavedTokens{}, a.storeOf(server, &record.Value))
	if err != nil {
		return err
	}
	err = tokens.Logout(ctx, server.url)
	if _, unconfirmed := errors.AsType[*oauth.RevocationError](err); err != nil && !unconfirmed {
		return err
	}
	a.logger.Info("an account was disconnected", "server", server.Alias, "principal", principal)
	return err
}

// newID returns the ID of an account or browser.
func newID() string { return rand.Text() }
