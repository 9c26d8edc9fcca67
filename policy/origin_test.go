package policy_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/guardtests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// guarded are the options that install a guard on a bridge, a server or a mount.
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

// TestOfManyServers: rules match the server and its own names, whatever names callers see.
func TestOfManyServers(t *testing.T) {
	guard := policy.Guard(parsed(t, `{"rules":[
		{"effect":"allow","servers":["good"]},{"effect":"deny","names":["*write"]},{"effect":"ask","names":["sell"],"servers":["good"]}]}`), nil)
	for where, options := range guarded {
		t.Run(where, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				var configs []bridge.Config
				for alias, names := range map[string][]string{"good": {"read", "x__write", "sell"}, "evil": {"read", "good__read"}} {
					upstream := guardtests.Shop(t, &server.Options{}, names...)
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
				session := connect(t, mounted(t, b, serverOptions, mountOptions), era)
				shown, _ := guardtests.Listed(t, session, mcp.MethodToolsList, "tools", "name")
				if !slices.Equal(shown, []string{prefix + "good__read"}) {
					t.Errorf("listed are %q", shown)
				}
				for _, exposed := range []string{"good__read", "good__x__write", "good__read2", "evil__read", "evil__good__read"} {
					err := guardtests.Refusal(session.CallTool(t.Context(), prefix+exposed, nil, nil))
					if (err == nil) != (exposed == "good__read") || err != nil && !client.IsForbidden(err) {
						t.Errorf("%s: %v", exposed, err)
					}
				}
				for uri, want := range map[string]bool{"app:sell": true, "app:good__read": false} {
					if _, err := session.ReadResource(t.Context(), uri, nil); (err == nil) != want {
						t.Errorf("%s: %v", uri, err)
					}
				}
			})
		})
	}
}

// mounted returns a server with a mounted provider.
func mounted(t testing.TB, p server.Provider, opts *server.Options, mount *server.MountOptions) *server.Server {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	s := server.New(mcp.Implementation{Name: "mounted", Version: "1"}, opts)
	if err := s.Mount(p, mount); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return s
}

// TestTrustOfOrigins: annotations of a server's own entries are trusted, even if the server is mounted. Annotations of
// entries from a bridge or proxy are not trusted, unless the operator says so.
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
		"a mounted bridge":  {mounted(t, bridged(false), &server.Options{}, nil).Provider(), "a__read", false},
		"a prefixed mount":  {mounted(t, proxied(false), &server.Options{}, &server.MountOptions{Prefix: "p."}).Provider(), "p.read", false},
		"a mounted wrapper": {mounted(t, own().Provider(), &server.Options{}, &server.MountOptions{Prefix: "p."}).Provider(), "p.read", true},
	} {
		t.Run(name, func(t *testing.T) {
			session := connect(t, mounted(t, test.provider, &server.Options{Guards: []mcp.Guard{guard}}, nil), client.Modern)
			shown, _ := guardtests.Listed(t, session, mcp.MethodToolsList, "tools", "name")
			err := guardtests.Refusal(session.CallTool(t.Context(), test.tool, nil, nil))
			if (len(shown) == 1) != test.trusted || (err == nil) != test.trusted || err != nil && !client.IsForbidden(err) {
				t.Errorf("listed are %q, the call: %v", shown, err)
			}
		})
	}
}

// TestOriginsOfRemoteEntries: every entry of another server has an untrusted origin, even
// while it is quarantined.
func TestOriginsOfRemoteEntries(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	proxied := func() server.Provider {
		return bridge.Proxy(transport.Pipe(guardtests.Shop(t, &server.Options{}, "a")), &bridge.ProxyOptions{Logger: quiet})
	}
	bridged, err := bridge.New(&bridge.Options{Logger: quiet}, bridge.Config{Alias: "s", Dialer: transport.Pipe(guardtests.Shop(t, &server.Options{}, "a"))})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]server.Provider{
		"a proxy": proxied(), "a bridge": bridged,
		"pinned":      pin.Wrap(proxied(), "s", pin.NewLock(""), &pin.Options{TrustNew: true, Logger: quiet}),
		"quarantined": pin.Wrap(proxied(), "s", pin.NewLock(""), &pin.Options{Logger: quiet}),
	} {
		t.Run(name, func(t *testing.T) {
			s := mounted(t, p, &server.Options{}, &server.MountOptions{Prefix: "p."})
			guardtests.Listed(t, connect(t, s, client.Modern), mcp.MethodToolsList, "tools", "name") // waits for the server
			found := 0
			for _, catalog := range []*server.Catalog{p.Catalog(), s.Catalog()} {
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
				if e, err := catalog.Resolve(t.Context(), mcp.KindTool, map[bool]string{true: "p.a", false: "a"}[catalog == s.Catalog()]); err != nil {
					t.Error(err)
				} else if e != nil {
					entry(e)
				}
			}
			want := map[bool]int{false: 8, true: 2}[name == "quarantined"] // the tool is resolved, to refuse its calls
			if found != want {
				t.Errorf("there are %d entries, want %d at two servers", found, want)
			}
		})
	}
}

// TestTrust: annotations and tags of an untrusted server allow nothing.
func TestTrust(t *testing.T) {
	origins := []mcp.Origin{{}, {Server: "s", Name: "t", Trusted: true}, {Server: "s", Name: "t"}, {Name: "t"}}
	const (
		reader = `{"name":"t","annotations":{"readOnlyHint":true},"_meta":{"fastmcp":{"tags":["safe"]},"_fastmcp":{"tags":["web","safe"]},"io.github.dovetail-go/tags":["own"]}}`
		writer = `{"name":"t","annotations":{"destructiveHint":false,"openWorldHint":false}}`
		silent = `{"name":"t"}`
	)
	const other = `,{"effect":"allow"}`
	for _, c := range []struct {
		rules                                       string
		trustedReader, trustedWriter, trustedSilent policy.Effect
		evilReader, evilWriter, evilSilent          policy.Effect
	}{
		{`{"effect":"allow","annotations":{"readOnlyHint":true}}`, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"ask","annotations":{"destructiveHint":true}}` + other, policy.Allow, policy.Allow, policy.Ask, policy.Ask, policy.Ask, policy.Ask},
		{`{"effect":"deny","annotations":{"openWorldHint":true}}` + other, policy.Deny, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"deny","unless":[{"annotations":{"readOnlyHint":true}}]}` + other, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"allow","tags":["saf?"]}`, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"allow","tags":["own"]}`, policy.Allow, policy.Deny, policy.Deny, policy.Deny, policy.Deny, policy.Deny},
		{`{"effect":"deny","tags":["web"]}` + other, policy.Deny, policy.Allow, policy.Allow, policy.Deny, policy.Deny, policy.Deny},
	} {
		p, err := policy.Parse([]byte(`{"rules":[` + c.rules + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		compiled := compile(t, p)
		for i, want := range [][]policy.Effect{{c.trustedReader, c.trustedWriter, c.trustedSilent}, {c.evilReader, c.evilWriter, c.evilSilent}} {
			for _, origin := range origins[2*i : 2*i+2] {
				for j, entry := range []string{reader, writer, silent} {
					target := mcp.Target{Name: "t", Origin: origin, Definition: mcp.NewDefinition([]byte(entry))}
					if got := compiled.Decide(&policy.Request{Target: target}); got.Effect != want[j] {
						t.Errorf("%s of %s, from %+v: %v, want %v", c.rules, entry, origin, got, want[j])
					}
				}
			}
		}
	}
	reads := parsed(t, `{"rules":[{"effect":"allow","annotations":{"readOnlyHint":true}},{"effect":"allow","tags":["*"]}]}`)
	for _, entry := range []string{`{`, `[]`, `{"annotations":{"readOnlyHint":"yes"}}`, `{"annotations":{"readOnlyHint":true,"destructiveHint":1}}`, `{"_meta":{"fastmcp":{"tags":[1]}}}`} {
		target := mcp.Target{Name: "t", Definition: mcp.NewDefinition([]byte(entry))}
		if got := reads.Decide(&policy.Request{Target: target}); got.Effect != policy.Deny {
			t.Errorf("%s allows: %v", entry, got)
		}
	}
}
