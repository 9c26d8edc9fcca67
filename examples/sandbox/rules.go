package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// own is what rules call the sandbox itself, whose tools can be believed.
const own = "sandbox"

// rules is the policy of a file, to stand around everything. What it says to ask about, the
// person behind the caller decides.
func (s *sandbox) rules() (server.Around, error) {
	if s.policy == "" {
		return server.Around{}, nil
	}
	data, err := os.ReadFile(s.policy)
	if err != nil {
		return server.Around{}, err
	}
	parsed, err := policy.Parse(data)
	if err != nil {
		return server.Around{}, fmt.Errorf("%s: %w", s.policy, err)
	}
	compiled, err := policy.Compile(parsed)
	if err != nil {
		return server.Around{}, fmt.Errorf("%s: %w", s.policy, err)
	}
	locate := func(ctx context.Context, kind mcp.Kind, exposed string) (policy.Target, error) {
		return s.directory.Locate(ctx, kind, exposed)
	}
	describe := func(ctx context.Context, call *mcp.Call) (approval.Target, error) {
		return s.directory.Describe(ctx, call)
	}
	enforcer := &policy.Enforcer{Policy: compiled, Locate: locate, Ask: approval.LeaveToGate}
	gate := approval.Gate(approval.ByPolicy(enforcer), approval.ByCaller(), &approval.Options{Describe: describe, Logger: s.logger})
	return server.Around{Outer: []mcp.Middleware{enforcer.Intercept}, Inner: []mcp.Middleware{gate}}, nil
}

// direct makes the directory by which rules know what tools are.
func (s *sandbox) direct() (err error) {
	s.directory, err = gateway.NewDirectory(s.face.Provider(), &gateway.DirectoryOptions{
		Servers: s, Trusted: func(alias string) bool { return alias == own },
	})
	return err
}

// Origin says whose something is: a custom server's, or the sandbox's. Only what has the
// prefix of custom servers can be one's, whatever they call themselves and their tools.
func (s *sandbox) Origin(kind mcp.Kind, exposed string) (alias, name string, ok bool) {
	inside, custom := exposed, true
	if kind == mcp.KindTool || kind == mcp.KindPrompt {
		inside, custom = strings.CutPrefix(exposed, customPrefix)
	}
	if custom {
		if alias, name, ok := s.custom.Origin(kind, inside); ok {
			return alias, name, true
		}
	}
	return own, exposed, true
}

// States says how the custom servers do.
func (s *sandbox) States() []bridge.State { return s.custom.States() }
