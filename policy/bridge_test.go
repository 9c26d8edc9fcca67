package policy_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// guarded are the ways in which a guard can surround what a bridge or proxy offers.
var guarded = map[string]func(guard mcp.Guard) (*bridge.Options, *server.Options, *server.MountOptions){
	"the bridge": func(guard mcp.Guard) (*bridge.Options, *server.Options, *server.MountOptions) {
		return &bridge.Options{Guards: []mcp.Guard{guard}}, &server.Options{}, nil
	},
	"the server": func(guard mcp.Guard) (*bridge.Options, *server.Options, *server.MountOptions) {
		return nil, &server.Options{Guards: []mcp.Guard{guard}}, nil
	},
	"the mount": func(guard mcp.Guard) (*bridge.Options, *server.Options, *server.MountOptions) {
		return nil, &server.Options{}, &server.MountOptions{Prefix: "m.", Guards: []mcp.Guard{guard}}
	},
}

// TestOfManyServers: rules are about servers and the names that these have for their tools,
// however the two are put together for callers.
func TestOfManyServers(t *testing.T) {
	guard := policy.Guard(parsed(t, `{"rules":[
		{"effect":"allow","servers":["good"]},{"effect":"deny","names":["*write"]},{"effect":"ask","names":["sell"],"servers":["good"]}]}`), nil)
	for where, options := range guarded {
		t.Run(where, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				var configs []bridge.Config
				for alias, names := range map[string][]string{"good": {"read", "x__write", "sell"}, "evil": {"read", "good__read"}} {
					upstream := shop(t, &server.Options{}, names...)
					configs = append(configs, bridge.Config{Alias: alias, Dialer: transport.Pipe(upstream), ProxyOptions: bridge.ProxyOptions{Rename: map[string]string{"sell": "read2"}}})
				}
				bridgeOptions, serverOptions, mountOptions := options(guard)
				if bridgeOptions == nil {
					bridgeOptions = &bridge.Options{}
				}
				bridgeOptions.Logger = slog.New(slog.DiscardHandler)
				b, err := bridge.New(bridgeOptions, configs...)
				if err != nil {
					t.Fatal(err)
				}
				prefix := ""
				if mountOptions != nil {
					prefix = mountOptions.Prefix
				}
				session := connect(t, faceOf(t, b, serverOptions, mountOptions), era)
				shown, _ := listed(t, session, mcp.MethodToolsList, "tools", "name")
				if !slices.Equal(shown, []string{prefix + "good__read"}) {
					t.Errorf("listed are %q", shown)
				}
				for _, exposed := range []string{"good__read", "good__x__write", "good__read2", "evil__read", "evil__good__read"} {
					_, err := session.CallTool(t.Context(), prefix+exposed, nil, nil)
					if (err == nil) != (exposed == "good__read") || err != nil && !client.IsForbidden(err) {
						t.Errorf("%s: %v", exposed, err)
					}
				}
				for uri, want := range map[string]bool{"app:sell": true, "app:good__read": false} {
					if _, err := session.Read(t.Context(), uri, nil); (err == nil) != want {
						t.Errorf("%s: %v", uri, err)
					}
				}
			})
		})
	}
}

// faceOf is a server that offers what a provider does.
func faceOf(t testing.TB, p server.Provider, opts *server.Options, mount *server.MountOptions) *server.Server {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	face := server.New(mcp.Implementation{Name: "face", Version: "1"}, opts)
	if err := face.Mount(p, mount); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { face.Shutdown(context.Background()) })
	return face
}

// TestTrustOfOrigins: what a server's own entries say of themselves is believed, also where
// the server is mounted; what comes from behind a bridge or proxy is not, unless the
// operator says so.
func TestTrustOfOrigins(t *testing.T) {
	own := func() *server.Server {
		s := server.New(mcp.Implementation{Name: "own", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
		server.AddTool(s, server.Tool{Name: "read", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		return s
	}
	guard := policy.Guard(parsed(t, `{"rules":[{"effect":"allow","annotations":{"readOnlyHint":true}}]}`), nil)
	proxied := func(trusted bool) server.Provider {
		return bridge.Proxy(transport.Pipe(own()), &bridge.ProxyOptions{Trusted: trusted})
	}
	bridged := func(trusted bool) server.Provider {
		b, err := bridge.New(nil, bridge.Config{Alias: "a", Dialer: transport.Pipe(own()), ProxyOptions: bridge.ProxyOptions{Trusted: trusted}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, test := range map[string]struct {
		provider server.Provider
		tool     string
		trusted  bool
	}{
		"own":               {own().Provider(), "read", true},
		"a proxy":           {proxied(false), "read", false},
		"a trusted proxy":   {proxied(true), "read", true},
		"a bridge":          {bridged(false), "a__read", false},
		"a trusted bridge":  {bridged(true), "a__read", true},
		"a mounted face":    {faceOf(t, bridged(false), &server.Options{}, nil).Provider(), "a__read", false},
		"a prefixed mount":  {faceOf(t, proxied(false), &server.Options{}, &server.MountOptions{Prefix: "p."}).Provider(), "p.read", false},
		"a mounted wrapper": {faceOf(t, own().Provider(), &server.Options{}, &server.MountOptions{Prefix: "p."}).Provider(), "p.read", true},
	} {
		t.Run(name, func(t *testing.T) {
			session := connect(t, faceOf(t, test.provider, &server.Options{Guards: []mcp.Guard{guard}}, nil), client.Modern)
			shown, _ := listed(t, session, mcp.MethodToolsList, "tools", "name")
			_, err := session.CallTool(t.Context(), test.tool, nil, nil)
			if (len(shown) == 1) != test.trusted || (err == nil) != test.trusted || err != nil && !client.IsForbidden(err) {
				t.Errorf("listed are %q, the call: %v", shown, err)
			}
		})
	}
}

// TestOriginsOfRemoteEntries: whatever comes from another server says so, in each kind, and
// also while it is quarantined.
func TestOriginsOfRemoteEntries(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	proxied := func() server.Provider {
		return bridge.Proxy(transport.Pipe(shop(t, &server.Options{}, "a")), &bridge.ProxyOptions{Logger: quiet})
	}
	bridged, err := bridge.New(&bridge.Options{Logger: quiet}, bridge.Config{Alias: "s", Dialer: transport.Pipe(shop(t, &server.Options{}, "a"))})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]server.Provider{
		"a proxy": proxied(), "a bridge": bridged,
		"pinned":      pin.Guarded(proxied(), "s", pin.NewLock(""), &pin.Options{TrustNew: true, Logger: quiet}),
		"quarantined": pin.Guarded(proxied(), "s", pin.NewLock(""), &pin.Options{Logger: quiet}),
	} {
		t.Run(name, func(t *testing.T) {
			face := faceOf(t, p, &server.Options{}, &server.MountOptions{Prefix: "p."})
			listed(t, connect(t, face, client.Modern), mcp.MethodToolsList, "tools", "name") // which waits for the server
			found := 0
			for _, catalog := range []*server.Catalog{p.Catalog(), face.Catalog()} {
				entry := func(e *server.Entry) {
					found++
					if e.Origin.Name == "" || e.Origin.Trusted {
						t.Errorf("%v %q is of %+v", e.Kind, e.Name, e.Origin)
					}
				}
				for kind := mcp.KindTool; kind <= mcp.KindResourceTemplate; kind++ {
					for e := range catalog.All(kind) {
						entry(e)
					}
				}
				if e, err := catalog.Resolve(t.Context(), mcp.KindTool, map[bool]string{true: "p.a", false: "a"}[catalog == face.Catalog()]); err != nil {
					t.Error(err)
				} else if e != nil {
					entry(e)
				}
			}
			if found != 8 {
				t.Errorf("there are %d entries, want 4 at each of two servers", found)
			}
		})
	}
}
