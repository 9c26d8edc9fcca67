package era_test

import (
	"context"
	"math"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

var allVersions = []mcp.Version{mcp.Version20241105, mcp.Version20250326, mcp.Version20250618, mcp.Version20251125, mcp.LatestVersion}

// Members of requests that are null are absent, in each version.
func TestNullsInRequests(t *testing.T) {
	for _, version := range allVersions {
		modern(t, func(t *testing.T) {
			s := newOddServer()
			p := eratest.Open(t, s, version, "{}")
			for method, params := range map[string][]string{
				mcp.MethodToolsList:     {`{"cursor":null}`, `{"_meta":null}`},
				mcp.MethodPromptsList:   {`{"cursor":null}`},
				mcp.MethodResourcesList: {`{"cursor":null}`},
				mcp.MethodToolsCall: {
					`{"name":"t","arguments":null}`, `{"name":"t","arguments":{},"task":null}`, `{"name":"t","inputResponses":null,"requestState":null}`,
					`{"name":"t","_meta":{"progressToken":null,"traceparent":null,"io.modelcontextprotocol/logLevel":null}}`,
				},
				mcp.MethodPromptsGet:    {`{"name":"p","arguments":null}`, `{"name":"p","arguments":{"a":null}}`, `{"name":"p","inputResponses":null,"requestState":null}`},
				mcp.MethodResourcesRead: {`{"uri":"app:r","inputResponses":null,"requestState":null}`},
				mcp.MethodComplete:      {`{"ref":{"type":"ref/prompt","name":"p","title":null},"argument":{"name":"a","value":""},"context":null}`, `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":{"arguments":null}}`},
			} {
				for _, params := range params {
					if version.Modern() && params == `{"_meta":null}` {
						continue // a modern request has metadata
					}
					if answer := p.Call(method, params); eratest.At(answer, "result") == "" {
						t.Errorf("%s: %s %s: %s", version, method, params, answer)
					}
				}
			}
			if !version.Modern() {
				p.Send(`{"jsonrpc":"2.0","id":"x","method":"ping","params":null,"result":null,"error":null}`)
				if answer := p.Next(); eratest.At(answer, "result") != "{}" || eratest.At(answer, "id") != `"x"` {
					t.Errorf("%s: ping: %s", version, answer)
				}
			}
		})
	}
}

func newOddServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "odd", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "t"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for _, progress := range []float64{1, math.Inf(1), math.NaN(), 2, math.Inf(-1), 3} {
			if err := r.Progress(ctx, progress, math.Inf(1), ""); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	server.AddPrompt(s, server.Prompt{Name: "p"}, func(context.Context, *server.Request, struct {
		A string `json:"a,omitzero"`
	}) (string, error) {
		return "p", nil
	})
	server.AddCompletion(s, server.Completion{Prompt: "p", Argument: "a"}, func(context.Context, *server.Request, string, map[string]string) ([]string, error) { return nil, nil })
	server.AddResource(s, server.Resource{URI: "app:r"}, func(context.Context, *server.Request) (string, error) { return "r", nil })
	return s
}

// A token that is no string and no integer asks for no progress. Progress that JSON has no number for is dropped, and
// what follows is not.
func TestOddProgress(t *testing.T) {
	for _, version := range allVersions {
		modern(t, func(t *testing.T) {
			p := eratest.Open(t, newOddServer(), version, "{}")
			for token, want := range map[string]bool{`7`: true, `"a"`: true, `7.0`: true, `null`: false, `true`: false, `{"a":1}`: false, `[1]`: false, `1.5`: false} {
				p.Start(mcp.MethodToolsCall, `{"name":"t","_meta":{"progressToken":`+token+`}}`)
				if want {
					for _, progress := range []string{"1", "2", "3"} {
						frame := p.Next()
						if eratest.At(frame, "params", "progress") != progress || eratest.At(frame, "params", "progressToken") != token || eratest.At(frame, "params", "total") != "" {
							t.Errorf("%s: %s: %s", version, token, frame)
						}
					}
				}
				if frame := p.Next(); eratest.ResultText(frame) != "done" {
					t.Errorf("%s: %s: %s", version, token, frame)
				}
			}
		})
	}
}

// A client understands progress with its token as text, and leaves out numbers that no float64 holds.
func TestOddProgressOfServers(t *testing.T) {
	serve := func(frame string) []string {
		var frames []string
		token := eratest.At(frame, "params", "_meta", "progressToken")
		for _, progress := range []string{`"progress":1`, `"progress":1e999`, `"progress":2,"total":1e999`, `"progress":3,"total":null,"message":null`} {
			frames = append(frames, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,`+progress+`}}`)
		}
		for _, form := range []string{`"` + token + `"`, token + `.0`} {
			frames = append(frames, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+form+`,"progress":4}}`)
		}
		return append(frames, eratest.Reply(frame, eratest.Finished))
	}
	modern(t, func(t *testing.T) {
		for name, h := range map[string]*eratest.Host{"modern": eratest.ModernHost(t, serve), "legacy": eratest.LegacyHost(t, serve)} {
			var got []float64
			opts := &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
				got = append(got, p.Progress)
				if p.Total != nil {
					t.Errorf("%s: the total is %v", name, *p.Total)
				}
			}}
			if _, err := session(t, h, nil).CallTool(t.Context(), "t", nil, opts); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if len(got) != 5 || got[0] != 1 || got[1] != 2 || got[2] != 3 || got[3] != 4 || got[4] != 4 {
				t.Errorf("%s: %v", name, got)
			}
		}
	})
}
