package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
)

// A decision answers a prompt, or leaves it.
type decision func(ctx context.Context, prompt *approval.Prompt) error

// decide connects an approver with fixed answers and returns its requests.
func (p *program) decide(t *testing.T, decided decision) <-chan *approval.Request {
	t.Helper()
	asked := make(chan *approval.Request, 16)
	approver, err := channel.Dial(t.Context(), "ws://"+p.address+"/approval", func(ctx context.Context, prompt *approval.Prompt) {
		asked <- prompt.Request
		if err := decided(ctx, prompt); err != nil {
			t.Errorf("deciding: %v", err)
		}
	}, &channel.ClientOptions{Token: p.approvals, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { approver.Close() })
	return asked
}

func accept(ctx context.Context, prompt *approval.Prompt) error { return prompt.Accept(ctx) }

func reject(ctx context.Context, prompt *approval.Prompt) error {
	return prompt.Reject(ctx, "not today")
}

// never is an answer that does not come.
func never(context.Context, *approval.Prompt) error { return nil }

// isAsked waits for a request.
func isAsked(t *testing.T, asked <-chan *approval.Request) *approval.Request {
	t.Helper()
	select {
	case r := <-asked:
		return r
	case <-time.After(20 * time.Second):
		t.Fatal("nobody is asked")
		return nil
	}
}

// isQuiet checks that there was no request.
func isQuiet(t *testing.T, asked <-chan *approval.Request) {
	t.Helper()
	select {
	case r := <-asked:
		t.Errorf("somebody is asked about %v", r)
	default:
	}
}

func TestEveryFrontendListsTheSame(t *testing.T) {
	p := start(t)
	want := []string{"shelf__look", "shelf__put", "shelf__put_and_stay"} // and no denied tool
	lists := map[string][]string{}
	for tool, err := range p.connect(t, nil).Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		lists["mcp"] = append(lists["mcp"], tool.Name)
	}
	get := func(path string, into any) {
		t.Helper()
		status, body, err := p.do(t.Context(), p.token, http.MethodGet, path, "")
		if err == nil && status == http.StatusOK {
			err = json.Unmarshal(body, into)
		}
		if err != nil || status != http.StatusOK {
			t.Fatalf("%s: status %d, error %v", path, status, err)
		}
	}
	type named struct{ Name string }
	var rest struct{ Tools []named }
	get("/api/v1/rest/tools", &rest)
	for _, tool := range rest.Tools {
		lists["rest"] = append(lists["rest"], tool.Name)
	}
	var document struct {
		Paths map[string]struct{ Post struct{ OperationID string } }
	}
	get("/api/v1/rest/openapi.json", &document)
	for _, path := range document.Paths {
		lists["openapi"] = append(lists["openapi"], path.Post.OperationID)
	}
	var proxy struct {
		Servers []struct {
			ID    string
			Tools []named
		}
	}
	get("/api/v1/mcp/proxy/servers", &proxy)
	for _, s := range proxy.Servers {
		for _, tool := range s.Tools {
			lists["proxy"] = append(lists["proxy"], s.ID+"__"+tool.Name)
		}
	}
	for _, frontend := range []string{"mcp", "rest", "openapi", "proxy"} {
		slices.Sort(lists[frontend])
		if !slices.Equal(lists[frontend], want) {
			t.Errorf("%s lists %q, want %q", frontend, lists[frontend], want)
		}
	}
}

// The policy allows, asks and denies the same calls at every endpoint. An approved call runs
// once, with the approved arguments, and is in the journal.
func TestEveryFrontendObeys(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	p := start(t, "-journal", journal)
	answer := make(chan decision, 1)
	asked := p.decide(t, func(ctx context.Context, prompt *approval.Prompt) error { return (<-answer)(ctx, prompt) })
	frontends := p.frontends(t)
	for _, frontend := range frontends {
		t.Run(frontend.name, func(t *testing.T) {
			name := strings.ReplaceAll(frontend.name, " ", "-")
			arguments := `{ "text" : "` + name + `" , "path" : ` + encoded(t, p.path(name)) + ` }`
			call := func(tool string) (string, error) { return frontend.call(t.Context(), tool, arguments) }
			if _, err := call("look"); err != nil {
				t.Errorf("what is allowed: %v", err)
			}
			if _, err := call("drop"); err == nil || !strings.Contains(err.Error(), "nothing is dropped here") {
				t.Errorf("what is denied: error %v", err)
			}
			isQuiet(t, asked)
			if got, want := p.lines(t, name), []string{name}; !slices.Equal(got, want) {
				t.Fatalf("there are the lines %q, want %q", got, want)
			}

			answer <- accept
			if _, err := call("put"); err != nil {
				t.Errorf("what is approved: %v", err)
			}
			r := isAsked(t, asked)
			if string(r.Arguments) != arguments && frontend.name != "mcp" { // the client of MCP encodes the arguments itself
				t.Errorf("asked about %s, want %s", r.Arguments, arguments)
			}
			if r.Server != "shelf" || r.Tool != "put" || r.Caller != "client" || r.ToolDigest == "" || !strings.HasPrefix(r.Launch, os.Args[0]+" (env ") {
				t.Errorf("asked about %+v", r.Target)
			}
			answer <- reject
			if _, err := call("put"); err == nil || !strings.Contains(err.Error(), "rejected") {
				t.Errorf("what is rejected: error %v", err)
			}
			isAsked(t, asked)
			if got, want := p.lines(t, name), []string{name, name}; !slices.Equal(got, want) {
				t.Errorf("there are the lines %q, want %q", got, want)
			}
		})
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	var want []string
	for range frontends {
		want = append(want, "asked", "approved", "executing", "executed", "asked", "rejected")
	}
	if got := journalEvents(t, journal); !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
}

// journalEvents returns the events of a valid journal.
func journalEvents(t *testing.T, journal string) (list []string) {
	t.Helper()
	if _, err := inspectAt(t, "journal", "verify", journal); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var entry approval.Entry
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, entry.Event)
	}
	return list
}

// TestOnlyToolsCanBeApproved: if a policy would ask about a call of another kind, the call is refused.
func TestOnlyToolsCanBeApproved(t *testing.T) {
	p := start(t)
	asked := p.decide(t, accept)
	_, err := p.connect(t, nil).ReadResource(t.Context(), "shelf://top", nil)
	if err == nil || !strings.Contains(err.Error(), "only tool calls can be approved") {
		t.Errorf("error %v", err)
	}
	isQuiet(t, asked)
}

func TestWithoutPolicy(t *testing.T) {
	for _, test := range []struct {
		flags []string
		asked []string
	}{
		{nil, []string{"look", "put", "drop"}},
		{[]string{"-trust", "other,shelf"}, []string{"put", "drop"}},
		{[]string{"-trust", "*"}, []string{"put", "drop"}},
	} {
		p := start(t, append(test.flags, "-policy", "", "-approve", "page")...)
		asked := p.decide(t, reject)
		var names []string
		rest := p.frontends(t)[1]
		for _, tool := range []string{"look", "put", "drop"} {
			_, err := rest.call(t.Context(), tool, `{"path":`+encoded(t, p.path("file"))+`,"text":"x"}`)
			select {
			case r := <-asked:
				names = append(names, r.Tool)
			default:
				if err != nil {
					t.Errorf("%q: %s is not asked about: %v", test.flags, tool, err)
				}
			}
		}
		if !slices.Equal(names, test.asked) {
			t.Errorf("%q: asked about %q, want %q", test.flags, names, test.asked)
		}
	}
}

func TestProgramSaysWhatIsWrong(t *testing.T) {
	p := &program{folder: t.TempDir()}
	broken := p.write(t, "broken.json", `{"rules": [{"effect": "perhaps"}]}`+"\n")
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{[]string{"-policy", broken}, "broken.json"},
		{[]string{"-policy", p.path("nowhere")}, "nowhere"},
		{[]string{"-config", broken}, "broken.json"},
		{[]string{"-approve", "robot"}, "expected one of page"},
		{[]string{"-token", "short"}, "16"},
		{[]string{"-token", "sixteen-characters", "-open"}, "-open"},
		{[]string{"-open", "-http", "0.0.0.0:0"}, "127.0.0.1"},
		{[]string{"-open", "-http", ":0"}, "127.0.0.1"},
		{[]string{"-approve", "channel", "-insecure-no-approval-token", "-http", "0.0.0.0:0"}, "127.0.0.1"},
		{[]string{"-approve", "page", "-insecure-no-approval-token"}, "-approve channel"},
		{[]string{"-insecure-no-approval-token"}, "-approve channel"},
		{[]string{"-insecure-launch-without-approval"}, "is for -launch"},
		{[]string{"-launch", "-insecure-launch-without-approval", "-open"}, "not for -open"},
		{[]string{"-launch", "-insecure-launch-without-approval", "-http", "0.0.0.0:0"}, "127.0.0.1"},
		{[]string{"-launch", "-insecure-launch-without-approval", "-policy", "", "-approve", "page"}, "leave out -approve"},
		{[]string{"-expiry", "0s"}, "-expiry"},
		{[]string{"-remember", "-1s"}, "-remember"},
		{[]string{"-remember", "-1s"}, "-remember"},
		{[]string{"-journal", p.folder}, "directory"},
		{[]string{"more"}, "expected: dovetail serve"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // one that is started after all
		defer cancel()
		err := run(ctx, append(p.flags(t), test.flags...), strings.NewReader(""), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want %q", test.flags, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "short") {
			t.Errorf("the error tells a token: %v", err)
		}
	}
}

// At shutdown, a call that waits for approval does not run, and its caller gets an error.
func TestEndsInOrder(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	p := start(t, "-journal", journal)
	asked := p.decide(t, never)
	answered := make(chan error)
	frontends := p.frontends(t)
	for _, frontend := range frontends {
		go func() {
			_, err := frontend.call(t.Context(), "put", `{"path":`+encoded(t, p.path("file"))+`,"text":"x"}`)
			answered <- err
		}()
		isAsked(t, asked)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	for range frontends {
		if err := <-answered; err == nil || !strings.Contains(err.Error(), "Approval channel closed") {
			t.Errorf("the caller is told %v", err)
		}
	}
	if got := p.lines(t, "file"); len(got) > 0 {
		t.Errorf("there are the lines %q", got)
	}
	got := journalEvents(t, journal)
	slices.Sort(got)
	want := slices.Concat(slices.Repeat([]string{"asked"}, len(frontends)), slices.Repeat([]string{"withdrawn"}, len(frontends)))
	if !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
}

// TestCallerGoes checks that the request of a cancelled call is withdrawn from the approver.
func TestCallerGoes(t *testing.T) {
	p := start(t)
	withdrawn := make(chan error, 1)
	asked := p.decide(t, func(ctx context.Context, _ *approval.Prompt) error {
		<-ctx.Done()
		withdrawn <- context.Cause(ctx)
		return nil
	})
	for _, frontend := range p.frontends(t) {
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan error)
		go func() {
			_, err := frontend.call(ctx, "put", `{"path":`+encoded(t, p.path("file"))+`,"text":"x"}`)
			answered <- err
		}()
		isAsked(t, asked)
		leave()
		if err := <-answered; err == nil {
			t.Errorf("%s: there is an answer", frontend.name)
		}
		if err := <-withdrawn; !errors.Is(err, approval.ErrWithdrawn) {
			t.Errorf("%s: %v", frontend.name, err)
		}
	}
	if got := p.lines(t, "file"); len(got) > 0 {
		t.Errorf("there are the lines %q", got)
	}
}
