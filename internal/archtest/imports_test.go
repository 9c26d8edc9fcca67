package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// importPolicy says what each package may import beside the standard library.
// A package may import only what stands above it, so the arrows point one way.
// "testing", "net/http", "os/exec" and "unsafe" need permission too.
//
// Do not change this data to make a build pass. A new edge is a decision about
// the design: say in the commit why the package needs it.
const importPolicy = `
# L0: knows nothing but the standard library.
internal/archtest:
internal/backoff:
internal/buffer:
internal/jsonscan:
internal/deadline:
internal/codec:           internal/jsonscan github.com/go-json-experiment/json
internal/leak:            testing
internal/netguard:        net/http
internal/pattern:
internal/seal:
internal/seats:
internal/soak:
internal/spawn:           os/exec
internal/sse:             internal/buffer net/http
internal/suites:          testing
internal/uritemplate:     github.com/yosida95/uritemplate/v3

# L1: JSON-RPC and JSON Schema, nothing of MCP.
jsonrpc:                  internal/buffer internal/deadline internal/jsonscan
schema:                   internal/codec internal/jsonscan internal/pattern
                          github.com/go-json-experiment/json github.com/invopop/jsonschema
                          github.com/pb33f/ordered-map/v2 github.com/santhosh-tekuri/jsonschema/v6

# L2: the protocol's words. A tool's schema is bytes here, so mcp needs no schema.
mcp:                      jsonrpc internal/jsonscan github.com/go-json-experiment/json

# L3: carries JSON-RPC. Only streamable HTTP knows the words: it repeats them in headers.
transport:                jsonrpc internal/buffer
transport/stdio:          jsonrpc transport internal/spawn os/exec golang.org/x/sys
transport/transporttest:  jsonrpc transport testing
internal/edge:            jsonrpc internal/buffer internal/jsonscan net/http
internal/mirror:          jsonrpc mcp internal/jsonscan
internal/wsopen:          jsonrpc internal/edge net/http github.com/gorilla/websocket
internal/webclient:       jsonrpc transport internal/deadline internal/buffer internal/jsonscan net/http
transport/sse:            jsonrpc transport internal/deadline internal/edge internal/jsonscan internal/seats internal/sse internal/webclient net/http
transport/ws:             jsonrpc transport internal/edge internal/jsonscan internal/seats internal/webclient internal/wsopen net/http github.com/gorilla/websocket
transport/streamable:     jsonrpc mcp transport transport/sse internal/deadline internal/backoff internal/edge internal/buffer internal/jsonscan
                          internal/mirror internal/seal internal/seats internal/sse internal/webclient net/http
transport/streamable/storetest: transport/streamable testing
transport/oauth:          jsonrpc mcp transport internal/edge internal/jsonscan internal/netguard internal/seal internal/webclient net/http os/exec
                          github.com/go-jose/go-jose/v4 golang.org/x/oauth2

# L4: the two eras of the protocol.
internal/era:             jsonrpc mcp transport internal/deadline internal/backoff internal/jsonscan internal/seal golang.org/x/sync
internal/era/eratest:     jsonrpc mcp transport internal/jsonscan testing
internal/era/forward:     jsonrpc mcp transport internal/deadline internal/era internal/jsonscan

# L5: server and client never meet.
server:                   jsonrpc schema mcp transport internal/deadline internal/codec internal/era internal/jsonscan internal/mirror internal/seal internal/uritemplate
                          github.com/go-json-experiment/json
client:                   jsonrpc schema mcp transport internal/backoff internal/buffer internal/codec internal/era internal/era/forward internal/jsonscan
                          github.com/go-json-experiment/json golang.org/x/sync

# What servers offer beside what their authors write. Only these may add dependencies.
server/mcpgen:
server/memory:            mcp server internal/jsonscan
server/memory/memorytest: server/memory testing
server/openapi:           jsonrpc mcp schema server internal/jsonscan internal/pattern internal/uritemplate net/http
                          github.com/getkin/kin-openapi github.com/oasdiff/yaml3
server/resources:         mcp server internal/jsonscan internal/netguard net/http github.com/bmatcuk/doublestar/v4
server/process:           internal/spawn os/exec golang.org/x/sys
server/workspace:         mcp server internal/pattern net/http github.com/bmatcuk/doublestar/v4

# L5: who may call what. It sees calls, and so it is of use at either end.
policy:                   jsonrpc mcp internal/jsonscan

# L6: a person decides. Only the channel to that person is HTTP.
approval:                 jsonrpc mcp policy internal/deadline internal/jsonscan internal/seal golang.org/x/sys
approval/channel:         jsonrpc approval internal/backoff internal/edge internal/jsonscan internal/wsopen net/http github.com/gorilla/websocket

approval/page:            internal/edge net/http

# L7: many servers behind one face. Only the configuration knows how servers are reached.
bridge:                   jsonrpc mcp transport server client internal/backoff internal/deadline internal/jsonscan internal/uritemplate
                          golang.org/x/sync
bridge/pin:               jsonrpc mcp server internal/jsonscan github.com/go-json-experiment/json
bridge/search:            jsonrpc mcp server internal/jsonscan
bridge/config:            jsonrpc mcp transport transport/sse transport/stdio transport/streamable transport/ws approval bridge
                          internal/jsonscan net/http
internal/frontend:        jsonrpc mcp transport server policy approval bridge internal/deadline internal/edge internal/jsonscan
                          internal/seats net/http
bridge/gateway:           jsonrpc mcp transport server policy approval bridge internal/edge internal/frontend internal/jsonscan
                          net/http
bridge/toolserver:        jsonrpc mcp transport server client approval bridge bridge/config bridge/gateway internal/deadline
                          internal/edge internal/frontend internal/jsonscan net/http github.com/go-json-experiment/json

# Runs tests over every transport.
internal/everywhere:      transport transport/sse transport/streamable transport/ws internal/leak testing net/http

# An authorization server to try clients and servers with.
internal/authserver:      net/http github.com/go-jose/go-jose/v4

# What users can write, they write with public packages.
examples/quickstart:      mcp transport server client
examples/everything:      jsonrpc schema mcp transport transport/sse transport/stdio transport/streamable transport/ws server net/http
examples/bridge:          mcp transport/stdio transport/streamable server bridge bridge/config net/http
examples/compose:         mcp transport transport/stdio transport/streamable server client net/http
examples/memory:          mcp transport transport/stdio transport/streamable server server/memory net/http
examples/oauth:           mcp transport/oauth transport/streamable server client internal/authserver net/http
examples/openapi:         mcp transport transport/stdio transport/streamable server server/openapi net/http
examples/inspect:         jsonrpc schema mcp transport transport/stdio transport/oauth transport/streamable transport/ws server client bridge bridge/config net/http os/exec golang.org/x/term

examples/gateway:         mcp transport/streamable server policy approval approval/channel approval/page bridge bridge/config bridge/gateway bridge/toolserver net/http
examples/sandbox:         jsonrpc mcp transport transport/stdio transport/streamable server server/process server/workspace
                          policy approval bridge bridge/config bridge/gateway net/http os/exec

# The programs of the guides.
docs/start/client:        transport transport/stdio transport/streamable client
docs/start/server:        mcp transport/stdio transport/streamable server

# Serves the approval page to a browser that is driven by a test.
internal/pagehost:        approval approval/channel approval/page net/http

# Runs the official suite against examples/everything.
internal/conformance:     os/exec
internal/conformance/client: mcp transport/oauth transport/streamable client net/http
# Kills servers behind examples/bridge.
internal/isolation:       jsonrpc mcp transport/streamable client os/exec
internal/conformance/proxied: mcp transport/stdio transport/streamable server client bridge net/http

.:
`

// planned are the packages that the layers have a place for. When one of them
// appears, it moves up into importPolicy.
var planned = []string{
	"internal/registry",
}

// restricted are the packages of the standard library that are not for everyone:
// a program that speaks over stdio must not link an HTTP stack, and nothing
// runs processes or leaves Go's type system by the way.
var restricted = []string{"testing", "net/http", "os/exec", "unsafe"}

func TestImportPolicy(t *testing.T) {
	policy, err := parsePolicy(importPolicy)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string][]string{}
	for _, file := range moduleSources(t) {
		if !file.isTest() {
			used[file.folder()] = append(used[file.folder()], imports(file.syntax)...)
		}
	}
	for _, violation := range policy.violations(used) {
		t.Error(violation)
	}
}

func TestPlannedPackagesDoNotExist(t *testing.T) {
	for _, folder := range planned {
		if _, err := os.Stat(filepath.Join(root, folder)); err == nil {
			t.Errorf("%s exists now: move it from planned to importPolicy", folder)
		}
	}
}

func TestImportPolicyIsEnforced(t *testing.T) {
	policy, err := parsePolicy("low:\nhigh: low example.com/lib\n  net/http\n")
	if err != nil {
		t.Fatal(err)
	}
	ok := map[string][]string{
		"low":  {"fmt", "encoding/json"},
		"high": {modulePath + "/low", "example.com/lib/sub", "net/http"},
	}
	if got := policy.violations(ok); len(got) != 0 {
		t.Errorf("a lawful tree was refused: %q", got)
	}

	for name, broken := range map[string]map[string][]string{
		"upward import":              {"low": {modulePath + "/high"}, "high": nil},
		"import without permission":  {"low": {"example.com/other"}, "high": nil},
		"a longer name is no prefix": {"low": nil, "high": {"example.com/library"}},
		"restricted package":         {"low": {"net/http/httputil"}, "high": nil},
		"package without a row":      {"low": nil, "high": nil, "new": nil},
		"row without a package":      {"low": nil},
	} {
		if got := policy.violations(broken); len(got) != 1 {
			t.Errorf("%s: got %q, want one violation", name, got)
		}
	}
	for _, bad := range []string{"a: b\nb:\n", "a:\nb:\na:\n", "a\n", "  b\n", "a: a\n"} {
		if _, err := parsePolicy(bad); err == nil {
			t.Errorf("parsePolicy(%q) succeeded", bad)
		}
	}
}

// A policy holds the permitted imports of each package.
type policy map[string][]string

// parsePolicy reads rows of the form "package: import import"; an indented line
// continues the row above it.
func parsePolicy(text string) (policy, error) {
	p := policy{}
	current := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest := line
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !strings.HasPrefix(line, " ") {
			name, imports, ok := strings.Cut(line, ":")
			if !ok {
				return nil, fmt.Errorf("row %q: expected a colon after the package", line)
			}
			if _, twice := p[name]; twice {
				return nil, fmt.Errorf("package %s has two rows", name)
			}
			p[name], current, rest = nil, name, imports
		} else if current == "" {
			return nil, fmt.Errorf("line %q continues nothing", line)
		}
		for name := range strings.FieldsSeq(rest) {
			if _, above := p[name]; !isForeign(name) && (!above || name == current) {
				return nil, fmt.Errorf("%s may import %s only if that has a row above it", current, name)
			}
			p[current] = append(p[current], name)
		}
	}
	return p, nil
}

// violations compares what packages import with what they may.
func (p policy) violations(used map[string][]string) []string {
	var list []string
	for _, pkg := range slices.Sorted(maps.Keys(used)) {
		permitted, ok := p[pkg]
		if !ok {
			list = append(list, fmt.Sprintf("package %s has no row in the import policy", pkg))
			continue
		}
		slices.Sort(used[pkg])
		for _, name := range slices.Compact(used[pkg]) {
			if inModule, ok := strings.CutPrefix(name, modulePath); ok {
				name = cmp.Or(strings.TrimPrefix(inModule, "/"), ".")
			} else if !isForeign(name) {
				continue
			}
			if !slices.ContainsFunc(permitted, func(allowed string) bool { return covers(allowed, name) }) {
				list = append(list, fmt.Sprintf("package %s may not import %s", pkg, name))
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(p)) {
		if _, ok := used[pkg]; !ok {
			list = append(list, fmt.Sprintf("the import policy has a row for %s, which does not exist", pkg))
		}
	}
	return list
}

// covers reports whether permission to import one name permits the other. That
// of a third-party module includes its packages; that of our own packages does not.
func covers(allowed, name string) bool {
	return allowed == name || isForeign(allowed) && strings.HasPrefix(name, allowed+"/")
}

// isForeign reports whether an import needs permission though it is not ours:
// a third party's package, or a restricted one.
func isForeign(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return strings.Contains(first, ".") || slices.ContainsFunc(restricted, func(r string) bool {
		return name == r || strings.HasPrefix(name, r+"/")
	})
}

func imports(file *ast.File) []string {
	var list []string
	for _, spec := range file.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			list = append(list, name)
		}
	}
	return list
}
