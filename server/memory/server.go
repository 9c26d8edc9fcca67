package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Defaults of [Options].
const (
	defaultMaxName     = 256
	defaultMaxSnapshot = 1 << 20
	defaultMaxValue    = 4 << 10
	defaultTimeout     = 10 * time.Second
)

// Options configure a memory server. The zero value is ready to use. A zero number means its
// default, a negative number no limit.
type Options struct {
	// Info identifies the server. Default: the name "memory".
	Info mcp.Implementation
	// Server configures the server: its guards, middleware and logger. Its default
	// Instructions explain the tools to a model.
	Server *server.Options
	// Shared gives all callers one memory, also callers that are not
	// authenticated. By default each principal has a separate memory.
	Shared bool
	// MissingIsError makes reading a conversation that does not exist an error. By default
	// the result is "[]", an empty conversation.
	MissingIsError bool
	// MaxName, MaxSnapshot and MaxValue are the longest id or key, snapshot and fact that
	// callers may send, in bytes. Defaults 256, 1 MiB and
	// 4 KiB.
	MaxName, MaxSnapshot, MaxValue int
	// Timeout bounds each operation of the store. Default 10 s.
	Timeout time.Duration
}

const instructions = "Save what must outlast this conversation, and look it up before you ask again. " +
	"Facts are short texts about one user. A conversation is saved as a whole, under an id that you choose."

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Info.Name == "" {
		opts.Info = mcp.Implementation{Name: "memory", Title: "Memory", Version: "0"}
	}
	var of server.Options
	if opts.Server != nil {
		of = *opts.Server
	}
	of.Instructions = cmp.Or(of.Instructions, instructions)
	of.Logger = cmp.Or(of.Logger, slog.Default())
	opts.Server = &of
	for limit, defaultValue := range map[*int]int{
		&opts.MaxName: defaultMaxName, &opts.MaxSnapshot: defaultMaxSnapshot, &opts.MaxValue: defaultMaxValue,
	} {
		if *limit = cmp.Or(*limit, defaultValue); *limit < 0 {
			*limit = math.MaxInt
		}
	}
	opts.Timeout = cmp.Or(opts.Timeout, defaultTimeout)
	return opts
}

// New returns a server that keeps its records in store. It does not close the store.
func New(store Store, opts *Options) *server.Server {
	options := opts.withDefaults()
	m := &memoryServer{
		options: options,
		store:   &guardedStore{store: store, timeout: options.Timeout, logger: options.Server.Logger},
		server:  server.New(options.Info, options.Server),
	}
	m.addConversations()
	m.addFacts()
	return m.server
}

// A memoryServer has the handlers of the tools and of the resource.
type memoryServer struct {
	options Options
	store   Store
	server  *server.Server
}

// owner returns the owner of the memory that a request is about.
func (m *memoryServer) owner(r *server.Request) string {
	if m.options.Shared {
		return ""
	}
	return r.Caller().Principal
}

// checkName rejects names that could not be listed, read or logged.
func (m *memoryServer) checkName(argument, name string) error {
	if err := checkLength(argument, name, m.options.MaxName); err != nil {
		return err
	}
	if name == "" {
		return fmt.Errorf("%s: expected 1 to %d bytes, got none", argument, m.options.MaxName)
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%s: expected no control characters", argument)
	}
	return nil
}

func checkLength(argument, text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%s: expected at most %d bytes, got %d", argument, limit, len(text))
	}
	return nil
}

// errStore replaces the errors of a store for callers.
var errStore = errors.New("the memory is not available now; it may or may not have saved or deleted anything")

// A guardedStore bounds the time of each operation of a store. It logs the errors of the
// store, which may contain paths and addresses, and returns errStore instead.
type guardedStore struct {
	store   Store
	timeout time.Duration // negative: none
	logger  *slog.Logger
}

// Save implements [Store].
func (s *guardedStore) Save(ctx context.Context, in Collection, record Record) error {
	return s.do(ctx, "save", func(ctx context.Context) error { return s.store.Save(ctx, in, record) })
}

// Load implements [Store].
func (s *guardedStore) Load(ctx context.Context, in Collection, key string) (value string, err error) {
	err = s.do(ctx, "load", func(ctx context.Context) error {
		value, err = s.store.Load(ctx, in, key)
		return err
	})
	return value, err
}

// Delete implements [Store].
func (s *guardedStore) Delete(ctx context.Context, in Collection, key string) (deleted bool, err error) {
	err = s.do(ctx, "delete", func(ctx context.Context) error {
		deleted, err = s.store.Delete(ctx, in, key)
		return err
	})
	return deleted, err
}

// List implements [Store].
func (s *guardedStore) List(ctx context.Context, in Collection, query Query) (records []Record, err error) {
	err = s.do(ctx, "list", func(ctx context.Context) error {
		records, err = s.store.List(ctx, in, query)
		return err
	})
	return records, err
}

func (s *guardedStore) do(ctx context.Context, operation string, run func(context.Context) error) error {
	bounded := ctx
	if s.timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	err := run(bounded)
	if err == nil {
		return nil
	}
	if full, ok := errors.AsType[*FullError](err); ok {
		return full
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return ErrNotFound
	case ctx.Err() != nil:
		return context.Cause(ctx) // canceled by the caller
	}
	s.logger.Error("the store of the memory has failed", "operation", operation, "error", err)
	return errStore
}
