package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// A hub is the servers of a configuration with all that stands before them.
type hub struct {
	directory *gateway.Directory
	approver  *approver
	journal   *approval.FileJournal // nil without a file
	metrics   *gateway.Metrics
	around    []mcp.Middleware // around each call, by whichever face it comes
	face      *server.Server   // which has the bridge's life too
	logger    *slog.Logger
}

// open puts everything together. Nothing is started yet.
func open(ctx context.Context, o *options, in io.Reader, said io.Writer) (*hub, error) {
	h := &hub{metrics: &gateway.Metrics{}, logger: slog.New(slog.NewTextHandler(said, nil))}
	servers, launches, err := h.servers(ctx, o.config)
	if err != nil {
		return nil, err
	}
	h.directory, err = gateway.NewDirectory(servers, &gateway.DirectoryOptions{
		Launch:  func(alias string) string { return launches[alias] },
		Trusted: trusted(o.trust),
	})
	if err != nil {
		return nil, err
	}
	compiled, err := rules(o.policy, h.logger)
	if err != nil {
		return nil, err
	}
	if h.approver, err = newApprover(o, in, said, h.logger); err != nil {
		return nil, err
	}
	gate := &approval.Options{Expiry: o.expiry, Logger: h.logger}
	if o.journal != "" {
		if h.journal, err = approval.OpenJournal(o.journal, h.logger); err != nil {
			return nil, errors.Join(err, h.close())
		}
		gate.Journal = h.journal
	}
	h.surround(compiled, gate)
	h.face = server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, &server.Options{
		Logger: h.logger, Middleware: h.around,
	})
	if err := h.face.Mount(servers, nil); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// servers are those of a file, and how each is launched.
func (h *hub) servers(ctx context.Context, path string) (*bridge.Bridge, map[string]string, error) {
	file, err := config.Load(path)
	if err != nil {
		return nil, nil, err
	}
	for _, warning := range file.Warnings {
		h.logger.Warn("something in the configuration has no effect", "file", file.Name, "warning", warning.String())
	}
	resolved, err := file.Expand(ctx, &config.Expander{Ask: config.AskEnv})
	if err != nil {
		return nil, nil, err
	}
	launches := make(map[string]string)
	configs := make([]bridge.Config, len(resolved))
	for i, r := range resolved {
		launches[r.Alias] = gateway.Launch(r)
		if configs[i], err = r.Bridge(&config.DialOptions{Stderr: os.Stderr, Logger: h.logger}); err != nil {
			return nil, nil, err
		}
	}
	b, err := bridge.New(&bridge.Options{Logger: h.logger}, configs...)
	return b, launches, err
}

// surround puts the log, the policy and the gate around each call, in this order: the log
// has what the others refuse, and nobody is asked about what is denied.
func (h *hub) surround(compiled *policy.Compiled, gate *approval.Options) {
	audit := &gateway.Audit{Logger: h.logger, Counters: h.metrics, Directory: h.directory}
	leave := func(_ context.Context, call *mcp.Call, _ policy.Decision) error {
		if call.Method() == mcp.MethodToolsCall {
			return nil // the gate asks
		}
		return &approval.Error{Kind: approval.NoApprover, Tool: call.Method(), Reason: "only tool calls can be approved"}
	}
	enforcer := &gateway.Enforcer{Policy: compiled, Locate: h.directory.Locate, Ask: leave, Decided: audit.Decided}
	h.around = []mcp.Middleware{
		audit.Intercept,
		enforcer.Intercept,
		gateway.Gate(h.directory.Describe, enforcer, h.approver.Approver, gate),
	}
}

// close ends what nothing may be asked of any more.
func (h *hub) close() error {
	err := h.approver.close()
	if h.journal != nil {
		err = errors.Join(err, h.journal.Close())
	}
	return err
}
