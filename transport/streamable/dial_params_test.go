package streamable_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// tool is a tool whose argument a has a header of this name.
func tool(name, header string) string {
	return fmt.Sprintf(`{"name":%q, "inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":%q},"n":{"type":"integer"}}}}`, name, header)
}

const plainTool = `{"name":"plain","inputSchema":{"type":"object"}}`

func list(more string, tools ...string) string {
	return `{"resultType":"complete", "tools" : [` + strings.Join(tools, ",") + `]` + more + `,"ttlMs":1.0}`
}

// paramHeaders are the headers of a request that stand for arguments.
func paramHeaders(r *asked) map[string]string {
	header := map[string]string{}
	for name, value := range headerOf(r) {
		if strings.HasPrefix(name, "Mcp-Param-") {
			header[name] = value
		}
	}
	return header
}

// A client learns from the tools that a server lists which arguments it has to
// repeat in headers, and forgets it when that changes.
func TestDialMirrorsArguments(t *testing.T) {
	tools := list("", tool("a", "Region"), plainTool)
	s := play(t, func(w http.ResponseWriter, r *asked) {
		if r.call == "tools/list" {
			r.result(w, tools)
			return
		}
		r.result(w, "{}")
	})
	conn := s.dial(new(notebook), streamable.DialOptions{})
	headers := func(params string) map[string]string {
		t.Helper()
		s.ask(conn, "tools/call", params)
		requests := s.requests()
		return paramHeaders(requests[len(requests)-1])
	}
	check := func(params string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, headers(params)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", params, diff)
		}
	}
	call := modern(`"name":"a","arguments":{"a":"eu","n":1}`)
	none := map[string]string{}
	check(call, none)
	if got := s.ask(conn, "tools/list", modern("")); got != tools {
		t.Errorf("the list is\n%s, want\n%s", got, tools)
	}
	region := map[string]string{"Mcp-Param-Region": "eu"}
	check(call, region)
	check(modern(`"name":"a","arguments":{"a":"é"}`), map[string]string{"Mcp-Param-Region": "=?base64?w6k=?="})
	check(modern(`"name":"a","arguments":{"a":null}`), none)
	check(modern(`"name":"a"`), none)
	check(modern(`"name":"plain","arguments":{"a":"eu"}`), none)
	check(`{"name":"a","arguments":{"a":"eu"}}`, none) // a session has no such headers

	tools = list("", tool("b", "Method")) // a page, of which nothing follows for a
	s.ask(conn, "tools/list", modern(""))
	check(call, region)
	check(modern(`"name":"b","arguments":{"a":"eu"}`), map[string]string{"Mcp-Param-Method": "eu"})
	tools = list("", tool("a", "Zone"))
	s.ask(conn, "tools/list", `{}`) // nor is anything learned in one
	check(call, region)
	s.ask(conn, "tools/list", modern(""))
	check(call, map[string]string{"Mcp-Param-Zone": "eu"})
	tools = list("", strings.ReplaceAll(plainTool, "plain", "a"))
	s.ask(conn, "tools/list", modern(""))
	check(call, none)
}

// Tools whose annotations break the rules are not offered, and nothing else in the
// list is changed.
func TestDialLeavesOutTools(t *testing.T) {
	bad := []string{
		tool("empty", ""), tool("space", "a b"), tool("colon", "a:b"), tool("evil", "a\r\nAuthorization"), tool("unicode", "é"),
		strings.ReplaceAll(tool("object", "A"), `"type":"string"`, `"type":"object"`),
		strings.ReplaceAll(tool("twice", "A"), `"type":"integer"`, `"type":"integer","x-mcp-header":"a"`),
		strings.ReplaceAll(tool("escaped", "a b"), "x-mcp-header", `x\u002dmcp-header`),
	}
	odd := []string{`1`, `{"inputSchema":1}`, `{"name":1}`} // not for a transport to judge
	good := []string{plainTool, tool("a", "Region"), ` {"name" : "z", "n":[1.0,1e400] }`}
	var all []string
	for i := range bad {
		all = append(all, bad[i], good[i%len(good)])
	}
	all = append(all, odd...)
	var want []string
	for _, tool := range all {
		if !strings.Contains(strings.Join(bad, "\n"), tool) || tool == "1" {
			want = append(want, strings.TrimSpace(tool))
		}
	}
	s := play(t, func(w http.ResponseWriter, r *asked) { r.result(w, list(`,"nextCursor":"2"`, all...)) })
	var log bytes.Buffer
	conn := s.dial(new(notebook), streamable.DialOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if diff := cmp.Diff(list(`,"nextCursor":"2"`, want...), s.ask(conn, "tools/list", modern(""))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{"empty", "space", "colon", "evil", "unicode", "object", "twice", "escaped"} {
		if !strings.Contains(log.String(), "tool="+name) {
			t.Errorf("nothing was logged of %s:\n%s", name, &log)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != len(bad) {
		t.Errorf("there are %d lines:\n%s", n, &log)
	}
	log.Reset()
	s.ask(conn, "tools/list", `{}`)
	if log.Len() > 0 {
		t.Errorf("a list of a session was looked at:\n%s", &log)
	}
	resp, err := conn.Call(t.Context(), "tools/list", jsonrpc.Raw(modern("")))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(resp.Member("nextCursor")); got != `"2"` {
		t.Errorf("the next cursor is %s", got)
	}
}

// Lists that are none are not touched.
func TestDialOddLists(t *testing.T) {
	for _, result := range []string{
		`{"x-mcp-header":1}`, `{"tools":"x-mcp-header"}`, `{"tools":{"x-mcp-header":1}}`, `"x-mcp-header"`, `[ "x-mcp-header" ]`, `null`, `{"tools":[ ], "x-mcp-header":0}`,
	} {
		s := play(t, func(w http.ResponseWriter, r *asked) { r.result(w, result) })
		if got := s.ask(s.dial(new(notebook), streamable.DialOptions{}), "tools/list", modern("")); got != result {
			t.Errorf("got %s, want %s", got, result)
		}
	}
}

const mismatch = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32020,"message":"a header is missing"}}`

// A server that finds a header missing is asked for its tools, page by page, and
// called once more.
func TestDialLearnsWhatIsMissing(t *testing.T) {
	s := play(t, func(w http.ResponseWriter, r *asked) {
		switch {
		case r.call == "tools/list" && strings.Contains(r.text, `"cursor":"\u0032"`):
			r.result(w, list("", tool("a", "Region")))
		case r.call == "tools/list":
			r.result(w, list(`,"nextCursor":"\u0032"`, plainTool))
		case r.Header.Get("Mcp-Param-Region") == "eu":
			r.result(w, "{}")
		default:
			r.json(w, 400, strings.ReplaceAll(mismatch, "ID", r.id))
		}
	})
	conn := s.dial(new(notebook), streamable.DialOptions{})
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`
	s.ask(conn, "tools/call", `{"name":"a","arguments":{"a":"eu"},`+meta+`}`)
	if got, want := s.log(), "POST tools/call, POST tools/list, POST tools/list, POST tools/call"; got != want {
		t.Errorf("the requests were %s, want %s", got, want)
	}
	requests := s.requests()
	ids := map[string]bool{}
	for _, r := range requests {
		ids[r.id] = true
		if listing := r.call == "tools/list"; strings.Contains(r.text, "progressToken") == listing || !strings.Contains(r.text, `"name":"c"`) {
			t.Errorf("asked with %s", r.text)
		}
	}
	if len(ids) != 4 {
		t.Errorf("the ids are %v", ids)
	}
	s.ask(conn, "tools/call", `{"name":"a","arguments":{"a":"eu"},`+meta+`}`)
	if n := len(s.requests()); n != 5 {
		t.Errorf("there were %d requests, want one more", n)
	}
}

// That is done once for a call, and not for ever.
func TestDialLearnsInVain(t *testing.T) {
	for name, test := range map[string]struct {
		list func(w http.ResponseWriter, r *asked)
		want int
	}{
		"no help":            {func(w http.ResponseWriter, r *asked) { r.result(w, list("", plainTool)) }, 3},
		"no list":            {func(w http.ResponseWriter, r *asked) { r.json(w, 400, strings.ReplaceAll(mismatch, "ID", r.id)) }, 2},
		"same page for ever": {func(w http.ResponseWriter, r *asked) { r.result(w, list(`,"nextCursor":"2"`)) }, 3},
		"pages for ever": {func(w http.ResponseWriter, r *asked) {
			r.result(w, list(fmt.Sprintf(`,"nextCursor":"%d"`, r.nth)))
		}, 65},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, func(w http.ResponseWriter, r *asked) {
				if r.call == "tools/list" {
					test.list(w, r)
					return
				}
				r.json(w, 400, strings.ReplaceAll(mismatch, "ID", r.id))
			})
			conn := s.dial(new(notebook), streamable.DialOptions{})
			_, err := conn.Call(t.Context(), "tools/call", jsonrpc.Raw(modern(`"name":"a"`)))
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32020 {
				t.Errorf("got %v, want the server's error", err)
			}
			if n := len(s.requests()); n != test.want {
				t.Errorf("there were %d requests, want %d", n, test.want)
			}
			before := len(s.requests())
			_, _ = conn.Call(t.Context(), "prompts/get", jsonrpc.Raw(modern("")))    // only tools are listed
			_, _ = conn.Call(t.Context(), "tools/call", jsonrpc.Raw(`{"_meta":{}}`)) // and sessions have no such headers
			if n := len(s.requests()) - before; n != 2 {
				t.Errorf("%d requests for two calls", n)
			}
		})
	}
}

// A server cannot fill the memory with tools that it invents.
func TestDialRemembersSoManyTools(t *testing.T) {
	page := 0
	s := play(t, func(w http.ResponseWriter, r *asked) {
		if r.call != "tools/list" {
			r.result(w, "{}")
			return
		}
		var tools []string
		for i := range 6000 {
			tools = append(tools, tool(fmt.Sprint(page, ".", i), "Region"))
		}
		page++
		r.result(w, list("", tools...))
	})
	conn := s.dial(new(notebook), streamable.DialOptions{})
	for range 2 {
		s.ask(conn, "tools/list", modern(""))
	}
	for name, want := range map[string]int{"0.0": 1, "1.3999": 1, "1.4000": 0, "1.5999": 0} {
		s.ask(conn, "tools/call", modern(`"name":"`+name+`","arguments":{"a":"eu"}`))
		requests := s.requests()
		if got := len(paramHeaders(requests[len(requests)-1])); got != want {
			t.Errorf("%s has %d headers, want %d", name, got, want)
		}
	}
}

// Calls and lists may come at the same time.
func TestDialLearnsConcurrently(t *testing.T) {
	s := play(t, func(w http.ResponseWriter, r *asked) {
		switch {
		case r.call == "tools/list":
			r.result(w, list("", tool("a", fmt.Sprintf("Region%d", r.nth%2))))
		case len(paramHeaders(r)) == 0:
			r.json(w, 400, strings.ReplaceAll(mismatch, "ID", r.id))
		default:
			r.result(w, "{}")
		}
	})
	conn := s.dial(new(notebook), streamable.DialOptions{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				s.ask(conn, "tools/call", modern(`"name":"a","arguments":{"a":"eu"}`))
				s.ask(conn, "tools/list", modern(""))
			}
		})
	}
	all.Wait()
}
