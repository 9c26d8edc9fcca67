package toolserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
)

// TestRunTranscripts replays recordings of the original Python clients, over HTTP and a
// WebSocket, from testdata/run/*.txtar. A file is a comment and sections, which are played in
// order:
//
//	options          "approval": guards ask about calls; "expiry 200ms"
//	send NAME        sends a request: its line, and its body
//	answer NAME      the expected response: the status, and the body
//	connect          connects an approver; disconnect: disconnects it
//	ask              the expected question, without the id and members that ipybox does not know
//	decide N R       the approver answers the Nth question with R
//	hang up NAME     the client of a request disconnects
//
// In requests, @child means server_params of a child process. @remote means server_params of a server over HTTP, and
// @missing server_params of a program that does not exist.
func TestRunTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/run/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			playRun(t, string(text))
		})
	}
}

var runSection = regexp.MustCompile(`(?m)^-- (.+) --\n`)

// A runPlay is the state of a transcript.
type runPlay struct {
	*rig
	approver  *rawApprover
	questions []question
	answers   map[string]chan string
	hangUps   map[string]context.CancelFunc
}

func playRun(t *testing.T, script string) {
	p := &runPlay{answers: make(map[string]chan string), hangUps: make(map[string]context.CancelFunc)}
	marks := runSection.FindAllStringSubmatchIndex(script, -1)
	for i, mark := range marks {
		end := len(script)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		command, text := script[mark[2]:mark[3]], script[mark[1]:end]
		if p.rig == nil {
			p.begin(t, command, text)
			if command == "options" {
				continue
			}
		}
		p.play(t, command, text)
	}
}

func (p *runPlay) begin(t *testing.T, command, text string) {
	if command != "options" {
		text = ""
	}
	if !strings.Contains(text, "approval") {
		p.rig = newRig(t, noGuards())
		return
	}
	var opts approval.Options
	if _, expiry, ok := strings.Cut(text, "expiry "); ok {
		var err error
		if opts.Expiry, err = time.ParseDuration(strings.TrimSpace(expiry)); err != nil {
			t.Fatal(err)
		}
	}
	p.rig = newRig(t, gated(t, opts, false))
}

func (p *runPlay) play(t *testing.T, command, text string) {
	t.Helper()
	verb, name, _ := strings.Cut(command, " ")
	switch verb {
	case "send":
		p.sendLater(t, name, text)
	case "answer":
		select {
		case got := <-p.answers[name]:
			if strings.Contains(text, "*") { // * matches any text
				if pattern := strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, `.*`); !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
					t.Errorf("%s is answered\n%swant\n%s", name, got, text)
				}
			} else if got != text {
				t.Errorf("%s is answered\n%swant\n%s", name, got, text)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s is not answered", name)
		}
	case "connect":
		p.approver = p.approve(t)
	case "disconnect":
		p.approver.leave()
	case "ask":
		q := p.approver.next(t)
		p.questions = append(p.questions, q)
		shown, err := json.Marshal(map[string]any{"server_name": q.Params.Server, "tool_name": q.Params.Tool, "tool_args": q.Params.Arguments})
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Method + " " + string(shown) + "\n"; got != text {
			t.Errorf("the approver is asked\n%swant\n%s", got, text)
		}
	case "decide":
		var number int
		var result string
		if _, err := fmt.Sscan(name, &number, &result); err != nil {
			t.Fatal(err)
		}
		p.approver.decide(t, p.questions[number-1], result)
	case "hang":
		p.hangUps[strings.TrimPrefix(name, "up ")]()
	default:
		t.Fatalf("there is no section %q", command)
	}
}

func (p *runPlay) sendLater(t *testing.T, name, text string) {
	t.Helper()
	child, err := json.Marshal(childParams("serve"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "@remote") {
		text = strings.ReplaceAll(text, "@remote", `{"url":"`+newRemote(t)+`"}`)
	}
	text = strings.NewReplacer("@child", string(child), "@missing", `{"command":"/no/such/program","args":[]}`).Replace(text)
	line, body, _ := strings.Cut(text, "\n")
	method, path, _ := strings.Cut(line, " ")
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan string, 1)
	p.answers[name], p.hangUps[name] = answer, cancel
	go func() {
		defer cancel()
		status, body, err := p.rig.send(ctx, method, path, strings.TrimSuffix(body, "\n"))
		if err != nil {
			answer <- "no answer\n"
			return
		}
		answer <- fmt.Sprintf("%d\n%s\n", status, body)
	}()
}
