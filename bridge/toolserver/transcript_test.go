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

// TestRunTranscripts plays what the original Python clients have on the wire, over HTTP and a
// WebSocket, from testdata/run/*.txtar. A file is a comment and sections, played in their order:
//
//	options          "approval": calls are asked about; "expiry 200ms"
//	send NAME        a request: its line, and its body; it may take until it is answered
//	answer NAME      what must be answered: the status, and the body
//	connect          an approver comes, disconnect: it goes
//	ask              what the approver must be shown, but for the id and members it does not know
//	decide N R       the approver answers the Nth question with R
//	hang up NAME     the client of a request goes
//
// In requests @child stands for server_params of a child process, @remote for those of a server
// by HTTP, and @missing for those of a program that is not there.
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

// A runPlay is one transcript as it is played.
type runPlay struct {
	*toolRig
	approver  *originalApprover
	questions []asked
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
		if p.toolRig == nil {
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
		p.toolRig = newToolRig(t, gatedNever())
		return
	}
	var opts approval.Options
	if _, expiry, ok := strings.Cut(text, "expiry "); ok {
		var err error
		if opts.Expiry, err = time.ParseDuration(strings.TrimSpace(expiry)); err != nil {
			t.Fatal(err)
		}
	}
	p.toolRig = newToolRig(t, gated(t, opts, false))
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
			if strings.Contains(text, "*") { // what is not ours to choose
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
		status, body, err := p.toolRig.send(ctx, method, path, strings.TrimSuffix(body, "\n"))
		if err != nil {
			answer <- "no answer\n"
			return
		}
		answer <- fmt.Sprintf("%d\n%s\n", status, body)
	}()
}
