package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func newTool(t testing.TB, name, says string) *server.Entry {
	t.Helper()
	entry, err := server.NewTool(server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { return says, nil })
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func newPrompt(t testing.TB, name string) *server.Entry {
	t.Helper()
	entry, err := server.NewPrompt(server.Prompt{Name: name}, nothing[struct{}])
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func toolNames(t testing.TB, session *client.Session) []string {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// TestReplace: all or nothing, in the old places, and told once for each list.
func TestReplace(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		for _, name := range []string{"a", "b", "c"} {
			returns(s, name, "old "+name)
		}
		server.AddPrompt(s, server.Prompt{Name: "p"}, nothing[struct{}])
		var told []mcp.Change
		session := connectInMemory(t, s, &client.Options{Era: era, Changed: func(_ context.Context, change mcp.Change) { told = append(told, change) }})
		if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true}); err != nil {
			t.Fatal(err)
		}
		wantTold := func(want ...mcp.Change) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(told, want) {
				t.Errorf("the client is told %v, want %v", told, want)
			}
			told = nil
		}
		if err := s.Replace(newTool(t, "b", "new b"), newTool(t, "d", "new d"), newTool(t, "e", "new e"), newPrompt(t, "q")); err != nil {
			t.Fatal(err)
		}
		wantTold(mcp.Change{Kind: mcp.KindTool}, mcp.Change{Kind: mcp.KindPrompt})
		if got, want := toolNames(t, session), []string{"a", "b", "c", "d", "e"}; !slices.Equal(got, want) {
			t.Errorf("the tools are %q, want %q", got, want)
		}
		if got := texts(call(t, session, "b", `{}`)); got != "new b" {
			t.Errorf("b says %q", got)
		}
		if err := s.Replace(newTool(t, "f", ""), newTool(t, "f", "")); err == nil {
			t.Error("the same tool twice is no error")
		}
		wantTold()
		s.Remove(mcp.KindTool, "a", "c", "unknown")
		wantTold(mcp.Change{Kind: mcp.KindTool})
		if got, want := toolNames(t, session), []string{"b", "d", "e"}; !slices.Equal(got, want) {
			t.Errorf("the tools are %q, want %q", got, want)
		}
		s.Remove(mcp.KindTool, "a")
		s.Remove(mcp.KindPrompt, "unknown")
		wantTold()
		if err := s.Replace(); err != nil {
			t.Error(err)
		}
		wantTold()
	})
}

// TestRemoveAll: what is gone is gone from calls and lists.
func TestRemoveAll(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		reads(s, server.Resource{URI: "app:r"}, "")
		server.AddTemplate(s, server.Template{URITemplate: "app:t/{x}"}, nothing[map[string]string])
		session := connect(t, s, era)
		s.Remove(mcp.KindResource, "app:r")
		s.Remove(mcp.KindResourceTemplate, "app:t/{x}")
		for _, uri := range []string{"app:r", "app:t/1"} {
			if _, err := session.Read(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("reading %s gives %v", uri, err)
			}
		}
		for resource, err := range session.Resources(t.Context()) {
			t.Errorf("there is %v, %v", resource, err)
		}
		for template, err := range session.Templates(t.Context()) {
			t.Errorf("there is %v, %v", template, err)
		}
	})
}

// TestRegisterWhileServing is for the race detector.
func TestRegisterWhileServing(t *testing.T) {
	s := newServer(nil)
	returns(s, "steady", "yes")
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for j := range 50 {
				name := fmt.Sprintf("tool-%d-%d", i, j)
				if err := s.Replace(newTool(t, name, name)); err != nil {
					t.Error(err)
				}
				s.ResourceUpdated("app:x")
				s.Remove(mcp.KindTool, name)
			}
		})
	}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session := connect(t, s, era)
		work.Go(func() {
			for range 50 {
				if got := texts(call(t, session, "steady", `{}`)); got != "yes" {
					t.Errorf("the tool says %q", got)
				}
				if names := toolNames(t, session); names[0] != "steady" {
					t.Errorf("the tools are %q", names)
				}
			}
		})
	}
	work.Wait()
}
