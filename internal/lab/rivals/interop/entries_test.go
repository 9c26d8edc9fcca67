package interop

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// entryChecks are checks of server information, lists, resources, prompts and completions.
var entryChecks = []check{
	{name: "introduction", run: checkIntroduction},
	{name: "lists over several pages", run: checkLists},
	{name: "read", run: checkRead},
	{name: "read what does not exist", run: checkReadNothing},
	{name: "prompt", run: checkPrompt},
	{name: "unknown prompt", run: checkUnknownPrompt},
	{name: "completion", run: checkCompletion},
	{name: "ping", until: modern, run: checkPing},
}

func checkIntroduction(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	if got := s.client.spoken(); got != p.version {
		t.Errorf("version %s, want %s", got, p.version)
	}
	if got := s.client.serverName(); got != "server" {
		t.Errorf("server %q, want server", got)
	}
}

func checkLists(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	for kind, want := range map[string][]string{
		"tools": {
			"add", "fail", "refuse", "echo", "route", "show", "climb", "log", "wait", "nap", "order", "survey", "ask", "roots",
		},
		"resources": {textURI, pictureURI, clockURI},
		"templates": {greetings},
		"prompts":   {"greet"},
	} {
		got, err := s.client.list(ctx, kind)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", kind, diff)
		}
	}
}

func checkRead(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	for uri, want := range map[string]string{
		textURI:               "test://text text/plain hello",
		pictureURI:            "test://picture image/png 8",
		"test://greeting/Ada": "test://greeting/Ada text/plain hello Ada",
	} {
		got, err := s.client.read(ctx, uri)
		if err != nil || !cmp.Equal(got, []string{want}) {
			t.Errorf("%s: %q, %v, want %q", uri, got, err, want)
		}
	}
}

func checkReadNothing(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	_, err := s.client.read(ctx, "test://nothing")
	want := -32002
	if p.version >= modern || p.server == "go-sdk" || p.server == "go-sdk json" { // the same code in all versions
		want = -32602
	}
	if got := s.client.code(err); got != want {
		t.Errorf("code %d of %v, want %d", got, err, want)
	}
}

func checkPrompt(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	got, err := s.client.prompt(ctx, "greet", map[string]string{"name": "Ada"})
	if want := "user: Greet Ada"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func checkUnknownPrompt(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	_, err := s.client.prompt(ctx, "nothing", nil)
	if got := s.client.code(err); got != -32602 {
		t.Errorf("code %d of %v, want -32602", got, err)
	}
}

func checkCompletion(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	for _, ref := range []struct{ prompt, template string }{{prompt: "greet"}, {template: greetings}} {
		got, err := s.client.complete(ctx, ref.prompt, ref.template, "name", "A")
		if err != nil || !cmp.Equal(got, []string{"Ada", "Alan"}) {
			t.Errorf("%+v: %q, %v", ref, got, err)
		}
	}
}

func checkPing(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	if err := s.client.ping(ctx); err != nil {
		t.Error(err)
	}
}
