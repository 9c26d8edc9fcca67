package toolserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure a [Server]. A limit of 0 means the default.
type Options struct {
	// Server has the tools of the operator's servers, and serves the calls of them. Default
	// none.
	Server *server.Server
	// States returns the states of the operator's servers, as [bridge.Bridge.States] does. By
	// default every server with tools is assumed to run.
	States func() []bridge.State

	// Middleware, Guards and CallMiddleware apply to calls of servers that callers launch. They work as the fields of
	// [server.Options] with these names. The target of such a call has [approval.LaunchedPrefix] and the name of the server as
	// Origin.Server, and a description of the launch as Origin.Launch. They also apply to a request to /approve about a
	// tool of Server; its Origin.Launch says that nothing will be run. Give both servers the same guards and
	// middleware.
	Middleware     []mcp.Middleware
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware

	// Authenticator accepts or rejects requests. By default it has one random token; see
	// [Server.Authenticator].
	Authenticator *gateway.Authenticator
	// Approver decides about each call of a server that callers launch. It is short for a Guard that is
	// approval.Guard(policy.AskAll(), Approver, nil), and for Approval if the approver is an http.Handler.
	// Default: no call needs approval unless Guards ask. It excludes Server, which has guards of its own.
	Approver approval.Approver
	// Approval is the handler to which approvers connect, such as a channel of package
	// approval/channel. It does its own authentication. By default there is no such route.
	Approval http.Handler

	// Launch decides whether a caller may launch a server. ctx has the caller's principal. nil
	// means yes; the caller gets the text of an error. By default no caller may launch servers.
	// [LaunchAny] accepts all.
	//
	// A caller that may launch servers can run any program as the user of this process, and
	// reach any address from here, unless Launch checks the program or the address. Launch is
	// called after the Check of all guards, and before a person is asked.
	Launch func(ctx context.Context, server *config.Resolved) error
	// VerifyFirst starts the server and finds the tool before a person is asked. An unknown
	// tool then fails early, and approvals are bound to the tool's definition. No server is
	// started for a call that the Check of a guard refuses. Without VerifyFirst no server is
	// started for a call that has not been approved.
	VerifyFirst bool
	// Conflict says what happens to a call that has the name of a running server and other params. Default: [Refuse].
	Conflict Conflict
	// Dial configures connections to servers that callers launch. Default none.
	Dial *config.DialOptions

	// ConnectTimeout limits launching a server: its start, the connection, the handshake and
	// the first list of tools. Default 30 s.
	ConnectTimeout time.Duration
	// CallTimeout limits a run, not counting the time that a person takes to approve it.
	// Default 5 minutes.
	CallTimeout time.Duration
	// IdleTimeout is the time without calls after which a server is stopped. Default 10
	// minutes.
	IdleTimeout time.Duration
	// Grace is how long a reset waits for calls and servers to end. Default 10 s.
	Grace time.Duration
	// MaxServers is the maximum number of running servers that callers have launched. MaxServersPerCaller is the
	// maximum for one principal. When the limit is reached, the server that has been idle longest is stopped,
	// preferably a server of the same principal. Callers without a principal count for MaxServers only. Defaults 64 and
	// 16.
	MaxServers, MaxServersPerCaller int
	// Limits is as in [gateway.Options].
	Limits transport.Limits
	// Logger logs starts and ends of servers, and errors whose cause callers do not get.
	// Default slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	d := *cmp.Or(o, new(Options))
	for name, given := range map[string]int64{
		"ConnectTimeout": int64(d.ConnectTimeout), "CallTimeout": int64(d.CallTimeout), "IdleTimeout": int64(d.IdleTimeout),
		"Grace": int64(d.Grace), "MaxServers": int64(d.MaxServers), "MaxServersPerCaller": int64(d.MaxServersPerCaller),
	} {
		if given < 0 {
			return d, fmt.Errorf("toolserver: Options.%s is negative", name)
		}
	}
	d.ConnectTimeout = cmp.Or(d.ConnectTimeout, 30*time.Second)
	d.CallTimeout = cmp.Or(d.CallTimeout, 5*time.Minute)
	d.IdleTimeout = cmp.Or(d.IdleTimeout, 10*time.Minute)
	d.Grace = cmp.Or(d.Grace, 10*time.Second)
	d.MaxServers = cmp.Or(d.MaxServers, 64)
	d.MaxServersPerCaller = cmp.Or(d.MaxServersPerCaller, 16)
	d.Logger = cmp.Or(d.Logger, slog.Default())
	if d.Conflict > Ignore {
		return d, fmt.Errorf("toolserver: Options.Conflict: expected Refuse, Restart or Ignore, found %v", d.Conflict)
	}
	if d.Approver != nil {
		if d.Server != nil {
			return d, errors.New("toolserver: Options.Approver is for a tool server without a Server: give both an approval.Guard in Guards")
		}
		d.Guards = append(slices.Clip(d.Guards), approval.Guard(policy.AskAll(), d.Approver, &approval.Options{Logger: d.Logger}))
		if handler, ok := d.Approver.(http.Handler); ok && d.Approval == nil {
			d.Approval = handler
		}
	}
	if d.Server == nil {
		d.Server = server.New(mcp.Implementation{Name: "toolserver"}, &server.Options{Logger: d.Logger})
	}
	if d.Authenticator == nil {
		var err error
		if d.Authenticator, err = gateway.NewAuthenticator(&gateway.AuthenticatorOptions{Logger: d.Logger}); err != nil {
			return d, err
		}
	}
	return d, nil
}

// A Conflict says what happens to a call that has the name of a running server and other params.
type Conflict uint8

const (
	// Refuse refuses the call with the code "conflict".
	Refuse Conflict = iota
	// Restart stops the running server, whose calls fail, and starts another one.
	Restart
	// Ignore calls the running server and ignores the params of the call, as the ToolServer of ipybox does. Launch, guards
	// and approvers get the launch of the running server, which is the one that is called.
	Ignore
)

// String returns the name of the constant.
func (c Conflict) String() string {
	switch c {
	case Refuse:
		return "Refuse"
	case Restart:
		return "Restart"
	case Ignore:
		return "Ignore"
	}
	return fmt.Sprintf("Conflict(%d)", uint8(c))
}

// LaunchAny is an [Options.Launch] that lets every caller launch every program and reach every
// address, as the ToolServer of ipybox does.
func LaunchAny(context.Context, *config.Resolved) error { return nil }
