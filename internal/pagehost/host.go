package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
)

// maxOrder is how many bytes a line of the input may have.
const maxOrder = 4 << 20

// An order is a line of the input, with one of the members.
type order struct {
	Ask      *question `json:"ask"`
	Withdraw string    `json:"withdraw"` // the id of a request
	Token    string    `json:"token"`    // replaces the channel's
	Cut      bool      `json:"cut"`      // breaks all WebSockets, without a word
}

// A question is a request. Its arguments are a string, so that they can be any text.
type question struct {
	ID         string `json:"id"`
	Server     string `json:"server"`
	Launch     string `json:"launch"`
	Tool       string `json:"tool"`
	ToolDigest string `json:"toolDigest"`
	Caller     string `json:"caller"`
	Arguments  string `json:"arguments"`
	Seconds    int    `json:"seconds"` // until it expires
}

// An event is a line of the output.
type event struct {
	URL     string `json:"url,omitempty"`
	Token   string `json:"token,omitempty"`
	Request string `json:"request,omitempty"`
	Referer string `json:"referer,omitempty"`
	Answer  *reply `json:"answer,omitempty"`
}

// A reply is what has become of a request.
type reply struct {
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	Reason   string `json:"reason"`
	Error    string `json:"error"`
}

type host struct {
	channel *channel.Channel
	asking  sync.WaitGroup

	mu      sync.Mutex
	said    *json.Encoder
	open    map[string]context.CancelFunc // by the ids of requests
	sockets []net.Conn
}

func (h *host) say(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.said.Encode(e); err != nil {
		log.Print(err)
	}
}

// note keeps the connections that have become WebSockets.
func (h *host) note(c net.Conn, state http.ConnState) {
	if state == http.StateHijacked {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.sockets = append(h.sockets, c)
	}
}

// obey carries out orders until there are no more, and ends what they have begun.
func (h *host) obey(lines *bufio.Scanner) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer h.asking.Wait()
	defer cancel()
	lines.Buffer(nil, maxOrder)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("an order: %w", err)
		}
		switch {
		case o.Ask != nil:
			h.ask(ctx, o.Ask)
		case o.Withdraw != "":
			h.withdraw(o.Withdraw)
		case o.Token != "":
			if err := h.channel.SetToken(o.Token); err != nil {
				return err
			}
		case o.Cut:
			h.cut()
		default:
			return errors.New("an order: expected ask, withdraw, token or cut")
		}
	}
	return lines.Err()
}

// ask asks the channel as a gate does.
func (h *host) ask(ctx context.Context, q *question) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	r := &approval.Request{
		ID:        q.ID,
		Target:    approval.Target{Server: q.Server, Launch: q.Launch, Tool: q.Tool, ToolDigest: q.ToolDigest},
		Arguments: json.RawMessage(q.Arguments),
		Caller:    q.Caller,
		Created:   now,
		Deadline:  now.Add(time.Duration(q.Seconds) * time.Second),
	}
	ctx, cancel := context.WithCancel(ctx)
	h.mu.Lock()
	h.open[q.ID] = cancel
	h.mu.Unlock()
	h.asking.Go(func() {
		defer cancel()
		ctx, release := context.WithDeadlineCause(ctx, r.Deadline, approval.Expired)
		defer release()
		answer, err := h.channel.Approve(ctx, r)
		ended := reply{ID: q.ID, Approved: answer.Approved, Reason: answer.Reason}
		if err != nil {
			ended.Error = err.Error()
		}
		h.say(event{Answer: &ended})
	})
}

func (h *host) withdraw(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.open[id]; cancel != nil {
		cancel()
	}
}

func (h *host) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.sockets {
		_ = c.Close() // it may have ended
	}
	h.sockets = nil
}
