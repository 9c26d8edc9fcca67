package code

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Options configure the provider of [New].
type Options struct {
	// Engine runs the scripts. It is required, and must be closed after the provider has ended.
	Engine *Engine
	// Description tells a model what the tools can do, such as "GitHub issues and pull requests, the wiki". It is added to the
	// description of [SearchTool].
	Description string
	// Guards and CallMiddleware apply to the tools of the source, as for direct calls. A tool that Visible of a guard hides
	// is neither found nor in scripts. Guards of the server that the provider is mounted on see the two tools only.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Store keeps what scripts have done when they wait for an answer, so that any replica with the same store can continue
	// them, once. It contains arguments' digests and results of tools, so it should be sealed; see [store.Sealed]. Default:
	// the client carries the results, encrypted, and this process knows which runs have continued: another replica may
	// continue a script too, and there a client that sends an old state again can make calls run twice.
	Store store.Store
	// Limits bound scripts.
	Limits Limits
	// Transpile converts a source that is not JavaScript, for example from TypeScript, to the body of an async function. It is
	// called for a source with a syntax error, and must convert equal sources equally. Its error is for the model. Default: none.
	Transpile func(ctx context.Context, source string) (string, error)
	// Logger logs failures of the store, and entries that cannot be offered. Default: slog.Default().
	Logger *slog.Logger
}

// Limits bound what one script may use. 0 means the default.
type Limits struct {
	// Source is the largest script, in bytes. Default 64 KiB.
	Source int
	// Computing is how long a script may compute, without the time in which it waits for tools. It is the time of the clock, so
	// a busy machine computes less. A script that continues after an answer has the time again. Default 5 s.
	Computing time.Duration
	// Calls is how many calls a script may make. Default 50.
	Calls int
	// Parallel is how many calls of a script run at the same time; others wait. Default 8.
	Parallel int
	// CallResult is the largest result of a call, in bytes of JSON. Default 4 MiB.
	CallResult int
	// Result is the largest value of a script, in bytes of JSON. Images and other content that the script returns do not
	// count; together they have at most CallResult bytes. Default 64 KiB.
	Result int
	// Console is how many bytes the script may write with console.log. What is more is left out. Default 16 KiB.
	Console int
	// State is how many bytes of results are kept while a script waits for an answer. A script that asks later than that
	// fails. Default 40 KiB, and 1 MiB with [Options].Store, with
	// results of at most 511 KiB.
	State int
	// Running is how many scripts compute at the same time. Others wait: the turns go round among the clients. Default
	// [runtime.GOMAXPROCS].
	Running int
	// Open is how many scripts have begun and not ended; further ones are refused. One authenticated client has at most an
	// eighth; so has any other while half of them are open. Each needs the memory of its engine at most, and that of the
	// results that it waits for. Default 32.
	Open int
}

func (l Limits) withDefaults(shared bool) Limits {
	state := 40 << 10
	if shared {
		state = 1 << 20
	}
	return Limits{
		Source:     cmp.Or(l.Source, 64<<10),
		Computing:  cmp.Or(l.Computing, 5*time.Second),
		Calls:      cmp.Or(l.Calls, 50),
		Parallel:   cmp.Or(l.Parallel, 8),
		CallResult: cmp.Or(l.CallResult, 4<<20),
		Result:     cmp.Or(l.Result, 64<<10),
		Console:    cmp.Or(l.Console, 16<<10),
		State:      cmp.Or(l.State, state),
		Running:    cmp.Or(l.Running, runtime.GOMAXPROCS(0)),
		Open:       cmp.Or(l.Open, 32),
	}
}

func (l *Limits) check() error {
	for _, limit := range []int{l.Source, int(l.Computing), l.Calls, l.Parallel, l.CallResult, l.Result, l.Console, l.State, l.Running, l.Open} {
		if limit < 0 {
			return errors.New("code: a limit of Options.Limits is negative")
		}
	}
	return nil
}
