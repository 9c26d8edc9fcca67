package policy_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestOfManyServers: rules are about servers and the names that these have for their tools,
// however the two are put together for callers.
func TestOfManyServers(t *testing.T) {
	targets := map[string]policy.Target{}
	var configs []bridge.Config
	for alias, names := range map[string][]string{"good": {"read", "x__write"}, "evil": {"read", "good__read"}} {
		for _, name := range names {
			targets[bridge.Name(alias, name)] = policy.Target{Server: alias, Name: name}
		}
		upstream := shop(t, &server.Options{}, names...)
		configs = append(configs, bridge.Config{Alias: alias, Dialer: transport.Pipe(upstream)})
	}
	e := &policy.Enforcer{
		Policy: parsed(t, `{"rules":[{"effect":"allow","servers":["good"]},{"effect":"deny","names":["*write"]}]}`),
		Locate: func(_ context.Context, kind mcp.Kind, exposed string) (policy.Target, error) {
			target, ok := targets[exposed]
			if !ok || kind != mcp.KindTool {
				return target, errors.New("there is no such tool")
			}
			return target, nil
		},
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		b, err := bridge.New(nil, configs...)
		if err != nil {
			t.Fatal(err)
		}
		face := server.New(mcp.Implementation{Name: "face", Version: "1"}, &server.Options{Middleware: []mcp.Middleware{e.Intercept}})
		if err := face.Mount(b, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { face.Shutdown(context.Background()) })
		session := connect(t, face, era)
		shown, _ := listed(t, session, mcp.MethodToolsList, "tools", "name")
		if !slices.Equal(shown, []string{"good__read"}) {
			t.Errorf("listed are %q", shown)
		}
		for exposed := range targets {
			_, err := session.CallTool(t.Context(), exposed, nil, nil)
			if (err == nil) != (exposed == "good__read") {
				t.Errorf("%s: %v", exposed, err)
			}
		}
		if _, err := session.CallTool(t.Context(), "good__other", nil, nil); !client.IsForbidden(err) {
			t.Errorf("what is nowhere: %v", err)
		}
	})
}

// TestAroundClient: the same interceptor stands around what a client forwards.
func TestAroundClient(t *testing.T) {
	e := &policy.Enforcer{Policy: parsed(t, `{"allow":["read"]}`)}
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, shop(t, &server.Options{}, "read", "write"), era)
		invoke := e.Intercept(func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			return session.Forward(ctx, call, nil)
		})
		if _, err := invoke(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"read"}`)); err != nil {
			t.Error(err)
		}
		_, err := invoke(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"write"}`))
		if _, denied := errors.AsType[*policy.DeniedError](err); !denied {
			t.Errorf("the error is %v", err)
		}
	})
}
