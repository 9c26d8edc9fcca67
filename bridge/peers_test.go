package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// An oddHost is a server with one tool, one prompt and one resource, which answers calls in unusual forms.
type oddHost struct {
	answer atomic.Pointer[string] // has ID for the id of the call
}

func (h *oddHost) serve(frame string) []string {
	switch eratest.Text(frame, "method") {
	case mcp.MethodToolsList:
		return []string{eratest.Reply(frame, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)}
	case mcp.MethodToolsCall:
		return []string{strings.ReplaceAll(*h.answer.Load(), "ID", eratest.At(frame, "id"))}
	}
	return []string{eratest.Fail(frame, jsonrpc.MethodNotFound, "")}
}

// eachFace runs a test with sessions that reach a host of each era directly, and through a bridge.
func eachFace(t *testing.T, run func(t *testing.T, upstream client.Era, h *oddHost, s *client.Session)) {
	for name, upstream := range eras {
		h := new(oddHost)
		host := eratest.LegacyHost(t, h.serve)
		if upstream == client.Modern {
			host = eratest.ModernHost(t, h.serve)
		}
		t.Run(name, func(t *testing.T) {
			run(t, upstream, h, connect(t, host, client.Options{Logger: quiet()}))
		})
		front := mount(t, bridge.Proxy(host, &bridge.ProxyOptions{Logger: quiet()}))
		for caller, era := range eras {
			t.Run(name+" to "+caller, func(t *testing.T) {
				run(t, upstream, h, connect(t, pipeTo(front), client.Options{Era: era, Logger: quiet()}))
			})
		}
	}
}

// envelopes are the forms of a response.
var envelopes = map[string]string{
	"plain":                   `{"jsonrpc":"2.0","id":ID,%s}`,
	"byte order mark":         "\uFEFF" + `{"jsonrpc":"2.0","id":ID,%s}`,
	"nulls":                   `{"jsonrpc":"2.0","id":ID,"method":null,"params":null,%s}`,
	"id as text":              `{"jsonrpc":"2.0","id":"ID",%s}`,
	"id with a fraction":      `{"jsonrpc":"2.0","id":ID.0,%s}`,
	"white space":             "\t {\n\"jsonrpc\" : \"2.0\",\r\n\"id\":ID ,%s } \r\n",
	"unknown members at last": `{"jsonrpc":"2.0",%s,"id":ID,"x":{"a":1,"a":2}}`,
}

// Results in unusual forms are understood, directly and through a bridge, which sends no client a null for what is absent.
func TestUnusualResults(t *testing.T) {
	const text = `{"type":"text","text":"done"}`
	results := map[string]string{ // to the structured content
		`{"content":[` + text + `]}`: ``,
		`{"content":[` + text + `],"isError":null,"_meta":null,"structuredContent":{"a":1}}`:                                                                                `{"a":1}`,
		`{"resultType":null,"content":[{"type":"text","text":"done","annotations":null,"_meta":null},null]}`:                                                                ``,
		`{"content":[` + text + `],"structuredContent":{"a":0,"a":1}}`:                                                                                                      `{"a":1}`,
		`{"content":[{"type":"image","type":"text","text":"first","text":"done"}],"isError":false}`:                                                                         ``,
		`{"content":[` + text + `,{"type":"image","data":"!","mimeType":"a/b"},{"x":1}]}`:                                                                                   ``,
		`{"content":[{"type":"text","text":"done","annotations":{"priority":null,"audience":null}},{"type":"resource","resource":{"uri":"a:b","text":null,"blob":"-_8"}}]}`: ``,
	}
	eachFace(t, func(t *testing.T, _ client.Era, h *oddHost, s *client.Session) {
		for name, envelope := range envelopes {
			for result, structured := range results {
				for _, also := range []string{``, `,"error":null`} {
					answer := fmt.Sprintf(envelope, `"result":`+result+also)
					h.answer.Store(&answer)
					got, err := s.CallTool(t.Context(), "t", nil, nil)
					if err != nil || got.Text() != "done" || got.IsError {
						t.Errorf("%s: %s: %v, %v", name, answer, got, err)
						continue
					}
					if structured != "" {
						if value, err := client.CallAs[map[string]int](t.Context(), s, "t", nil, nil); err != nil || value["a"] != 1 {
							t.Errorf("%s: %s: %v, %v", name, answer, value, err)
						}
					}
					raw, err := s.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"t"}`), nil)
					if err != nil || strings.Contains(string(raw), "null") {
						t.Errorf("%s: %s becomes %s, %v", name, answer, raw, err)
					}
				}
			}
		}
	})
}

// The states of tasks and the results in them reach no client with a null for what is absent, whoever asks for the state.
// In ttlMs and in structured content, null is a value.
func TestNullsOfTasks(t *testing.T) {
	const (
		created = `{"resultType":"task","taskId":"secret","status":"working",` + taskTimes + `,"ttlMs":null,"statusMessage":null}`
		state   = `{"taskId":"secret","status":"completed",` + taskTimes + `,"ttlMs":null,"statusMessage":null,"pollIntervalMs":null,"inputRequests":null,"error":null,"_meta":null,"result":RESULT}`
		text    = `{"type":"text","text":"done","annotations":null,"_meta":null}`
	)
	results := map[string]string{ // to the result of the call
		`{"content":[` + text + `],"isError":null,"_meta":null}`:         `{"content":[{"type":"text","text":"done"}]}`,
		`{"content":[` + text + `,null],"structuredContent":{"a":null}}`: `{"content":[{"type":"text","text":"done"}],"structuredContent":{"a":null}}`,
		`{"content":[],"structuredContent":null,"isError":null}`:         `{"content":[],"structuredContent":null}`,
		`{"content":[],"result":{"a":null},"isError":null}`:              `{"content":[],"result":{"a":null}}`,
	}
	for result, want := range results {
		synctest.Test(t, func(t *testing.T) {
			full := strings.Replace(state, "RESULT", result, 1)
			up := taskServer(func(req *jsonrpc.Request) string {
				switch req.Method {
				case mcp.MethodToolsCall:
					return created
				case mcp.MethodTasksGet:
					return full
				}
				return ""
			})
			b := bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: pipeTo(up)})
			faces := map[string]transport.Dialer{"w__t": pipeTo(mount(t, b)), "t": pipeTo(up)}
			for tool, dialer := range faces {
				user := useTasks(t, dialer, client.Modern)
				raw, err := user.call(mcp.MethodToolsCall, `{"name":"`+tool+`"}`)
				var task mcp.Task
				if err != nil || task.UnmarshalJSON(raw) != nil || strings.Contains(string(raw), `"statusMessage"`) || !strings.Contains(string(raw), `"ttlMs":null`) {
					t.Fatalf("%s: the task is %s, %v", tool, raw, err)
				}
				raw, err = user.call(mcp.MethodTasksGet, `{"taskId":"`+task.TaskID+`"}`)
				rest := strings.Replace(string(raw), want, "", 1)
				if err != nil || !strings.Contains(string(raw), `"result":`+want) || strings.Count(rest, "null") != 1 || !strings.Contains(rest, `"ttlMs":null`) {
					t.Errorf("%s: %s becomes %s, %v", tool, full, raw, err)
				}
			}
		})
	}
}

// Members that are null are absent for CallAs, too. Structured content may have the value null since 2026-07-28.
func TestNullsForCallAs(t *testing.T) {
	eachFace(t, func(t *testing.T, upstream client.Era, h *oddHost, s *client.Session) {
		for result, want := range map[string]int{
			`{"content":null,"isError":null,"structuredContent":{"a":7}}`:                              7,
			`{"content":[{"type":"text","text":"{\"a\":7}"}],"isError":null}`:                          7,
			`{"content":[{"type":"text","text":"{\"a\":7}"}],"structuredContent":null,"isError":null}`: 7,
		} {
			answer := fmt.Sprintf(envelopes["plain"], `"result":`+result)
			h.answer.Store(&answer)
			got, err := client.CallAs[*struct {
				A int `json:"a"`
			}](t.Context(), s, "t", nil, nil)
			if upstream == client.Modern && strings.Contains(result, `"structuredContent":null`) {
				if s.Version() == mcp.LatestVersion && (err != nil || got != nil) {
					t.Errorf("%s: %v, %v, want the value null", result, got, err)
				}
				continue
			}
			if err != nil || got == nil || got.A != want {
				t.Errorf("%s: %v, %v", result, got, err)
			}
		}
	})
}

// The message of an error is kept, whatever its code is.
func TestUnusualErrors(t *testing.T) {
	eachFace(t, func(t *testing.T, _ client.Era, h *oddHost, s *client.Session) {
		for failure, code := range map[string]jsonrpc.Code{
			`{"code":-32050,"message":"boom"}`: -32050, `{"code":-32050.0,"message":"boom"}`: -32050, `{"code":"-32050","message":"boom"}`: -32050,
			`{"code":"E_BOOM","message":"boom"}`: jsonrpc.InternalError, `{"code":null,"message":"boom"}`: jsonrpc.InternalError, `"boom"`: jsonrpc.InternalError,
		} {
			for name, envelope := range envelopes {
				for _, also := range []string{``, `,"result":null`} {
					answer := fmt.Sprintf(envelope, `"error":`+failure+also)
					h.answer.Store(&answer)
					_, err := s.CallTool(t.Context(), "t", nil, nil)
					got, ok := errors.AsType[*jsonrpc.Error](err)
					if !ok || got.Code != code || !strings.Contains(got.Message, "boom") {
						t.Errorf("%s: %s: %v", name, answer, err)
					}
				}
			}
		}
	})
}

// Arguments with duplicate members are refused, at any depth, before any guard reads them. The model sees why.
func TestDuplicateArguments(t *testing.T) {
	var read, ran atomic.Int32
	s := newServer("duplicates")
	server.AddTool(s, server.Tool{Name: "t"}, func(context.Context, *server.Request, map[string]any) (string, error) {
		ran.Add(1)
		return "ran", nil
	})
	guard := mcp.Guard{Name: "g", Check: func(context.Context, *mcp.Call) error {
		read.Add(1)
		return nil
	}}
	for name, era := range eras {
		guarded := server.New(mcp.Implementation{Name: "guarded", Version: "1"}, &server.Options{Logger: quiet(), Guards: []mcp.Guard{guard}})
		if err := guarded.Mount(bridge.Proxy(dialerTo(s).speaks(era), &bridge.ProxyOptions{Logger: quiet()}), nil); err != nil {
			t.Fatal(err)
		}
		if err := guarded.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer guarded.Shutdown(context.Background())
		for face, front := range map[string]*server.Server{"server": s, "bridge": guarded} {
			for _, version := range []mcp.Version{mcp.Version20241105, mcp.Version20250326, mcp.Version20250618, mcp.Version20251125, mcp.LatestVersion} {
				read.Store(0)
				ran.Store(0)
				for _, arguments := range []string{`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":2}}`, `{"a":[{"b":{"c":1,"c":2}}]}`, `{"a\u0000":1}`} {
					answer := raw(t, front, version, mcp.MethodToolsCall, `{"name":"t","arguments":`+arguments+`}`)
					if eratest.At(answer, "result", "isError") != "true" || !strings.Contains(eratest.ResultText(answer), "arguments: ") {
						t.Errorf("%s, %s, %s: %s: %s", name, face, version, arguments, answer)
					}
				}
				if n := read.Load() + ran.Load(); n != 0 {
					t.Errorf("%s, %s, %s: the guard or the tool has run %d times", name, face, version, n)
				}
				if answer := raw(t, front, version, mcp.MethodToolsCall, `{"name":"t","arguments":{"a":{"a":1},"b":[{"a":1},{"a":1}]}}`); !strings.Contains(answer, "ran") {
					t.Errorf("%s, %s, %s: %s", name, face, version, answer)
				}
			}
		}
	}
}

// The server of a bridge gets the spelling of a URI that it lists.
func TestEquivalentURIs(t *testing.T) {
	const listed = "app://Shop.example/a~b"
	eachPair(t, func(t *testing.T, caller, upstream client.Era) {
		got := make(chan string, 10)
		s := newServer("resources")
		server.AddResource(s, server.Resource{URI: listed}, func(_ context.Context, r *server.Request) (string, error) {
			got <- string(r.Call().Member("uri"))
			return "static", nil
		})
		front := mount(t, bridge.Proxy(dialerTo(s).speaks(upstream), &bridge.ProxyOptions{Logger: quiet()}))
		session := connect(t, pipeTo(front), client.Options{Era: caller})
		for _, uri := range []string{listed, "APP://shop.example/a~b", "app://shop.example/%61%7Eb"} {
			if read, err := session.ReadResource(t.Context(), uri, nil); err != nil || read.Text() != "static" {
				t.Errorf("%s: %v, %v", uri, read, err)
			} else if uri := <-got; uri != `"`+listed+`"` {
				t.Errorf("the server is asked for %s", uri)
			}
		}
	})
}

// raw returns the response to a call of a client of a version.
func raw(t *testing.T, to *server.Server, version mcp.Version, method, params string) string {
	t.Helper()
	p := eratest.Connect(t, to)
	p.Version, p.Capabilities = version, "{}"
	exchange := func(frame string) string {
		p.Send(frame)
		return <-p.Frames
	}
	if version.Modern() {
		params = p.WithMeta(params)
	} else {
		exchange(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":` + eratest.InitializeParams(version, "{}") + `}`)
		p.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return exchange(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
}
