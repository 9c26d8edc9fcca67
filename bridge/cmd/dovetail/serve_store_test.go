package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// newStore starts a store and returns its address.
func newStore(t *testing.T) string {
	t.Helper()
	s, err := nats.Embedded(t.TempDir(), &nats.Options{Listen: "127.0.0.1:0", Token: "secret-of-the-store"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return strings.Replace(s.URL(), "nats://", "nats://secret-of-the-store@", 1)
}

// printedTokens returns the tokens of clients, approvers, viewers and operators that a program has printed.
func (p *program) printedTokens(t *testing.T) []string {
	t.Helper()
	viewer := p.said.await(t, `^console .*contents .*#token=(\w+)`)
	return []string{p.token, p.approvals, viewer[1], p.admin}
}

// TestReplicasShareAStore: replicas accept the same tokens, and an approval that one replica waits for is given at another one.
func TestReplicasShareAStore(t *testing.T) {
	address := newStore(t)
	first, second := start(t, "-store", address), start(t, "-store", address)
	if one, two := first.printedTokens(t), second.printedTokens(t); fmt.Sprint(one) != fmt.Sprint(two) {
		t.Errorf("the tokens are %s and %s", one, two)
	}
	second.decide(t, accept)
	for _, face := range first.frontends(t) {
		file := first.path(fmt.Sprintf("%x", face.name))
		if answer, err := face.call(t.Context(), "put", encoded(t, line{Path: file, Text: "x"})); err != nil {
			t.Errorf("%s: %s %v", face.name, answer, err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: %v", face.name, err)
		}
	}
	if strings.Contains(first.said.String()+second.said.String(), "secret-of-the-store") {
		t.Error("the output has the password of the store")
	}
}

// TestWaitingCallContinuesAtAnotherReplica: in each form, a call that waits for a person as a task is made once, at another replica, with
// the roles of its caller, after its replica has ended.
func TestWaitingCallContinuesAtAnotherReplica(t *testing.T) {
	for _, form := range []string{toolsForm, searchForm} {
		t.Run(form, func(t *testing.T) { waitingCallContinues(t, form) })
	}
}

func waitingCallContinues(t *testing.T, form string) {
	login := newIssuer(t)
	address := newStore(t)
	flags := func(p *program) []string {
		return append(p.flags(t), "-search", "-scripts", "-store", address, "-issuer", login.URL, "-audience", "shop",
			"-role-policy", "ops="+p.write(t, "ops.json", `{"rules": [{"effect": "ask", "names": ["put"]}]}`))
	}
	replica := func() *program {
		p := &program{folder: t.TempDir(), said: &output{}}
		p.run(t, strings.NewReader(""), flags(p))
		p.token = login.token(t, map[string]any{"roles": []string{"ops"}})
		return p
	}
	first, second := replica(), replica()
	file := first.path("file")
	ctx, leave := context.WithCancel(t.Context())
	tasks := make(chan string, 1)
	failed := make(chan error, 1)
	session := first.connectAt(t, "/mcp/"+form, nil)
	called, with := formCalls[form]("put", encoded(t, line{Path: file, Text: "x"}))
	go func() {
		_, err := session.CallTool(ctx, called, json.RawMessage(with), &client.CallOptions{OnTask: func(task *mcp.Task) { tasks <- task.TaskID }})
		failed <- err
	}()
	var id string
	select {
	case id = <-tasks:
	case err := <-failed:
		t.Fatalf("the call is no task: %v", err)
	}
	leave()
	<-failed
	asked := second.decide(t, never)
	isAsked(t, asked)
	if err := first.end(); err != nil {
		t.Error(err)
	}
	second.decide(t, accept)
	for _, other := range []string{toolsForm, searchForm, scriptsForm} {
		if _, err := second.connectAt(t, "/mcp/"+other, nil).Task(id).Get(t.Context()); (err == nil) != (other == form) {
			t.Errorf("the task of %s is found in %s: %v", form, other, err)
		}
	}
	result, err := second.connectAt(t, "/mcp/"+form, nil).Task(id).Wait(t.Context(), nil)
	if err != nil || result.IsError {
		t.Errorf("the result is %+v %v", result, err)
	}
	if done, err := os.ReadFile(file); err != nil || string(done) != "x\n" {
		t.Errorf("the tool has written %q %v", done, err)
	}
}

// TestFolderAsStore: what a process keeps in a folder is there after its restart.
func TestFolderAsStore(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	first := start(t, "-store", folder)
	before := first.printedTokens(t)
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("THE_STORE", folder)
	if after := start(t, "-store-env", "THE_STORE").printedTokens(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the tokens are %s, and before %s", after, before)
	}
}

// TestStoreThatCannotBeUsed: the error says what was expected, without the password.
func TestStoreThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{folder: t.TempDir()}
	for _, test := range []struct{ flags, want string }{
		{"-store mysql://root:pass-word@db", "expected a URL that begins with nats, redis or postgres, or a folder"},
		{"-store " + file, "-store: "},
		{"-store-env NOTHING_IS_HERE", "has no value"},
		{"-store a -store-env PATH", "expected one of them"},
		{"-store postgres://root:pass-word@127.0.0.1:1/db?connect_timeout=1", "-store: "},
	} {
		var said bytes.Buffer
		err := run(t.Context(), append(p.flags(t), strings.Fields(test.flags)...), strings.NewReader(""), new(bytes.Buffer), &said)
		if err == nil || !strings.Contains(err.Error(), test.want) || regexp.MustCompile("pass-word").MatchString(err.Error()+said.String()) {
			t.Errorf("%s: the error is %v, want %s; printed is %s", test.flags, err, test.want, &said)
		}
	}
}

// TestServeDrains: after a signal, balancers see that the program ends, and requests are still served for the time of -drain.
func TestServeDrains(t *testing.T) {
	p := start(t, "-drain", "5s")
	isReady := func(want int) func() bool {
		return func() bool {
			status, _, err := p.do(t.Context(), "", http.MethodGet, "/readyz", "")
			return err == nil && status == want
		}
	}
	waittest.Until(t, "200 at /readyz", isReady(http.StatusOK))
	ended := make(chan error, 1)
	go func() { ended <- p.end() }()
	waittest.Until(t, "503 at /readyz", isReady(http.StatusServiceUnavailable))
	for _, face := range p.frontends(t) {
		if answer, err := face.call(t.Context(), "look", encoded(t, line{Path: p.path("file"), Text: "x"})); err != nil {
			t.Errorf("%s: %s %v", face.name, answer, err)
		}
	}
	if err := waittest.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
	if _, _, err := p.do(t.Context(), "", http.MethodGet, "/livez", ""); err == nil {
		t.Error("after its end, the program answers")
	}
}
