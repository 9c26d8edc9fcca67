package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// An Era is a family of protocol versions.
type Era int

const (
	// Auto tries the modern era first, and falls back to the handshake of the legacy era.
	Auto Era = iota
	// Modern uses version 2026-07-28 only.
	Modern
	// Legacy starts with a handshake. It is for servers that fail on any request before it.
	Legacy
)

// String returns "auto", "modern" or "legacy".
func (e Era) String() string {
	switch e {
	case Auto:
		return "auto"
	case Modern:
		return "modern"
	case Legacy:
		return "legacy"
	}
	return fmt.Sprintf("Era(%d)", int(e))
}

// Options configures a [Session]. The zero value is valid: the client then answers no questions.
type Options struct {
	// Info is the name and version that the client sends. Default: "dovetail".
	Info mcp.Implementation

	// Elicit asks the user. Without it the server cannot ask the user. Handlers are called
	// concurrently, each on its own goroutine, and may use the session. Their context ends with the
	// session. The handlers that are set decide what the client declares to support.
	// [Session.SetHandlers] replaces them. Elicit is not called for a form that names a field as a
	// secret, such as password, or that is not a flat object: the server gets an error.
	Elicit func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// ElicitURLs says that Elicit can also send the user to a URL.
	ElicitURLs bool
	// Sample asks the model. Without it the server cannot ask the model.
	Sample func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)
	// SampleTools says that Sample supports tools.
	SampleTools bool
	// Roots lists the directories that are open to the server. It may return another list each time;
	// call [Session.RootsChanged] then.
	Roots func(ctx context.Context) ([]mcp.Root, error)

	// ShowsApps declares that the client shows views of MCP Apps to the user: HTML documents of
	// servers, in a sandbox. [mcp.Meta.ToolUI] returns the view of a tool.
	ShowsApps bool

	// Experimental and Extensions are further capabilities to declare: JSON objects by names that the protocol does
	// not define, and the settings of extensions by identifier.
	Experimental map[string]json.RawMessage
	Extensions   map[string]json.RawMessage

	// Middleware handles requests of the session's methods and of [Session.Forward]: calls of
	// tools, lists, reads, prompts and completions. It does not handle pings, subscriptions, requests
	// about tasks and the handshake. The first is outermost. It sees each call once, however many
	// questions the server asks, and also if it continues as a task; the questions go to the handlers
	// above. Target of the call is nil, since a client has
	// no catalog. Caller describes this client, except for forwarded calls. Results are [mcp.Raw].
	// An error of a middleware is wrapped in a *jsonrpc.CallError.
	Middleware []mcp.Middleware

	// NoTasks makes the client not declare that it supports tasks, calls of tools that a server continues in the
	// background (SEP-2663). Servers answer calls directly then, or with an error if the tool runs only as a task.
	// Otherwise a call that continues as a task returns when the task has ended. It applies to version 2026-07-28.
	NoTasks bool

	// OnSession is called when the session has been opened, with the context of [Connect] and the description of
	// this client in the protocol version of the connection. The function that it returns, if not nil, is called
	// once when the session has ended: with nil after [Session.Close], and otherwise with the reason.
	// A renewed connection does not end the session. Neither function may block or use the session.
	OnSession func(ctx context.Context, caller *mcp.Caller) (ended func(reason error))

	// Capabilities replaces the capabilities that the other options provide. It is for sessions that forward
	// calls of other clients, which answer the questions, as far as they have these capabilities. See
	// [Session.Forward]. Roots answers a legacy server that asks for roots outside of calls. [Connect] returns an error
	// if Capabilities is set together with Elicit, Sample, ShowsApps, Experimental or Extensions, which would have no
	// effect. If it declares [mcp.ExtensionTasks], [Session.Call] returns an [mcp.Task] unchanged.
	Capabilities *mcp.ClientCapabilities
	// SuspendedCalls holds forwarded calls while their callers answer questions. Sessions that
	// share it share its limits, and any of them can continue a call. Default: each session has its
	// own.
	SuspendedCalls *SuspendedCalls

	// OnChange is called for each change of the server's lists, resources and tasks. The client gets the changes to
	// which [Session.Subscribe] has subscribed and, in the legacy era, all changes of lists. Calls of OnChange and
	// OnLog run one at a time, in order. Equal changes that wait are reported once. If more wait than [Limits] permit,
	// the oldest are dropped. [Session.OnChange] and [Session.OnLog] add further functions.
	OnChange func(ctx context.Context, change mcp.Change)
	// OnLog is called for each log message of the server from LogLevel on.
	OnLog func(ctx context.Context, message *mcp.LoggingMessageParams)
	// LogLevel is the least severe level of log messages to receive. Default: info if OnLog is set,
	// otherwise none.
	LogLevel mcp.LoggingLevel

	// Era restricts the protocol versions. Default: Auto.
	Era Era
	// Version is the only protocol version that the client speaks. [Connect] returns a *[mcp.HandshakeError] if
	// the server does not speak it. If Era is set too, the version must belong to it. Default: the newest version
	// that both speak.
	Version mcp.Version
	// ProbeTimeout is how long the client waits for an answer in the modern era before it sends the
	// handshake of the legacy era. Default: 5 s. On a connection with one stream, such as stdio, it
	// waits for at most 1 s, and the first successful answer in either era opens the session. It has
	// no effect if Era is not Auto.
	ProbeTimeout time.Duration
	// ConnectTimeout bounds opening a session. It is startup_timeout of lauren-mcp. Default: 30 s.
	ConnectTimeout time.Duration
	// CallTimeout bounds the calls whose context has no deadline: a call fails when the server has
	// sent neither a result nor a question for this long, nor progress if [CallOptions] ask for it.
	// Time in which handlers answer questions of the server does not count. The error is a
	// *[jsonrpc.CallError] that names this option and wraps context.DeadlineExceeded. Negative: no
	// bound. Default: the CallTimeout of the dialer's [jsonrpc.Options], which is one minute by
	// default and for [transport.Pipe].
	CallTimeout time.Duration
	// NoReconnect ends the session with its connection.
	NoReconnect bool
	// Limits bounds what the server can make the session store, read and ask.
	Limits Limits

	// Logger receives the errors of handlers, which a server does not see. Default: slog.Default().
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Info.Name == "" {
		opts.Info = mcp.Implementation{Name: "dovetail", Version: "0"}
	}
	if opts.OnLog != nil && opts.LogLevel == "" {
		opts.LogLevel = mcp.LevelInfo
	}
	opts.Limits = opts.Limits.WithDefaults()
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.SuspendedCalls == nil {
		opts.SuspendedCalls = NewSuspendedCalls()
	}
	return opts
}

// check returns an error if options are invalid, or exclude each other.
func (o *Options) check() error {
	if o.LogLevel != "" && !o.LogLevel.Valid() {
		return fmt.Errorf("unknown log level %q", o.LogLevel)
	}
	if _, err := era.ModeOf(o.Version, era.Mode(o.Era)); err != nil {
		return fmt.Errorf("Options.Version: %w", err)
	}
	for option, capabilities := range map[string]map[string]json.RawMessage{"Experimental": o.Experimental, "Extensions": o.Extensions} {
		for name, settings := range capabilities {
			if jsonscan.KindOf(settings) != jsonscan.Object || jsonscan.Valid(settings) != nil {
				return fmt.Errorf("in Options.%s, %q must be a JSON object", option, name)
			}
		}
	}
	if o.Capabilities == nil {
		return nil
	}
	for _, option := range []struct {
		name string
		set  bool
	}{
		{"Elicit", o.Elicit != nil}, {"Sample", o.Sample != nil}, {"ShowsApps", o.ShowsApps},
		{"Experimental", o.Experimental != nil}, {"Extensions", o.Extensions != nil},
	} {
		if option.set {
			return fmt.Errorf("setting Options.%s has no effect if Options.Capabilities is set: set one of them", option.name)
		}
	}
	return nil
}

// capabilities returns the capabilities to declare.
func (o *Options) capabilities() mcp.ClientCapabilities {
	if o.Capabilities != nil {
		return *o.Capabilities
	}
	can := mcp.ClientCapabilities{Experimental: o.Experimental, Extensions: maps.Clone(o.Extensions)}
	if o.Elicit != nil {
		can.Elicitation = &mcp.ElicitationCapability{Form: &mcp.EmptyObject{}}
		if o.ElicitURLs {
			can.Elicitation.URL = &mcp.EmptyObject{}
		}
	}
	if o.Sample != nil {
		can.Sampling = &mcp.SamplingCapability{}
		if o.SampleTools {
			can.Sampling.Tools = &mcp.EmptyObject{}
		}
	}
	if o.Roots != nil {
		can.Roots = &mcp.RootsCapability{ListChanged: true}
	}
	if !o.NoTasks {
		if can.Extensions == nil {
			can.Extensions = make(map[string]json.RawMessage, 1)
		}
		can.Extensions[mcp.ExtensionTasks] = json.RawMessage("{}")
	}
	if o.ShowsApps {
		can.DeclareApps()
	}
	return can
}

func (o *Options) config(answerer era.Answerer) era.Config {
	mode, err := era.ModeOf(o.Version, era.Mode(o.Era))
	if err != nil {
		panic(err) // impossible: check has returned it
	}
	return era.Config{
		Info: o.Info, Capabilities: o.capabilities(), Answerer: answerer,
		Mode: mode, Version: o.Version, LogLevel: o.LogLevel,
		ProbeTimeout: o.ProbeTimeout, OpenTimeout: o.ConnectTimeout, CallTimeout: o.CallTimeout,
		MaxRounds: o.Limits.Rounds, QuestionsPerMinute: o.Limits.QuestionsPerMinute, QuestionBurst: o.Limits.QuestionBurst,
		QuestionBytes:    o.Limits.QuestionBytes,
		CheckDescription: o.Limits.checkDescription,
	}
}

// CallOptions configures one call. A nil *CallOptions is valid.
type CallOptions struct {
	// Progress is called for each progress notification, on the goroutine that makes the call and
	// before the call returns. For a task it is called when the client sees progress: some may be
	// missing, and a new status message without a number counts as one step.
	Progress func(*mcp.ProgressParams)
	// Meta is added to the request's _meta. Keys that the protocol itself sets are ignored: the
	// progress token, the version, and the description of the client.
	Meta mcp.Meta
	// Timeout replaces [Options].CallTimeout for this call. If it is positive, it also applies to a
	// context with a deadline, and the earlier of the two ends the call. Default:
	// Options.CallTimeout. It bounds each request about a task, and not the task.
	Timeout time.Duration
	// OnTask is called if the call of a tool continues as a task, on the goroutine that makes the call,
	// once and before the call waits for the task. The task goes on when the context of the call ends:
	// [Session.Task] waits for it again, also in another process. Without OnTask, a call that fails
	// cancels its task.
	OnTask func(*mcp.Task)

	noTask bool // the call must not continue as a task
}

// options returns the options of the protocol layer.
func (o *CallOptions) options() era.CallOptions {
	if o == nil {
		return era.CallOptions{}
	}
	return era.CallOptions{Progress: o.Progress, Timeout: o.Timeout, NoTask: o.noTask}
}

func (o *CallOptions) meta() (mcp.Meta, error) {
	if o == nil {
		return nil, nil
	}
	return userMeta(o.Meta)
}

// reservedMeta removes the keys that only the protocol sets.
func reservedMeta() []jsonscan.Edit {
	return []jsonscan.Edit{
		{Name: mcp.MetaProgressToken}, {Name: mcp.MetaProtocolVersion}, {Name: mcp.MetaLogLevel},
		{Name: mcp.MetaClientInfo}, {Name: mcp.MetaClientCapabilities},
	}
}

// userMeta returns a caller's _meta without reserved keys. nil stays nil.
func userMeta(meta mcp.Meta) (mcp.Meta, error) {
	if meta.IsZero() {
		return nil, nil
	}
	may, err := jsonscan.Splice(nil, bytes.TrimSpace(meta), reservedMeta()...)
	if err != nil {
		return nil, fmt.Errorf("_meta must be an object: %w", err)
	}
	return may, nil
}

// userParams returns a caller's params with meta added to their _meta, and without reserved keys.
func userParams(params json.RawMessage, meta mcp.Meta) (mcp.Raw, error) {
	members, err := jsonscan.ReadObject(params)
	if err != nil {
		return nil, fmt.Errorf("params must be an object: %w", err)
	}
	own, err := userMeta(members.Get("_meta"))
	if err != nil {
		return nil, err
	}
	if own, err = mergeMeta(own, meta); err != nil {
		return nil, err
	}
	if members.Len() == 0 && own.IsZero() {
		return mcp.Raw("{}"), nil
	}
	return jsonscan.Splice(nil, bytes.TrimSpace(params), jsonscan.Edit{Name: "_meta", Value: own})
}

// mergeMeta returns meta with the members of more, which take precedence. Neither is changed.
func mergeMeta(meta, more mcp.Meta) (mcp.Meta, error) {
	if more.IsZero() {
		return meta, nil
	}
	members, err := jsonscan.ReadObject(more)
	if err != nil {
		return nil, err
	}
	for m := range members.All() {
		if err := meta.Set(m.Name(), m.Value); err != nil {
			return nil, err
		}
	}
	return meta, nil
}
