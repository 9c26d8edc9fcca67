package toolserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
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
	// [server.Options] with these names. The target of such a call has [LaunchedPrefix] and the name of the server as
	// Origin.Server, and a description of the launch as Origin.Launch. They also apply to a request to /approve about a
	// tool of Server; its Origin.Launch says that nothing will be run. Give both servers the same guards and
	// middleware.
	Middleware     []mcp.Middleware
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware

	// Authenticator accepts or rejects requests. By default it has one random token; see
	// [Server.Authenticator].
	Authenticator *gateway.Authenticator
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
	// Replace stops a running server, and fails its calls, if a call has other params under the
	// same name. By default such a call is refused.
	Replace bool
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

// LaunchAny is an [Options.Launch] that lets every caller launch every program and reach every
// address, as the ToolServer of ipybox does.
func LaunchAny(context.Context, *config.Resolved) error { return nil }
