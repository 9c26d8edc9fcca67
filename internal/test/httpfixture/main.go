// Httpfixture serves the approval page and a channel, and requests approvals on command, for
// the tests of the page in a browser. .ci/browser runs it.
//
// It reads commands from standard input and writes events to standard output, one JSON
// object per line. It ends when its input ends.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/approval/page"
	"github.com/dovetail-go/dovetail/mcp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "the `address` to listen at")
	token := flag.String("token", "", "the channel's `token`; by default a random one")
	identify := flag.Bool("identify", false, "identify approvers by the User-Agent of their browser")
	flag.Parse()
	if err := run(*addr, *token, *identify); err != nil {
		log.Fatal(err)
	}
}

func run(addr, token string, identify bool) error {
	options := &channel.Options{Token: token, ReconnectTimeout: time.Minute}
	if identify {
		options.Token = ""
		options.Authenticate = func(r *http.Request) (channel.Person, bool) { return channel.Person{Name: r.UserAgent()}, true }
	}
	approvals, err := channel.New(options)
	if err != nil {
		return err
	}
	defer approvals.Close()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	f := &fixture{channel: approvals, events: json.NewEncoder(os.Stdout), open: map[string]context.CancelFunc{}}
	server := &http.Server{Handler: f.handler(), ConnState: f.recordSocket, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // returns after Close
	defer serving.Wait()
	defer server.Close()
	f.emit(event{URL: fmt.Sprintf("http://%s/approvals/", listener.Addr()), Token: approvals.Token()})
	return f.execute(bufio.NewScanner(os.Stdin))
}

func (f *fixture) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/approval", f.channel)
	mux.Handle("/approvals/", page.Handler(nil))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.emit(event{Request: r.RequestURI, Referer: r.Referer()})
		mux.ServeHTTP(w, r)
	})
}

// maxCommand is the maximum length of a command, in bytes.
const maxCommand = 4 << 20

// A command is a line of the input. It has one of the members.
type command struct {
	Ask      *approvalRequest `json:"ask"`
	Withdraw string           `json:"withdraw"` // the id of a request
	Token    string           `json:"token"`    // replaces the channel's
	Cut      bool             `json:"cut"`      // breaks all WebSockets without a close frame
}

// An approvalRequest is a request for the channel. Its arguments are a string, so that
// they can be any text.
type approvalRequest struct {
	ID         string `json:"id"`
	Server     string `json:"server"`
	Launch     string `json:"launch"`
	Tool       string `json:"tool"`
	ToolDigest string `json:"toolDigest"`
	Caller     string `json:"caller"`
	Arguments  string `json:"arguments"`
	Seconds    int    `json:"seconds"` // until the deadline

	Title       string `json:"title"`
	Description string `json:"description"`
	ReadOnly    *bool  `json:"readOnly"`
	Destructive *bool  `json:"destructive"`
	Trusted     bool   `json:"trusted"`
	Rule        string `json:"rule"`
	Reason      string `json:"reason"`
	Remember    int    `json:"remember"` // in seconds
}

// An event is a line of the output.
type event struct {
	URL     string  `json:"url,omitempty"`
	Token   string  `json:"token,omitempty"`
	Request string  `json:"request,omitempty"`
	Referer string  `json:"referer,omitempty"`
	Answer  *result `json:"answer,omitempty"`
}

// A result is the result of an approval request.
type result struct {
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	Reason   string `json:"reason"`
	Error    string `json:"error"`
	Remember int    `json:"remember,omitempty"` // in seconds
}

type fixture struct {
	channel *channel.Channel
	running sync.WaitGroup

	mu      sync.Mutex
	events  *json.Encoder
	open    map[string]context.CancelFunc // by the ids of requests
	sockets []net.Conn
}

func (f *fixture) emit(e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.events.Encode(e); err != nil {
		log.Print(err)
	}
}

// recordSocket keeps the connections that have become WebSockets.
func (f *fixture) recordSocket(c net.Conn, state http.ConnState) {
	if state == http.StateHijacked {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.sockets = append(f.sockets, c)
	}
}

// execute executes commands until the input ends, and then cancels the approval requests.
func (f *fixture) execute(lines *bufio.Scanner) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer f.running.Wait()
	defer cancel()
	lines.Buffer(nil, maxCommand)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("a command: %w", err)
		}
		switch {
		case c.Ask != nil:
			f.request(ctx, c.Ask)
		case c.Withdraw != "":
			f.withdraw(c.Withdraw)
		case c.Token != "":
			if err := f.channel.SetToken(c.Token); err != nil {
				return err
			}
		case c.Cut:
			f.breakSockets()
		default:
			return errors.New("a command: expected ask, withdraw, token or cut")
		}
	}
	return lines.Err()
}

// request requests an approval from the channel, as a guard does.
func (f *fixture) request(ctx context.Context, q *approvalRequest) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	r := &approval.Request{
		ID:        q.ID,
		Target:    approval.Target{Server: q.Server, Launch: q.Launch, Tool: q.Tool, ToolDigest: q.ToolDigest},
		Arguments: json.RawMessage(q.Arguments),
		Caller:    q.Caller,
		Created:   now,
		Deadline:  now.Add(time.Duration(q.Seconds) * time.Second),

		Title: q.Title, Description: q.Description, Annotations: mcp.ToolAnnotations{ReadOnlyHint: q.ReadOnly, DestructiveHint: q.Destructive},
		Trusted: q.Trusted, Rule: q.Rule, Reason: q.Reason, Remember: time.Duration(q.Remember) * time.Second,
	}
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	f.open[q.ID] = cancel
	f.mu.Unlock()
	f.running.Go(func() {
		defer cancel()
		ctx, release := context.WithDeadlineCause(ctx, r.Deadline, approval.Expired)
		defer release()
		answer, err := f.channel.Approve(ctx, r)
		ended := result{ID: q.ID, Approved: answer.Approved, Reason: answer.Reason, Remember: int(answer.Remember / time.Second)}
		if err != nil {
			ended.Error = err.Error()
		}
		f.emit(event{Answer: &ended})
	})
}

func (f *fixture) withdraw(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cancel := f.open[id]; cancel != nil {
		cancel()
	}
}

func (f *fixture) breakSockets() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.sockets {
		_ = c.Close() // it may be closed already
	}
	f.sockets = nil
}
