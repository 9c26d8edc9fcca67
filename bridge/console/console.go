package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/webpage"
	"github.com/dovetail-go/dovetail/internal/wsconn"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

const (
	// feedName is the name of the feed below the path of the page.
	feedName    = "feed"
	subprotocol = "dovetail.console.v1"
	// maxPages is how many pages are connected.
	maxPages = 16
	// maxFrame is the length of the longest frame of a page, in bytes. A policy has at most 1 MiB.
	maxFrame = 2 << 20
	// interval is how often the changes are sent.
	interval     = 250 * time.Millisecond
	writeTimeout = 10 * time.Second
	keepAlive    = 15 * time.Second
)

// Options configure a [Console].
type Options struct {
	// Recorder has the calls to show; see [Recorder.ObserveServer].
	Recorder *Recorder
	// Token is the token of operators, who see everything and act. ViewerToken is that of viewers, who see names, times,
	// outcomes and rules, and nothing of what calls contain. Both have 16 to 4096 characters of A-Z, a-z, 0-9 and -._~.
	// Default: random tokens.
	Token, ViewerToken string
	// Name names the operators: calls that they make in the console have the principal console:NAME. Default "operator".
	Name string
	// Authenticate says who opens the console, or that a request is not of a viewer or operator. It is used in place of Token, ViewerToken
	// and Name, and may be called concurrently. Default: everyone with one of the tokens.
	Authenticate func(r *http.Request) (Person, bool)
	// Channel is the path of the approval channel, which accepts Token, or the people of Authenticate: operators answer its requests on
	// the page. Default: calls are not approved there.
	Channel string
	// Hosts and Origins are allowed in addition to loopback ones, as in [channel.Options].
	//
	// [channel.Options]: https://pkg.go.dev/github.com/dovetail-go/dovetail/approval/channel#Options
	Hosts, Origins []string
	// Policy returns the policy in force, which explains decisions. Default: no policy.
	Policy func() *Policy
	// Compile compiles a policy that an operator tries on the kept calls, as it is done before one is in force. Default
	// [policy.Compile].
	Compile func(*policy.Policy) (*policy.Compiled, error)
	// Lock has the accepted definitions of the bridge, by their names in the bridge. Default: everything is accepted.
	Lock *pin.Lock
	// Login begins a login at a server of the bridge that demands one, and returns the URL that the operator opens in a browser, or
	// "" if none is needed. It does not wait for the operator. Default: nobody logs in here.
	Login func(ctx context.Context, alias string) (url string, err error)
	// Command returns the line for a shell that calls a tool of a server, by its name there. Default: the page offers none.
	Command func(server, tool string, arguments json.RawMessage) string
	// Logger logs what operators do. Default slog.Default().
	Logger *slog.Logger
}

// A Person has opened the console.
type Person struct {
	// Name is in the log, and in the principals of the calls that the person makes in the console: console:NAME.
	Name string
	// Operator permits what Options.Token does; without it, the person sees what ViewerToken shows.
	Operator bool
	// Expires is when the page is disconnected. Zero: never.
	Expires time.Time
}

// A Console serves a web page with the calls of a [Recorder], and with the servers of a bridge. It may be used concurrently.
type Console struct {
	opts   Options
	record *Recorder
	server *server.Server
	bridge *bridge.Bridge
	guard  *httpguard.Guard
	page   *webpage.Page

	upgrader websocket.Upgrader
	pages    *quota.Quota
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup         // of pages, and of calls that are made here
	build    atomic.Pointer[[]byte] // the frame of the last build; nil without one

	mu     sync.Mutex
	closed bool
}

// Format prints a constant, so that no token is printed.
func (c *Console) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "console.Console") }

var _ http.Handler = (*Console)(nil)

// New returns a console for a server that serves a bridge. Its tools are called through s, so that the guards and limits of s
// apply. b is nil for a server without a bridge. The error says that an option is missing or malformed.
func New(s *server.Server, b *bridge.Bridge, opts *Options) (*Console, error) {
	if opts == nil || opts.Recorder == nil {
		return nil, errors.New("console: Options.Recorder is missing")
	}
	o := *opts
	if o.Authenticate != nil && (o.Token != "" || o.ViewerToken != "" || o.Name != "") {
		return nil, errors.New("console: Options.Authenticate excludes Token, ViewerToken and Name")
	}
	o.Token, o.ViewerToken = cmp.Or(o.Token, rand.Text()+rand.Text()), cmp.Or(o.ViewerToken, rand.Text()+rand.Text())
	o.Name, o.Logger = cmp.Or(o.Name, "operator"), cmp.Or(o.Logger, slog.Default())
	if o.Compile == nil {
		o.Compile = policy.Compile
	}
	if !httpguard.IsToken(o.Token) || !httpguard.IsToken(o.ViewerToken) {
		return nil, fmt.Errorf("console: a token must have at least %d characters of A-Z, a-z, 0-9 and -._~", httpguard.MinToken)
	}
	if o.Token == o.ViewerToken {
		return nil, errors.New("console: operators and viewers have the same token")
	}
	guard, err := httpguard.NewGuard(o.Hosts, o.Origins)
	if err != nil {
		return nil, fmt.Errorf("console: Options.%w", err)
	}
	c := &Console{
		opts: o, record: o.Recorder, server: s, bridge: b, guard: guard, page: webpage.New(web, map[string]string{"channel": o.Channel}, guard),
		upgrader: wsconn.Upgrader(subprotocol, writeTimeout), pages: quota.New("pages", maxPages, maxPages),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Token returns the token of operators.
func (c *Console) Token() string { return c.opts.Token }

// ViewerToken returns the token of viewers.
func (c *Console) ViewerToken() string { return c.opts.ViewerToken }

// Close disconnects the pages, ends the calls that were made here, and waits for them.
func (c *Console) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	return nil
}

// begin adds something that Close waits for.
func (c *Console) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Add(1)
	}
	return !c.closed
}

// ServeHTTP serves the page and its feed. Only the last element of the path is used, so the console may be mounted anywhere,
// with or without [http.StripPrefix], if the path of the page ends with a slash. It refuses a Host or an Origin that is not
// allowed (403), a feed of nobody that it knows (401), and more than 16 pages (503).
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, name := path.Split(r.URL.Path); name == feedName {
		c.serveFeed(w, r)
		return
	}
	c.page.ServeHTTP(w, r)
}

//go:embed web
var web embed.FS

// PrincipalPrefix begins the principals of calls that are made in the console. Give no other caller such a name.
const PrincipalPrefix = "console:"

// A role is what a person may see and do.
type role string

const (
	viewer   role = "viewer"
	operator role = "operator"
)

// authenticate returns who sends a request, if it is an operator or a viewer.
func (c *Console) authenticate(r *http.Request) (Person, bool) {
	if c.opts.Authenticate != nil {
		return c.opts.Authenticate(r)
	}
	token := httpguard.Token(r)
	if httpguard.SameToken(token, c.opts.Token) {
		return Person{Name: c.opts.Name, Operator: true}, true
	}
	return Person{Name: "viewer"}, httpguard.SameToken(token, c.opts.ViewerToken)
}

// role returns what a person may do.
func (p *Person) role() role {
	if p.Operator {
		return operator
	}
	return viewer
}

func (c *Console) serveFeed(w http.ResponseWriter, r *http.Request) {
	if !c.guard.Admit(w, r, http.MethodGet) || !wsconn.Accept(w, r) {
		return
	}
	who, ok := c.authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		httpguard.Refuse(w, http.StatusUnauthorized, jsonrpc.InvalidRequest, "expected the credentials of a viewer or operator")
		return
	}
	if err := c.pages.Acquire(quota.Holder{}); err != nil {
		httpguard.RefuseBusy(w, "busy: "+err.Error())
		return
	}
	defer c.pages.Release(quota.Holder{})
	if !c.begin() {
		httpguard.RefuseBusy(w, "busy: the console is closing")
		return
	}
	defer c.running.Done()
	socket, err := wsconn.Upgrade(&c.upgrader, w, r)
	if err != nil {
		c.opts.Logger.Debug("WebSocket handshake failed", "error", err, "client", r.RemoteAddr)
		return
	}
	ctx := c.ctx
	if !who.Expires.IsZero() {
		var release context.CancelFunc
		ctx, release = context.WithDeadline(ctx, who.Expires)
		defer release()
	}
	c.opts.Logger.Info("console opened", "person", who.Name, "role", string(who.role()), "client", r.RemoteAddr)
	newPage(c, socket, who).serve(ctx)
	c.opts.Logger.Info("console closed", "person", who.Name, "role", string(who.role()), "client", r.RemoteAddr)
}

// servers returns the servers of the bridge as the page shows them.
func (c *Console) servers() []shownServer {
	list := []shownServer{}
	if c.bridge == nil {
		return list
	}
	now, costs, held := time.Now(), c.costs(), map[string]int{}
	if pending := c.pending(); len(pending) > 0 {
		for _, kind := range listed {
			for e := range c.bridge.Catalog().All(kind) {
				if pending[pin.Entry{Kind: pinKind(kind), Name: e.Name}] != nil {
					held[e.Origin.Server]++
				}
			}
		}
	}
	for _, s := range c.bridge.States() {
		c.record.mu.Lock()
		summary := c.record.servers[s.Alias].summary(now)
		c.record.mu.Unlock()
		list = append(list, shownServer{
			Alias: s.Alias, Status: s.Status, Since: micros(s.Since), Version: string(s.Version), NextTry: micros(s.NextTry), Restarts: s.Restarts, Running: s.Calls, Queued: s.Queued, Sessions: s.Sessions,
			Tools: s.Tools, Prompts: s.Prompts, Resources: s.Resources, Held: held[s.Alias], Tokens: costs[s.Alias], summary: summary,
		})
	}
	return list
}

// costsKey is the key of the costs in a catalog.
type costsKey struct{}

// costs returns about how many tokens the tools of each server cost a model that reads them: a token for 4 bytes.
func (c *Console) costs() map[string]int {
	catalog := c.bridge.Catalog()
	return catalog.Memo(costsKey{}, func() any {
		costs := make(map[string]int)
		for e := range catalog.All(mcp.KindTool) {
			costs[e.Origin.Server] += len(e.Definition.JSON()) / 4
		}
		return costs
	}).(map[string]int)
}

// actions returns what operators can do.
func (c *Console) actions(of role) []string {
	if of != operator {
		return []string{}
	}
	actions := []string{"call", "try", "again", "cancel"}
	if c.record.bodies {
		actions = append(actions, "messages", "record")
	}
	if c.bridge != nil {
		actions = append(actions, "server", "restart", "refresh")
	}
	if c.bridge != nil && c.record.bodies {
		actions = append(actions, "save")
	}
	if c.bridge != nil && c.opts.Login != nil {
		actions = append(actions, "login")
	}
	if c.opts.Lock != nil {
		actions = append(actions, "accept")
	}
	if c.opts.Policy != nil {
		actions = append(actions, "policy", "whatif")
	}
	return actions
}
