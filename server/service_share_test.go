package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestServersShareAService: it may be registered at any number of servers, each of
// which has dependencies and guards of its own.
func TestServersShareAService(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		shared := counter{}
		entries, err := server.Service(shared)
		if err != nil {
			t.Fatal(err)
		}
		serve := func(count int, guards ...mcp.Guard) *client.Session {
			s := newServer(&server.Options{
				Logger: quiet(), Guards: guards,
				Dependencies: []server.Dependency{depend[stock](shelf7{}), depend(tariff{count}), shelf()},
			})
			if err := s.Replace(entries...); err != nil {
				t.Fatal(err)
			}
			return connect(t, s, era)
		}
		first, second := serve(1), serve(2)
		shut := serve(3, mcp.Guard{Name: "shut", Check: func(context.Context, *mcp.Call) error { return errors.New("no") }})
		for session, want := range map[*client.Session]string{first: "7 at 1, shelf true", second: "7 at 2, shelf true"} {
			if got := texts(call(t, session, "tool", `{}`)); got != want {
				t.Errorf("the method says %q, want %q", got, want)
			}
		}
		if _, err := shut.CallTool(t.Context(), "tool", nil, nil); !client.IsForbidden(err) {
			t.Errorf("the guarded method gives %v", err)
		}
	})
}

// TestCallersCannotInject: what a method is given beside its arguments is not the
// caller's to say, whatever it is called.
func TestCallersCannotInject(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newShop(), era)
		for _, argument := range []string{`"db":{"items":["secret bread"]}`, `"shelfDB":{}`, `"r":{}`, `"ctx":{}`, `"_":{}`, `"":1`} {
			result := call(t, session, "search", `{"query":"bread",`+argument+`}`)
			if !result.IsError || !strings.Contains(texts(result), "unknown member") {
				t.Errorf("with %s the tool says %s", argument, texts(result))
			}
		}
		for tool, err := range session.Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"shelf", "db", "items", "context", "Request", "_"} {
				if strings.Contains(string(tool.InputSchema), `"`+word) {
					t.Errorf("the schema of %s is %s", tool.Name, tool.InputSchema)
				}
			}
		}
	})
}
