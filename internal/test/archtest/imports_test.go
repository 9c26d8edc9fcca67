package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// importPolicy lists the permitted imports of each package besides the standard library. A
// package may import only packages in earlier rows. "testing", "net/http", "os/exec" and
// "unsafe" need permission too.
//
// A new import is a decision about the design: give the reason in the commit.
const importPolicy = `
# L0: knows nothing but the standard library.
internal/test/archtest:
mcp/internal/codecgen:
internal/backoff:
internal/bufpool:
internal/jsonscan:
internal/deadline:
internal/test/globtest:
server/internal/unasked:
internal/test/leaktest:   testing
internal/test/calltest:   testing
internal/test/racetest:   testing
internal/test/waittest:   testing
internal/test/porttest:   testing
internal/test/cputest:    testing golang.org/x/sys
internal/netguard:        net/http
internal/pattern:
internal/token:
internal/test/memnet:
internal/test/faults:     testing os/exec
internal/sharedfile:      internal/backoff golang.org/x/sys
internal/test/soak:
internal/test/growth:
internal/test/walks:
internal/test/runtests:   os/exec
internal/test/secrettest:
internal/peertext:        internal/jsonscan golang.org/x/term
internal/frontmatter:     internal/jsonscan internal/peertext go.yaml.in/yaml/v3
internal/procgroup:       os/exec golang.org/x/sys
approval/internal/tty:    golang.org/x/sys
internal/sse:             internal/bufpool net/http
internal/test/testsuites: testing
internal/uritemplate:     github.com/yosida95/uritemplate/v3

# L1: JSON-RPC and JSON Schema, nothing of MCP.
jsonrpc:                  internal/bufpool internal/deadline internal/jsonscan
internal/test/sessiontest: jsonrpc internal/test/memnet testing net/http
# Go values to JSON and back, for each package that has values of users.
internal/toolschema:      internal/jsonscan
internal/jsonvalue:       github.com/go-json-experiment/json
schema:                   internal/jsonscan internal/jsonvalue internal/pattern
                          github.com/go-json-experiment/json github.com/invopop/jsonschema
                          github.com/santhosh-tekuri/jsonschema/v6 golang.org/x/sync

# L2: the protocol's words. A tool's schema is bytes here, so mcp needs no schema.
mcp:                      jsonrpc internal/jsonscan internal/jsonvalue github.com/go-json-experiment/json

# Side effects that a test has marked.
server/internal/effects:  mcp

# Files by names that come from other programs, and their media types.
server/internal/filetree: mcp

# L3: carries JSON-RPC. Only streamable HTTP knows the words: it repeats them in headers.
transport:                jsonrpc
internal/quota:           jsonrpc mcp transport internal/bufpool
transport/internal/duplex: jsonrpc transport internal/quota
transport/stdio:          jsonrpc transport transport/internal/duplex internal/peertext internal/procgroup os/exec golang.org/x/sys
transport/transporttest:  jsonrpc transport testing
internal/httpguard:       jsonrpc transport internal/bufpool internal/jsonscan net/http
internal/webpage:         internal/httpguard net/http
internal/paramheader:     jsonrpc mcp internal/jsonscan
transport/httptransport:  transport internal/jsonscan net/http
internal/wsconn:          jsonrpc transport/httptransport internal/bufpool internal/httpguard net/http github.com/gorilla/websocket
internal/httpclient:      jsonrpc transport transport/httptransport internal/deadline internal/bufpool internal/jsonscan internal/peertext net/http
transport/sse:            jsonrpc transport transport/httptransport internal/deadline internal/bufpool transport/internal/duplex internal/httpguard internal/jsonscan internal/quota internal/sse internal/httpclient net/http
transport/ws:             jsonrpc transport transport/httptransport internal/bufpool transport/internal/duplex internal/httpguard internal/jsonscan internal/quota internal/httpclient internal/wsconn net/http github.com/gorilla/websocket
transport/store:          internal/token
transport/store/storetest: transport/store testing
internal/state:           transport/store internal/backoff internal/token
transport/streamable/internal/wire: jsonrpc mcp internal/httpguard internal/sse net/http
transport/streamable/internal/session: jsonrpc mcp transport transport/store transport/streamable/internal/wire internal/state internal/httpguard internal/bufpool internal/jsonscan internal/quota internal/sse net/http golang.org/x/sync
transport/streamable:     jsonrpc mcp transport transport/store transport/httptransport transport/sse transport/streamable/internal/session transport/streamable/internal/wire transport/internal/duplex internal/deadline internal/backoff internal/httpguard internal/bufpool internal/jsonscan
                          internal/paramheader internal/quota internal/sse internal/httpclient net/http github.com/hashicorp/golang-lru/v2 golang.org/x/sys
transport/oauth/internal/syntax: internal/jsonscan internal/netguard
transport/oauth:          jsonrpc mcp transport transport/httptransport transport/store transport/oauth/internal/syntax internal/sharedfile internal/httpguard internal/jsonscan internal/netguard internal/peertext internal/procgroup internal/token
                          internal/httpclient net/http os/exec github.com/go-jose/go-jose/v4 github.com/hashicorp/golang-lru/v2
                          golang.org/x/oauth2 golang.org/x/sync
transport/oauth/proxy:    transport/store transport/oauth transport/oauth/internal/syntax internal/httpguard internal/jsonscan internal/netguard internal/state internal/token
                          net/http github.com/hashicorp/golang-lru/v2 golang.org/x/oauth2
transport/oauth/oauthtest: transport/httptransport net/http github.com/go-jose/go-jose/v4

# Webhooks of events. server and client need no HTTP for them, server/webhook and client/webhook do.
internal/webhook:
server/webhook/delivery:  internal/token
internal/webhook/signature: internal/webhook net/http github.com/standard-webhooks/standard-webhooks/libraries

# What is valid by the schema of MCP.
bridge/internal/entrycheck: mcp internal/jsonscan

# What the schemas of tools say, as types of programming languages.
bridge/internal/tooltype: internal/jsonscan

# L4: the two eras of the protocol.
internal/era:             jsonrpc mcp transport internal/deadline internal/backoff internal/bufpool internal/jsonscan internal/quota internal/token internal/uritemplate golang.org/x/sync
internal/era/eratest:     jsonrpc mcp transport internal/jsonscan testing
internal/era/forward:     jsonrpc mcp transport internal/deadline internal/era internal/jsonscan

# L5: server and client never meet.
internal/task:            jsonrpc mcp transport/store internal/backoff internal/deadline internal/jsonscan internal/quota internal/state internal/peertext internal/token
server/internal/blocking: jsonrpc mcp transport/store internal/backoff internal/era internal/jsonscan internal/quota internal/state internal/token
internal/task/tasktest:   jsonrpc mcp transport/store internal/state internal/task internal/test/waittest internal/token testing
server:                   jsonrpc schema mcp transport transport/store internal/backoff internal/deadline internal/era internal/jsonscan internal/jsonvalue internal/paramheader internal/quota internal/state internal/task internal/token server/internal/blocking server/internal/effects server/internal/unasked internal/uritemplate server/webhook/delivery
                          github.com/go-json-experiment/json
client:                   jsonrpc schema mcp transport internal/backoff internal/bufpool internal/deadline internal/era internal/era/forward internal/jsonscan internal/jsonvalue internal/uritemplate
                          internal/peertext golang.org/x/sync
client/skills:            mcp client internal/frontmatter

# The callback URL of a client.
client/webhook:           jsonrpc mcp client internal/backoff internal/jsonscan internal/webhook internal/webhook/signature net/http github.com/hashicorp/golang-lru/v2

# What servers offer beside what their authors write. Only these may add dependencies.
server/mcpgen:
server/memory:            mcp server internal/jsonscan
server/memory/memorytest: server/memory testing
server/describe:          mcp server internal/jsonscan internal/netguard net/http github.com/go-json-experiment/json
server/resources:         mcp server server/internal/filetree internal/jsonscan internal/netguard net/http github.com/bmatcuk/doublestar/v4
server/skills:            mcp server server/internal/filetree internal/frontmatter internal/jsonscan
server/process:           internal/peertext internal/procgroup os/exec
server/webhook:           server/webhook/delivery transport/store internal/backoff internal/quota internal/state internal/netguard internal/token internal/webhook internal/webhook/signature net/http golang.org/x/sync
server/workspace:         mcp server internal/sharedfile internal/pattern net/http github.com/bmatcuk/doublestar/v4 golang.org/x/text
server/shell:             mcp transport/httptransport server server/process server/workspace internal/peertext net/http

# L5: who may call what. It sees calls, and so it is of use at either end.
policy:                   jsonrpc mcp internal/jsonscan internal/uritemplate

# L6: a person decides. Only the channel to that person is HTTP.
approval:                 jsonrpc mcp transport/store policy internal/state internal/sharedfile internal/deadline internal/jsonscan internal/peertext internal/quota internal/task internal/token approval/internal/tty
approval/channel:         jsonrpc transport/store approval internal/state internal/backoff internal/httpguard internal/jsonscan internal/quota internal/wsconn net/http github.com/gorilla/websocket

approval/page:            internal/httpguard internal/webpage net/http

# L7: many servers behind one face. Only the configuration knows how servers are reached.
bridge:                   jsonrpc mcp transport server client internal/backoff internal/deadline bridge/internal/entrycheck internal/era internal/jsonscan internal/task internal/uritemplate
                          golang.org/x/sync
bridge/pin:               jsonrpc mcp server internal/sharedfile internal/jsonscan internal/peertext internal/uritemplate github.com/go-json-experiment/json
bridge/internal/transcript: jsonrpc transport internal/sharedfile
bridge/internal/twotools: mcp server internal/jsonscan
bridge/search:            jsonrpc mcp server bridge/internal/twotools internal/jsonscan github.com/kljensen/snowball
bridge/llm:               jsonrpc mcp client bridge internal/jsonscan internal/toolschema
bridge/config:            jsonrpc mcp transport transport/httptransport transport/sse transport/stdio transport/streamable transport/ws approval bridge
                          internal/jsonscan net/http
bridge/internal/frontend: jsonrpc mcp transport server policy approval bridge internal/bufpool internal/deadline internal/era internal/httpguard internal/jsonscan
                          internal/quota net/http
bridge/gateway:           jsonrpc mcp transport server policy approval bridge internal/httpguard bridge/internal/frontend internal/jsonscan
                          net/http
bridge/internal/frontend/frontendtest: mcp transport server policy bridge bridge/gateway testing
bridge/console:           jsonrpc mcp transport/httptransport server policy approval bridge bridge/internal/frontend bridge/internal/transcript bridge/pin internal/era internal/httpguard internal/jsonscan
                          internal/peertext internal/quota internal/webpage internal/wsconn net/http github.com/gorilla/websocket
bridge/control:           mcp transport/httptransport server server/process server/shell bridge bridge/config bridge/gateway net/http
bridge/toolserver:        jsonrpc mcp transport transport/httptransport server client policy approval bridge bridge/config bridge/llm bridge/gateway internal/deadline
                          internal/httpguard bridge/internal/frontend internal/jsonscan internal/jsonvalue net/http

# Tests of servers: a client and a server in one process.
server/servertest:        jsonrpc mcp transport transport/httptransport transport/sse transport/streamable transport/ws client server internal/test/leaktest internal/test/memnet internal/sse server/internal/effects server/internal/unasked testing net/http

# Runs tests over every transport.
internal/test/transporttests: transport transport/httptransport transport/sse transport/streamable transport/ws internal/test/leaktest testing net/http

# What users can write, they write with public packages.
examples/quickstart:      mcp transport server client
examples/compose:         mcp transport transport/stdio transport/streamable server client net/http
examples/memory:          mcp transport transport/stdio transport/streamable server server/memory net/http
examples/longjob:         mcp transport/streamable server client net/http os/exec golang.org/x/term
examples/oauth:           mcp transport/httptransport transport/oauth transport/streamable server client transport/oauth/oauthtest net/http

bridge/cmd/sandbox:       jsonrpc mcp transport internal/httpguard transport/stdio transport/streamable client server server/process server/shell server/workspace
                          policy approval bridge bridge/config bridge/control bridge/gateway internal/peertext net/http os/exec

# The programs of the guides.
docs/start/client:        transport transport/stdio transport/streamable client
docs/describe/server:     mcp transport/stdio transport/streamable server server/describe net/http
docs/start/both:          mcp transport/stdio transport/streamable server
docs/start/server:        mcp transport/stdio transport/streamable server
docs/production/server:   mcp transport/streamable server bridge/gateway net/http

# Serves the approval page to a browser that is driven by a test.
internal/test/approvaltests: jsonrpc mcp transport/store policy approval server client testing
internal/test/guardtests: jsonrpc mcp policy transport client server internal/test/approvaltests internal/test/transporttests testing
internal/test/httpfixture: mcp approval approval/channel approval/page net/http
internal/test/consolefixture: mcp transport transport/oauth transport/streamable server client policy approval approval/channel bridge bridge/console net/http net/http/httptest
internal/test/pagetest:   testing net/http

# The server that the official conformance suite runs against, and its runner.
internal/lab/conformance/features: jsonrpc schema mcp transport transport/store transport/sse transport/streamable transport/ws
                          server server/skills net/http
internal/lab/conformance/everything: internal/lab/conformance/features transport/stdio transport/store
internal/lab/conformance: os/exec
internal/lab/conformance/client: mcp transport/oauth transport/streamable client client/skills net/http
# Kills servers behind dovetail serve.
internal/lab/killbench:   jsonrpc mcp transport/streamable client os/exec
# Changes the source and runs the tests of the changed package.
internal/test/mutate:     internal/procgroup os/exec
internal/lab/conformance/proxied: mcp transport/stdio transport/streamable server client bridge net/http
# Is built together with other libraries.
internal/lab/compat:      mcp transport server client bridge

.:
`

// restricted lists the packages of the standard library that need permission. For example, a
// server that supports only stdio must not link an HTTP stack.
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
		t.Errorf("a permitted tree was refused: %q", got)
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

// A policy contains the permitted imports of each package.
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
			return nil, fmt.Errorf("line %q continues no row", line)
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

// violations returns the imports that are not permitted, and rows that do not match a package.
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

// covers reports whether permission to import allowed permits name. Permission for a module of a
// third party includes its packages.
func covers(allowed, name string) bool {
	return allowed == name || isForeign(allowed) && strings.HasPrefix(name, allowed+"/")
}

// isForeign reports whether an import outside this module needs permission: a package of a third
// party, or a restricted one.
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
