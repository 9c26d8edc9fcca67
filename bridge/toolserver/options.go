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
)

// Options configure a [Server]. Of the limits, 0 means the default.
type Options struct {
	// Server has the tools of the operator's servers; calls of them are calls to it. Default
	// none.
	Server *server.Server
	// States reports how the operator's servers are, as [bridge.Bridge.States] does. By
	// default there are those that have tools.
	States func() []bridge.State

	// Middleware, Guards and CallMiddleware surround calls to servers that callers launch, as
	// those of [server.Options] do. The target of such a call has [Launched] and the name of
	// the server as its Origin.Server, and says in Origin.Launch how it is launched. They also
	// surround the question of /approve about a tool of Server, of which Origin.Launch says
	// that nothing will be run: give both servers the same.
	Middleware     []mcp.Middleware
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware

	// Access admits requests. By default those that have the random token of
	// [Server.Access].
	Access *gateway.Access
	// Approval, such as a channel of package approval/channel, is where approvers connect.
	// It has an access of its own. By default there is no such route.
	Approval http.Handler

	// Launch decides whether a caller, whose principal ctx has, may have a server launched:
	// nil means yes, and callers get the text of an error. By default none is launched.
	// [LaunchAny] refuses none.
	//
	// Callers that may launch servers may run any program as this process's user, and reach
	// any address from here, unless this function looks at the program or the address. It is
	// called when all guards have agreed to the call, and before a person is asked.
	Launch func(ctx context.Context, server *config.Resolved) error
	// VerifyFirst starts a server and finds the tool before a person is asked, so that an
	// unknown tool fails early, and approvals are bound to the tool's definition. Nothing is
	// started that the Check of a guard refuses. Without VerifyFirst nothing is started that
	// has not been approved.
	VerifyFirst bool
	// Replace stops a running server, whose calls fail, for a call that has other params under
	// its name. By default such calls are refused.
	Replace bool
	// Dial configures connections to servers that callers launch. Default none.
	Dial *config.DialOptions

	// ConnectTimeout bounds launching a server: its start, the connection, the handshake and
	// the first list of its tools. Default 30 s.
	ConnectTimeout time.Duration
	// CallTimeout bounds a run. Time spent waiting for a person does not count. Default 5
	// minutes.
	CallTimeout time.Duration
	// IdleTimeout is after how long without a call a server is stopped. Default
	// 10 minutes.
	IdleTimeout time.Duration
	// Grace is how long a reset waits for calls and servers to end. Default 10 s.
	Grace time.Duration
	// MaxServers is how many servers callers can have running, and MaxServersPerCaller how many
	// of them may be one principal's. One that has been idle longest makes room, of the same
	// principal if it has any. Callers without a principal count for MaxServers only. Defaults
	// 64 and 16.
	MaxServers, MaxServersPerCaller int
	// MaxBody, MaxRequests and MaxPerCaller are as in [gateway.Options].
	MaxBody                   int64
	MaxRequests, MaxPerCaller int
	// Logger takes what becomes of servers, and errors that callers are not told. Default
	// slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	for name, given := range map[string]int64{
		"ConnectTimeout": int64(d.ConnectTimeout), "CallTimeout": int64(d.CallTimeout), "IdleTimeout": int64(d.IdleTimeout),
		"Grace": int64(d.Grace), "MaxServers": int64(d.MaxServers), "MaxServersPerCaller": int64(d.MaxServersPerCaller), "MaxBody": d.MaxBody,
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
	if d.Access == nil {
		var err error
		if d.Access, err = gateway.NewAccess(&gateway.AccessOptions{Logger: d.Logger}); err != nil {
			return d, err
		}
	}
	return d, nil
}

// LaunchAny is an [Options.Launch] that lets every caller launch every program and
// reach every address, as the original tool server does.
func LaunchAny(context.Context, *config.Resolved) error { return nil }
