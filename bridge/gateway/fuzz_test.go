package gateway_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// FuzzCallBody: the response to any body is JSON, and arguments are passed on byte by byte.
func FuzzCallBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"arguments":{}}`, `{"arguments":null}`, `{"arguments":{ "a" : 1.0e2,"b":"\u00e9"}}`, `{"arguments":[]}`, `{"arguments":{"a":1},"arguments":{}}`,
		`{"name":"s__x","arguments":{"a":{"b":[1,2,{"c":null}]}}}`, `{"name":"s__y"}`, `{"name":1}`, `[`, "\xff", `{"name":"s__x","arguments":{"a":1,"a":2}}`, ``,
	} {
		f.Add([]byte(seed))
	}
	s := newStub(`{"type":"object"}`, "x")
	g := s.gateway(f, gateway.Options{Limits: transport.Limits{MessageBytes: 1 << 16}})
	proxy, rest := g.Proxy(), g.REST(nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		for handler, answer := range map[string]func() (int, []byte){
			"proxy": func() (int, []byte) {
				w := send(proxy, "POST", "/s/tools/x", string(body))
				return w.Code, w.Body.Bytes()
			},
			"REST": func() (int, []byte) {
				w := send(rest, "POST", "/tools/call", string(body))
				return w.Code, w.Body.Bytes()
			},
			"path": func() (int, []byte) {
				w := send(rest, "POST", "/tools/s__x", string(body))
				return w.Code, w.Body.Bytes()
			},
		} {
			s.called = nil
			status, answer := answer()
			if !json.Valid(answer) || !slices.Contains([]int{200, 400, 404, 413, 422, 502}, status) {
				t.Errorf("%s: %d %q", handler, status, answer)
			}
			if len(s.called) == 0 {
				continue
			}
			var sent, came map[string]json.RawMessage // a map compares names exactly
			if err := json.Unmarshal(s.called[0], &sent); err != nil {
				t.Fatalf("%s: what was passed on is no JSON: %s", handler, s.called[0])
			}
			if handler == "path" {
				came = map[string]json.RawMessage{"arguments": bytes.TrimSpace(body)}
			} else if err := json.Unmarshal(body, &came); err != nil {
				t.Fatalf("%s: what is no JSON was passed on as %s", handler, s.called[0])
			}
			was := came["arguments"]
			if len(was) == 0 || string(was) == "null" {
				was = json.RawMessage("{}")
			}
			if !bytes.Equal(sent["arguments"], was) {
				t.Errorf("%s: the arguments were %s and are %s", handler, was, sent["arguments"])
			}
		}
	})
}

// FuzzPath: a path calls only the tool that it names.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/s/tools/x", "/s/tools/../x", "/s/tools/%2e%2e/x", "/s%2ftools/x", "//s/tools/x", "/s/tools/x/", "/s/tools/%78", "/s/tools/%ff", "", "/servers", "s/tools/x"} {
		f.Add(seed)
	}
	s := newStub(`{"type":"object"}`, "x", "..", "../x", "x/")
	proxy := s.gateway(f, gateway.Options{}).Proxy()
	f.Fuzz(func(t *testing.T, path string) {
		s.called = nil
		w := send(proxy, "POST", path, `{}`)
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %q", w.Code, w.Body)
		}
		for _, params := range s.called {
			if string(params) == `{"name":"s__..","arguments":{}}` || string(params) == `{"name":"s__../x","arguments":{}}` && !strings.Contains(path, "%2") {
				t.Errorf("%q has called %s", path, params)
			}
		}
	})
}

// FuzzAnswer: the response to any result is JSON.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"content":[]}`, `{"content":[{"type":"text","text":"a\n\u00e9"},{"type":"image"}],"isError":true}`, `{"content":{}}`, `{"content":[1,{"text":1,"type":"text"}]}`,
		`{"structuredContent":null}`, `{"content":[],"structuredContent":[1]}`, `{"content":[{"type":"te\u0078t","text":""}]}`, `{"content":null}`,
	} {
		f.Add([]byte(seed))
	}
	s := newStub(`{"type":"object"}`, "x")
	g := s.gateway(f, gateway.Options{})
	proxy, rest := g.Proxy(), g.REST(nil)
	f.Fuzz(func(t *testing.T, result []byte) {
		if !json.Valid(result) || bytes.TrimSpace(result)[0] != '{' {
			return // providers must not return this
		}
		s.called, s.result = nil, mcp.Raw(result)
		for _, path := range []string{"/s/tools/x"} {
			if w := send(proxy, "POST", path, `{}`); !json.Valid(w.Body.Bytes()) {
				t.Errorf("the proxy says %d %q of %q", w.Code, w.Body, result)
			}
		}
		for _, path := range []string{"/tools/call", "/tools/s__x"} {
			if w := send(rest, "POST", path, `{"name":"s__x"}`); !json.Valid(w.Body.Bytes()) {
				t.Errorf("REST says %d %q of %q", w.Code, w.Body, result)
			}
		}
	})
}

// FuzzSchema: with any schemas, the document is JSON and has all tools.
func FuzzSchema(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"properties":{"a":{"$ref":"#/$defs/b"},"default":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"object"}}}`, `{"$ref":"#"}`, `{"$ref":"#/a~1b%25"}`, `{"properties":{"$ref":{"$ref":"#/x"}}}`, `{"const":{"$ref":"#/x"}}`, `{"enum":[{"$ref":1}]}`,
		`{"$id":"x"}`, `{"allOf":[{"$ref":"#"},true]}`, `{"a":1,"a":2}`, `true`, `{"dependencies":{"a":["b"],"c":{"$ref":"#/c"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		if !json.Valid(schema) || !utf8.Valid(schema) {
			return
		}
		w := send(newStub(string(schema), "x", "y").gateway(t, gateway.Options{}).REST(nil), "GET", "/openapi.json", "")
		if w.Code != 200 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}
