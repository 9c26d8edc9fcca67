package main

import (
	"context"
	"fmt"
	"os"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// own is what rules call the sandbox itself, whose tools can be believed.
const own = "sandbox"

// surround puts the policy of a file around everything. What it says to ask about, the
// person behind the caller decides.
func (s *sandbox) surround(opts *server.Options) error {
	if s.policy == "" {
		return nil
	}
	data, err := os.ReadFile(s.policy)
	if err != nil {
		return err
	}
	parsed, err := policy.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", s.policy, err)
	}
	compiled, err := policy.Compile(parsed)
	if err != nil {
		return fmt.Errorf("%s: %w", s.policy, err)
	}
	locate := func(ctx context.Context, kind mcp.Kind, exposed string) (policy.Target, error) {
		target, err := s.directory.Locate(ctx, kind, exposed)
		if target.Server == "" {
			target.Server = own
		}
		return target, err
	}
	describe := func(ctx context.Context, call *mcp.Call) (approval.Target, error) {
		target, err := s.directory.Describe(ctx, call)
		if target.Server == "" {
			target.Server = own
		}
		return target, err
	}
	enforcer := &policy.Enforcer{Policy: compiled, Locate: locate, Ask: approval.LeaveToGate}
	gate := approval.Gate(approval.ByPolicy(enforcer), approval.ByCaller(), &approval.Options{Describe: describe, Logger: s.logger})
	opts.Middleware, opts.CallMiddleware = []mcp.Middleware{enforcer.Intercept}, []mcp.Middleware{gate}
	return nil
}

// direct makes the directory by which rules know what tools are.
func (s *sandbox) direct() (err error) {
	s.directory, err = gateway.NewDirectory(s.face.Provider(), &gateway.DirectoryOptions{
		Servers: s, Trusted: func(alias string) bool { return alias == "" },
	})
	return err
}

// States says how the custom servers do.
func (s *sandbox) States() []bridge.State { return s.custom.States() }
