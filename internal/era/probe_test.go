package era_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestProbe checks that a client finds out the era of a server from any response to
// server/discover. MCP 2026-07-28, basic/versioning.
func TestProbe(t *testing.T) {
	const discover, initialize, ready = mcp.MethodDiscover, mcp.MethodInitialize, mcp.NotificationInitialized
	once := func(first func(string) string) func(string) []string {
		asked := false
		return func(frame string) []string {
			if !asked {
				asked = true
				return []string{first(frame)}
			}
			return []string{eratest.Reply(frame, eratest.Discovered)}
		}
	}
	refuse := func(code jsonrpc.Code, more string) func(string) []string {
		return func(frame string) []string { return []string{eratest.Fail(frame, code, more)} }
	}
	for _, test := range []struct {
		name    string
		probed  func(frame string) []string
		methods []string
		dials   int
		version mcp.Version
		takes   time.Duration
	}{
		{"modern", func(frame string) []string { return []string{eratest.Reply(frame, eratest.Discovered)} }, []string{discover}, 1, mcp.LatestVersion, 0},
		{"modern that names the version it was asked in", once(func(frame string) string {
			return eratest.Fail(frame, mcp.CodeUnsupportedVersion, `,"data":{"supported":["2026-07-28"],"requested":"2026-07-28"}`)
		}), []string{discover, discover}, 1, mcp.LatestVersion, 0},
		{"always names the version it was asked in", refuse(mcp.CodeUnsupportedVersion, `,"data":{"supported":["2026-07-28"],"requested":"2026-07-28"}`),
			[]string{discover, discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"names legacy versions only", refuse(mcp.CodeUnsupportedVersion, `,"data":{"supported":["2025-11-25"],"requested":"2026-07-28"}`),
			[]string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"speaks legacy versions only", func(frame string) []string {
			return []string{eratest.Reply(frame, strings.ReplaceAll(eratest.Discovered, "2026-07-28", "2025-11-25"))}
		}, []string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"unknown method", refuse(jsonrpc.MethodNotFound, ""), []string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"invalid params", refuse(jsonrpc.InvalidParams, ""), []string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"invalid request", refuse(jsonrpc.InvalidRequest, ""), []string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"some error", refuse(-32000, ""), []string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"code zero", refuse(0, ""), []string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"nonsense", func(frame string) []string { return []string{eratest.Reply(frame, `{"tools":[]}`)} }, []string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"no object", func(frame string) []string { return []string{eratest.Reply(frame, `"hello"`)} }, []string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, 0},
		{"banner", func(frame string) []string { return []string{"Welcome!", eratest.Reply(frame, eratest.Discovered)} }, []string{discover}, 1, mcp.LatestVersion, 0},
		{"exits", func(string) []string { return []string{eratest.Exit} }, []string{discover, initialize, ready}, 2, mcp.LatestLegacyVersion, 0},
		{"silent", func(string) []string { return nil }, []string{discover, initialize, ready}, 1, mcp.LatestLegacyVersion, era.HandshakeDelay + era.ProbeGrace},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := eratest.NewHost(t, func(frame string) []string {
					switch eratest.Text(frame, "method") {
					case discover:
						return test.probed(frame)
					case initialize:
						return []string{eratest.Reply(frame, eratest.Initialized)}
					}
					return nil
				})
				start := time.Now()
				s := session(t, h, nil)
				synctest.Wait()
				if took := time.Since(start); took != test.takes {
					t.Errorf("connecting takes %v, want %v", took, test.takes)
				}
				if got := h.Methods(); !slices.Equal(got, test.methods) {
					t.Errorf("the client sends %q, want %q", got, test.methods)
				}
				if h.Dials != test.dials {
					t.Errorf("the client connects %d times, want %d", h.Dials, test.dials)
				}
				if s.Version() != test.version || s.Server().Name != "host" {
					t.Errorf("the session has version %s with %q, want %s", s.Version(), s.Server().Name, test.version)
				}
			})
		})
	}
}

// TestLateProbe checks that a late response to server/discover has no effect.
func TestLateProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked string
		h := eratest.NewHost(t, func(frame string) []string {
			switch eratest.Text(frame, "method") {
			case mcp.MethodDiscover:
				asked = frame
			case mcp.MethodInitialize:
				return []string{eratest.Reply(frame, eratest.Initialized)}
			case mcp.MethodToolsList:
				return []string{eratest.Reply(asked, eratest.Discovered), eratest.Reply(frame, `{"tools":[]}`)}
			}
			return nil
		})
		s := session(t, h, nil)
		if s.Version() != mcp.LatestLegacyVersion {
			t.Errorf("the session has version %s", s.Version())
		}
		for _, err := range s.Tools(t.Context(), nil) {
			t.Error(err)
		}
	})
}

// TestSlowStart checks that the first good response to server/discover or initialize opens the
// session, however long the server takes to start.
func TestSlowStart(t *testing.T) {
	const discover, initialize, ready = mcp.MethodDiscover, mcp.MethodInitialize, mcp.NotificationInitialized
	good := map[string]string{discover: eratest.Discovered, initialize: eratest.Initialized}
	for _, test := range []struct {
		name    string
		answers []string // methods, in order, 20 s after the second request; "!" means an error
		version mcp.Version
		methods []string
	}{
		{"modern", []string{discover, "!" + initialize}, mcp.LatestVersion, []string{discover, initialize}},
		{"modern, other order", []string{"!" + initialize, discover}, mcp.LatestVersion, []string{discover, initialize}},
		{"legacy", []string{"!" + discover, initialize}, mcp.LatestLegacyVersion, []string{discover, initialize, ready}},
		{"legacy, other order", []string{initialize, "!" + discover}, mcp.LatestLegacyVersion, []string{discover, initialize, ready}},
		{"ignores discover", []string{initialize}, mcp.LatestLegacyVersion, []string{discover, initialize, ready}},
		{"ignores initialize", []string{discover}, mcp.LatestVersion, []string{discover, initialize}},
		{"both", []string{discover, initialize}, mcp.LatestVersion, []string{discover, initialize}},
		{"both, other order", []string{initialize, discover}, mcp.LatestVersion, []string{discover, initialize}},
		{"neither", []string{"!" + discover, "!" + initialize}, "", []string{discover, initialize}},
		{"only an error", []string{"!" + initialize}, "", []string{discover, initialize}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				frames := make(map[string]string)
				h := eratest.NewHost(t, func(frame string) (answers []string) {
					frames[eratest.Text(frame, "method")] = frame
					if eratest.Text(frame, "method") != initialize {
						return nil
					}
					<-time.After(20 * time.Second)
					for _, method := range test.answers {
						if name, fails := strings.CutPrefix(method, "!"); fails {
							answers = append(answers, eratest.Fail(frames[name], jsonrpc.InvalidRequest, ""))
						} else {
							answers = append(answers, eratest.Reply(frames[method], good[method]))
						}
					}
					return answers
				})
				s, err := client.Connect(t.Context(), h, nil)
				synctest.Wait()
				switch {
				case test.version == "" && err == nil:
					t.Error("Connect succeeded")
				case test.version != "" && err != nil:
					t.Error(err)
				case err == nil && s.Version() != test.version:
					t.Errorf("the session has version %s, want %s", s.Version(), test.version)
				}
				if err == nil {
					defer s.Close()
				}
				if got := h.Methods(); !slices.Equal(got, test.methods) || h.Dials != 1 {
					t.Errorf("the client sends %q in %d connections, want %q in one", got, h.Dials, test.methods)
				}
			})
		})
	}
}

func TestEraOption(t *testing.T) {
	for _, test := range []struct {
		name    string
		era     client.Era
		host    func(testing.TB, func(string) []string) *eratest.Host
		methods []string
		fails   bool
	}{
		{"modern to modern", client.Modern, eratest.ModernHost, []string{mcp.MethodDiscover}, false},
		{"modern to legacy", client.Modern, eratest.LegacyHost, []string{mcp.MethodDiscover}, true},
		{"legacy to legacy", client.Legacy, eratest.LegacyHost, []string{mcp.MethodInitialize, mcp.NotificationInitialized}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := test.host(t, func(string) []string { return nil })
				s, err := client.Connect(t.Context(), h, &client.Options{Era: test.era})
				if (err != nil) != test.fails {
					t.Errorf("connecting gives %v, want an error: %t", err, test.fails)
				}
				if err == nil {
					defer s.Close()
				}
				synctest.Wait()
				if got := h.Methods(); !slices.Equal(got, test.methods) {
					t.Errorf("the client sends %q, want %q", got, test.methods)
				}
			})
		})
	}
}

// TestHandshakeRefused checks that an invalid handshake is an error.
func TestHandshakeRefused(t *testing.T) {
	for name, answer := range map[string]func(frame string) []string{
		"version without handshake": func(frame string) []string {
			return []string{eratest.Reply(frame, strings.Replace(eratest.Initialized, "2025-11-25", "2026-07-28", 1))}
		},
		"unknown version": func(frame string) []string {
			return []string{eratest.Reply(frame, strings.Replace(eratest.Initialized, "2025-11-25", "1.0", 1))}
		},
		"no version": func(frame string) []string { return []string{eratest.Reply(frame, `{}`)} },
		"error":      func(frame string) []string { return []string{eratest.Fail(frame, jsonrpc.InvalidParams, "")} },
		"exit":       func(string) []string { return []string{eratest.Exit} },
		"silence":    func(string) []string { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := eratest.NewHost(t, func(frame string) []string {
					switch eratest.Text(frame, "method") {
					case mcp.MethodDiscover:
						return []string{eratest.Fail(frame, jsonrpc.MethodNotFound, "")}
					case mcp.MethodInitialize:
						return answer(frame)
					}
					return nil
				})
				start := time.Now()
				if s, err := client.Connect(t.Context(), h, nil); err == nil {
					s.Close()
					t.Error("Connect succeeded")
				}
				if took := time.Since(start); took > era.OpenTimeout {
					t.Errorf("Connect failed after %v", took)
				}
				synctest.Wait()
				if slices.Contains(h.Methods(), mcp.NotificationCancelled) {
					t.Error("the client cancels the handshake, which it must not")
				}
			})
		})
	}
}

// TestOpeningCancelled checks that Connect ends with its context.
func TestOpeningCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), era.HandshakeDelay/2)
		defer cancel()
		h := eratest.NewHost(t, func(string) []string { return nil })
		if _, err := client.Connect(ctx, h, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("connecting gives %v, want %v", err, context.DeadlineExceeded)
		}
		synctest.Wait()
		if slices.Contains(h.Methods(), mcp.MethodInitialize) {
			t.Error("the client sends more frames after Connect has failed")
		}
	})
}

// TestClientMetadata checks the metadata of a client in both eras.
func TestClientMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := &client.Options{
			Info:  mcp.Implementation{Name: "me", Version: "1", Title: "Me"},
			Roots: func(context.Context) ([]mcp.Root, error) { return nil, nil },
			Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
			},
			OnLog: func(context.Context, *mcp.LoggingMessageParams) {}, LogLevel: mcp.LevelWarning,
		}
		list := func(frame string) []string { return []string{eratest.Reply(frame, `{"tools":[]}`)} }

		h := eratest.ModernHost(t, list)
		for _, err := range session(t, h, opts).Tools(t.Context(), nil) {
			t.Error(err)
		}
		for _, frame := range h.Received() { // server/discover and the call
			eratest.Want(t, frame, `"2026-07-28"`, "params", "_meta", mcp.MetaProtocolVersion)
			eratest.Want(t, frame, `"Me"`, "params", "_meta", mcp.MetaClientInfo, "title")
			eratest.Want(t, frame, `{"roots":{},"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, "params", "_meta", mcp.MetaClientCapabilities)
			eratest.Want(t, frame, `"warning"`, "params", "_meta", mcp.MetaLogLevel)
		}

		h = eratest.LegacyHost(t, list)
		for _, err := range session(t, h, opts).Tools(t.Context(), nil) {
			t.Error(err)
		}
		frames := h.Received()
		if got, want := h.Methods(), []string{mcp.MethodDiscover, mcp.MethodInitialize, mcp.NotificationInitialized, mcp.MethodSetLevel, mcp.MethodToolsList}; !slices.Equal(got, want) {
			t.Fatalf("the client sends %q, want %q", got, want)
		}
		eratest.Want(t, frames[1], `"2025-11-25"`, "params", "protocolVersion")
		eratest.Want(t, frames[1], `"Me"`, "params", "clientInfo", "title")
		eratest.Want(t, frames[1], `{"roots":{"listChanged":true},"elicitation":{"form":{}}}`, "params", "capabilities")
		eratest.Want(t, frames[3], `"warning"`, "params", "level")
		for _, frame := range frames[1:] {
			eratest.Want(t, frame, "", "params", "_meta")
		}
	})
}
