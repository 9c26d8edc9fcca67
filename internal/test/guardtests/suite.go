package guardtests

import (
	"context"
	"log/slog"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// Calls is how the callers of a suite call the tools of a server.
type Calls struct {
	// Connect returns a session with a server that has what s has. Servers between the session and s write to logger.
	Connect func(ctx context.Context, t testing.TB, s *server.Server, logger *slog.Logger, opts *client.Options) *client.Session
	// Hides means that a tool that is not listed is unknown. A direct call of it is decided by the guards.
	Hides bool
}

// A Suite has the tests of guards that a program writes: each method whose name begins with Test.
type Suite struct{ Calls }

// A PolicySuite has the tests of [policy.Guard]: each method whose name begins with Test.
type PolicySuite struct{ Calls }

// Run runs all tests of the suite.
func (s Suite) Run(t *testing.T) { approvaltests.RunMethods(t, s) }

// Run runs all tests of the suite.
func (s PolicySuite) Run(t *testing.T) { approvaltests.RunMethods(t, s) }

func (s PolicySuite) connect(t testing.TB, tools *server.Server, era client.Era) *client.Session {
	return s.Connect(t.Context(), t, tools, quiet(), &client.Options{Era: era})
}

// Run runs both suites.
func (c Calls) Run(t *testing.T) {
	Suite{c}.Run(t)
	PolicySuite{c}.Run(t)
}

// Direct returns calls of the server itself, over the transport of this run.
func Direct() Calls { return Calls{Connect: direct} }

func direct(ctx context.Context, t testing.TB, s *server.Server, _ *slog.Logger, opts *client.Options) *client.Session {
	t.Helper()
	return connected(ctx, t, transporttests.Dialer(t, s), opts)
}

// eachEra runs a test for each era that the transport of this run carries.
func eachEra(t *testing.T, run func(t *testing.T, era client.Era)) {
	if transporttests.CarriesModern() {
		t.Run("modern", func(t *testing.T) { run(t, client.Modern) })
	}
	t.Run("legacy", func(t *testing.T) { run(t, client.Legacy) })
}

// asBot gives every caller the role bot.
func asBot(context.Context, *mcp.Caller) (policy.Subject, error) {
	return policy.Subject{Roles: []string{"bot"}}, nil
}
