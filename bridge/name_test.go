package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Names are stored by hosts, so they must not change.
func TestName(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, test := range []struct{ alias, name, want string }{
		{"a", "b", "a__b"},
		{"github", "create_issue", "github__create_issue"},
		{"a", "b__c", "a__b__c"},
		{"a", "_b", "a___b"},
		{"a-b", "C-9", "a-b__C-9"},
		{"a", long[:61], "a__" + long[:61]},
		{"a", long[:62], "a__" + long[:52] + "_be54aba5"},
		{"a", long, "a__" + long[:52] + "_6be4a121"},
		{"a", "b.c", "a__b_c_ad8a94ab"},
		{"a.b", "c", "a_b__c_8b745bb4"},
		{"a", "b/c d", "a__b_c_d_f7c0bb88"},
		{"a", "größe", "a__gr__e_ad6e0ede"},
	} {
		if got := bridge.Name(test.alias, test.name); got != test.want {
			t.Errorf("Name(%q, %q) = %q, want %q", test.alias, test.name, got, test.want)
		}
	}
}

func TestNamesAreInjective(t *testing.T) {
	pick := rand.New(rand.NewPCG(1, 2))
	const letters = "ab_-. é"
	word := func(most int, letters string) string {
		runes := []rune(letters)
		text := make([]rune, 1+pick.IntN(most))
		for i := range text {
			text[i] = runes[pick.IntN(len(runes))]
		}
		return string(text)
	}
	plain := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	of := make(map[string][2]string)
	for range 100_000 {
		alias, name := word(4, "ab_-."), word(80, letters)
		if pick.IntN(2) == 0 {
			name = word(4, letters)
		}
		if strings.Contains(alias, "__") || strings.HasSuffix(alias, "_") {
			continue // not a valid alias
		}
		pair, full := [2]string{alias, name}, bridge.Name(alias, name)
		if !plain.MatchString(full) {
			t.Fatalf("Name(%q, %q) = %q, which models do not take", alias, name, full)
		}
		if other, known := of[full]; known && other != pair {
			t.Fatalf("%q and %q are both %q", other, pair, full)
		}
		of[full] = pair
	}
}

// A name that imitates one of another server collides.
func TestForgedName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := toolsOnly(client.Legacy, "read.file", "other")
		forged := strings.TrimPrefix(bridge.Name("a.b", "read.file"), "a_b__")
		bad := newServer("bad")
		addTool(bad, "own")
		configs := []bridge.Config{{Alias: "a.b", Dialer: pipeTo(good)}, {Alias: "a_b", Dialer: pipeTo(bad)}}
		b := newBridge(t, nil, configs...)
		addTool(bad, forged)
		advance(time.Second)
		other, err := bridge.New(&bridge.Options{Logger: quiet()}, configs...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Start(t.Context()); err == nil || !strings.Contains(err.Error(), `"a.b"`) || !strings.Contains(err.Error(), `"a_b"`) {
			t.Errorf("a bridge starts with both: %v", err)
		}
		if got, want := names(b.Catalog(), mcp.KindTool), bridge.Name("a.b", "read.file")+" "+bridge.Name("a.b", "other")+" a_b__own"; got != want {
			t.Errorf("the tools are %q, want %q", got, want)
		}
		e := b.Catalog().Lookup(mcp.KindTool, bridge.Name("a.b", "read.file"))
		if e == nil || e.Origin.Server != "a.b" {
			t.Errorf("the name belongs to %+v", e)
		}
	})
}

// Names do not depend on other servers.
func TestNamesDoNotDependOnOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		namesOf := func(aliases ...string) (all []string) {
			var configs []bridge.Config
			for _, alias := range aliases {
				configs = append(configs, bridge.Config{Alias: alias, Dialer: pipeTo(toolsOnly(client.Legacy, "t", "b.c", "__"))})
			}
			return strings.Fields(names(newBridge(t, nil, configs...).Catalog(), mcp.KindTool))
		}
		alone, among := namesOf("x"), namesOf("a", "x", "y")
		if got := among[3:6]; fmt.Sprint(got) != fmt.Sprint(alone) {
			t.Errorf("alone they are %q, among others %q", alone, got)
		}
	})
}

// Prompts are renamed, resources keep their URIs.
func TestPromptsAndResourcesOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := newServer("second")
		server.AddResource(second, server.Resource{URI: "note://1", Name: "another"}, func(context.Context, *server.Request) (string, error) { return "of the second", nil })
		server.AddResource(second, server.Resource{URI: "note://2", Name: "two"}, func(context.Context, *server.Request) (string, error) { return "second", nil })
		b, err := bridge.New(&bridge.Options{Logger: quiet()},
			bridge.Config{Alias: "a", Dialer: pipeTo(newShop())}, bridge.Config{Alias: "b", Dialer: pipeTo(second)})
		if err != nil {
			t.Fatal(err)
		}
		session := connect(t, pipeTo(mount(t, b)), client.Options{})
		for uri, want := range map[string]string{"note://1": "first", "note://2": "second", "day://x": "on x"} {
			result, err := session.Call(t.Context(), "resources/read", jsonRaw(`{"uri":"`+uri+`"}`), nil)
			if err != nil || !strings.Contains(string(result), `"`+want+`"`) {
				t.Errorf("%s is %s, %v", uri, result, err)
			}
		}
		if _, err := session.GetPrompt(t.Context(), "a__greet", map[string]string{"Name": "x"}, nil); err != nil {
			t.Error(err)
		}
		values, err := session.CompletePrompt(t.Context(), "a__greet", "Name", "A", nil, nil)
		if err != nil || values.Values[0] != "Ann" {
			t.Errorf("the completion is %v, %v", values, err)
		}
	})
}

// Options.Name replaces names.
func TestNameOption(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "one", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "greet"}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "hello", nil
	})
	b, err := bridge.New(&bridge.Options{Name: func(alias, name string) string { return alias + "_" + name }},
		bridge.Config{Alias: "one", Dialer: pipeTo(s), Required: true})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := b.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if e := b.Catalog().Lookup(mcp.KindTool, "one_greet"); e == nil || e.Origin.Server != "one" || e.Origin.Name != "greet" {
		t.Errorf("of %q one is %+v", names(b.Catalog(), mcp.KindTool), e)
	}
	if result, err := b.CallTool(t.Context(), "one_greet", nil); err != nil || result.IsError {
		t.Error(result, err)
	}
}

// routeAlphabet has characters that make names look alike: separators, other scripts, invisible and right-to-left
// characters.
var routeAlphabet = []string{"a", "b", "_", "__", "-", ".", "/", "а", "ａ", "\u200b", "\u202e", "\u0301", "é"}

// routes are the entries of a server in a routing test, by kind.
type routes map[mcp.Kind][]string

func randomRoutes(pick *rand.Rand) routes {
	found := make(routes)
	for kind := mcp.KindTool; kind <= mcp.KindResourceTemplate; kind++ {
		for range 12 {
			name := ""
			for range 1 + pick.IntN(3) {
				name += routeAlphabet[pick.IntN(len(routeAlphabet))]
			}
			switch kind {
			case mcp.KindResource:
				name = "r:" + name
			case mcp.KindResourceTemplate:
				name = "t:" + name + "/{v}"
			}
			found[kind] = append(found[kind], name)
		}
	}
	return found
}

// newRouted returns a server that answers each call with its own name and the name in the call.
func newRouted(alias string, has routes) *fakeServer {
	list := func(kind mcp.Kind, member, name string) string {
		var entries []string
		for _, listed := range has[kind] {
			title := ""
			if name != "name" {
				title = `"name":"x",`
			}
			entries = append(entries, fmt.Sprintf(`{%s%q:%s}`, title, name, quoted(listed)))
		}
		return `{"` + member + `":[` + strings.Join(entries, ",") + `]}`
	}
	return &fakeServer{era: client.Legacy, capabilities: `{"tools":{},"prompts":{},"resources":{},"completions":{}}`,
		answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			name := req.Member("name")
			switch req.Method {
			case mcp.MethodToolsList:
				return list(mcp.KindTool, "tools", "name"), nil
			case mcp.MethodPromptsList:
				return list(mcp.KindPrompt, "prompts", "name"), nil
			case mcp.MethodResourcesList:
				return list(mcp.KindResource, "resources", "uri"), nil
			case mcp.MethodResourceTemplatesList:
				return list(mcp.KindResourceTemplate, "resourceTemplates", "uriTemplate"), nil
			case mcp.MethodResourcesRead:
				name = req.Member("uri")
			case mcp.MethodComplete:
				if name = req.Member("ref", "name"); name == nil {
					name = req.Member("ref", "uri")
				}
			case mcp.MethodToolsCall, mcp.MethodPromptsGet:
			default:
				return "", nil
			}
			return fmt.Sprintf(`{"server":%q,"name":%s}`, alias, name), nil
		}}
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// Each call reaches the server and the name of the entry that was found, for every kind of entry. An
// entry that is not offered is reported, with a text that has ASCII characters only.
func TestCallsAreRoutedByServerAndName(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			pick := rand.New(rand.NewPCG(seed, 1))
			all := make(map[string]routes)
			var configs []bridge.Config
			for _, alias := range []string{"a", "b", "a.b", "a_b"} {
				all[alias] = randomRoutes(pick)
				configs = append(configs, bridge.Config{Alias: alias, Dialer: pipeTo(newRouted(alias, all[alias]))})
			}
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, configs...)
			if err != nil {
				t.Fatal(err)
			}
			session := connect(t, pipeTo(mount(t, b)), client.Options{})
			reached := func(method, params string, origin mcp.Origin) {
				t.Helper()
				result, err := session.Call(t.Context(), method, jsonRaw(params), nil)
				var got struct{ Server, Name string }
				if err == nil {
					err = json.Unmarshal(result, &got)
				}
				if err != nil || got.Server != origin.Server || got.Name != origin.Name {
					t.Errorf("%s %+q reaches %+q of %q, want %+q of %q (%v)", method, params, got.Name, got.Server, origin.Name, origin.Server, err)
				}
			}
			offered := make(map[mcp.Kind]map[mcp.Origin]bool)
			for kind := mcp.KindTool; kind <= mcp.KindResourceTemplate; kind++ {
				offered[kind] = make(map[mcp.Origin]bool)
				for e := range b.Catalog().All(kind) {
					offered[kind][mcp.Origin{Server: e.Origin.Server, Name: e.Origin.Name}] = true
					name := quoted(e.Name)
					switch kind {
					case mcp.KindTool:
						reached(mcp.MethodToolsCall, `{"name":`+name+`,"arguments":{}}`, e.Origin)
					case mcp.KindPrompt:
						reached(mcp.MethodPromptsGet, `{"name":`+name+`}`, e.Origin)
						reached(mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":`+name+`},"argument":{"name":"x","value":""}}`, e.Origin)
					case mcp.KindResource:
						reached(mcp.MethodResourcesRead, `{"uri":`+name+`}`, e.Origin)
					case mcp.KindResourceTemplate:
						reached(mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":`+name+`},"argument":{"name":"v","value":""}}`, e.Origin)
					}
				}
			}
			for _, state := range b.States() {
				var reports strings.Builder
				for _, err := range state.NotOffered {
					fmt.Fprintln(&reports, err)
				}
				if strings.ContainsAny(reports.String(), "\u200b\u202e\u0301аａ") {
					t.Errorf("a report has characters that mislead: %+q", reports.String())
				}
				for kind, listed := range all[state.Alias] {
					for _, name := range listed {
						shown := name
						if kind == mcp.KindTool || kind == mcp.KindPrompt {
							shown = bridge.Name(state.Alias, name)
						}
						if !offered[kind][mcp.Origin{Server: state.Alias, Name: name}] && !strings.Contains(reports.String(), fmt.Sprintf("%v %+q", kind, shown)) {
							t.Errorf("the %v %+q of %q is neither offered nor reported", kind, name, state.Alias)
						}
					}
				}
			}
		})
	}
}
