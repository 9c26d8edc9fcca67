package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/mcp"
)

// ToolServerOptions configure a [ToolServer]. Of the limits, 0 means the default.
type ToolServerOptions struct {
	// Around stands around every run, the first outermost: an [Audit], a policy's enforcer,
	// an approval gate. A run is a call of the tool by the name that callers of Known have for
	// it, which is [bridge.Name] for a server that its caller has launched. The methods of a
	// [Directory] say what it is for. Let a gate's Describe be that of Known, or of any
	// directory if there is no Known: it is there that what must not be run is refused, and
	// that approvers are told when nothing will be run. An approval that they have given
	// without being told so is none for /approve.
	Around []mcp.Middleware
	// Access says who gets in. By default who has the random token of [ToolServer.Access].
	Access *Access
	// Approval, such as a channel of package approval/channel, is where approvers connect.
	// It has an access of its own. By default there is no such route.
	Approval http.Handler

	// Known has the operator's servers. Default none.
	Known *Directory
	// Launch is asked whether a caller, whose principal ctx has, may have a server launched:
	// nil is yes, and an error that callers are told is no. By default all are refused.
	// [LaunchAny] refuses none.
	//
	// Who may launch servers may run any program as this process's user, and reach any
	// address from here, unless this function looks at what they are. The name under which a
	// server is launched is the caller's choice; a policy knows it with [Launched] before it.
	// Approvers are shown what [Launch] says.
	Launch func(ctx context.Context, server *config.Resolved) error
	// VerifyFirst starts a server and looks for the tool before anybody is asked, so that an
	// unknown tool fails at once, and approvals are bound to the tool's definition. What the
	// policy denies is not started: its enforcer stands before the gate, whose Describe has it
	// started. Without it nothing is started that has not been approved.
	VerifyFirst bool
	// Replace has other params under the name of a running server stop that one, whose calls
	// fail, and start the other. By default they are refused.
	Replace bool
	// Dial configures connections to servers that callers launch. Default none.
	Dial *config.DialOptions

	// ConnectTimeout bounds launching a server: its start, the connection, the handshake and
	// the first list of its tools. Default [DefaultConnectTimeout].
	ConnectTimeout time.Duration
	// CallTimeout bounds a run. Waiting for a person to approve it does not count. Default
	// [DefaultCallTimeout].
	CallTimeout time.Duration
	// IdleTimeout is after how long without a call a server is stopped. Default
	// [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// Grace is how long a reset waits for calls and servers to end. Default [DefaultGrace].
	Grace time.Duration
	// MaxServers is how many servers callers can have running, and MaxServersPerCaller how many
	// of them may be one principal's. One that has been idle longest makes room, of the same
	// principal if it has any. Callers without a principal count for MaxServers only. Defaults
	// [DefaultMaxServers] and [DefaultMaxServersPerCaller].
	MaxServers, MaxServersPerCaller int
	// MaxBody, MaxRequests and MaxPerCaller are as in [Options].
	MaxBody                   int64
	MaxRequests, MaxPerCaller int
	// Logger takes what becomes of servers, and errors that callers are not told. Default
	// slog.Default().
	Logger *slog.Logger
}

// Defaults of [ToolServerOptions].
const (
	DefaultConnectTimeout = 30 * time.Second
	DefaultIdleTimeout    = 10 * time.Minute
	DefaultGrace          = 10 * time.Second
	DefaultMaxServers     = 64

	DefaultMaxServersPerCaller = 16
)

func (o *ToolServerOptions) withDefaults() (ToolServerOptions, error) {
	var d ToolServerOptions
	if o != nil {
		d = *o
	}
	for name, given := range map[string]int64{
		"ConnectTimeout": int64(d.ConnectTimeout), "CallTimeout": int64(d.CallTimeout), "IdleTimeout": int64(d.IdleTimeout),
		"Grace": int64(d.Grace), "MaxServers": int64(d.MaxServers), "MaxServersPerCaller": int64(d.MaxServersPerCaller), "MaxBody": d.MaxBody,
	} {
		if given < 0 {
			return d, fmt.Errorf("gateway: ToolServerOptions.%s is negative", name)
		}
	}
	d.ConnectTimeout = cmp.Or(d.ConnectTimeout, DefaultConnectTimeout)
	d.CallTimeout = cmp.Or(d.CallTimeout, DefaultCallTimeout)
	d.IdleTimeout = cmp.Or(d.IdleTimeout, DefaultIdleTimeout)
	d.Grace = cmp.Or(d.Grace, DefaultGrace)
	d.MaxServers = cmp.Or(d.MaxServers, DefaultMaxServers)
	d.MaxServersPerCaller = cmp.Or(d.MaxServersPerCaller, DefaultMaxServersPerCaller)
	d.Logger = cmp.Or(d.Logger, slog.Default())
	if d.Known != nil {
		return d, nil
	}
	var err error
	d.Known, err = NewDirectory(nil, nil)
	return d, err
}

// LaunchAny is a [ToolServerOptions.Launch] that lets every caller launch every program and
// reach every address, as the original tool server does.
func LaunchAny(context.Context, *config.Resolved) error { return nil }
