package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const (
	workers  = 4                // of each era, each with a session
	maxCalls = 20               // in one session
	patience = 30 * time.Second // after which what is missing at the end is lost
)

// load is the clients of the server.
type load struct {
	url    string
	counts *ledger

	stopping    chan struct{} // closed at the end
	running     sync.WaitGroup
	subscribers []*subscriber
}

// start starts the clients of one era: workers, which call, and a subscriber.
func (l *load) start(ctx context.Context, era client.Era) error {
	s, err := l.subscribe(ctx, era)
	if err != nil {
		return err
	}
	l.subscribers = append(l.subscribers, s)
	for worker := range workers {
		l.running.Go(func() {
			for visit := 0; !l.isStopping(); visit++ {
				l.visit(ctx, era, fmt.Sprintf("%v-%d-%d", era, worker, visit))
			}
		})
	}
	return nil
}

func (l *load) isStopping() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// stop ends the workers after their calls. After a last order, every subscriber must read the number
// of orders. abandon ends calls that take too long.
func (l *load) stop(ctx context.Context, abandon func()) error {
	close(l.stopping)
	timer := time.AfterFunc(patience, abandon)
	l.running.Wait()
	timer.Stop()
	if len(l.subscribers) > 0 {
		l.call(ctx, l.subscribers[0].session, "order", "last")
	}
	want := l.counts.orders()
	for _, s := range l.subscribers {
		s.close(ctx, want)
	}
	return ctx.Err()
}

// connect opens a session. What arrives is counted before the client handles it.
func (l *load) connect(ctx context.Context, era client.Era, onChange func(context.Context, mcp.Change)) (*client.Session, error) {
	dialer := streamable.Dial(l.url, &streamable.DialOptions{Conn: jsonrpc.Options{Trace: l.trace}})
	for {
		session, err := client.Connect(ctx, dialer, &client.Options{Era: era, Elicit: l.answer, OnChange: onChange, CallTimeout: -1})
		if err == nil || ctx.Err() != nil {
			return session, err
		}
		time.Sleep(50 * time.Millisecond) // the replica was killed
	}
}

func (l *load) trace(sent bool, frame []byte) {
	var event struct {
		Method string
		Params mcp.ProgressParams
	}
	if !sent && json.Unmarshal(frame, &event) == nil && event.Method == mcp.NotificationProgress {
		l.counts.event(event.Params.Message, int(event.Params.Progress))
	}
}

// answer answers the questions of the server in place of a user.
func (l *load) answer(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	l.counts.count(&l.counts.questions)
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"sure":true}`)}, nil
}

// visit opens a session and makes some calls.
func (l *load) visit(ctx context.Context, era client.Era, name string) {
	session, err := l.connect(ctx, era, nil)
	if err != nil {
		l.counts.lose("%s cannot connect: %v", name, err)
		return
	}
	defer session.Close()
	tools := []string{"order", "ask", "stream"}
	for i := 0; i < maxCalls && !l.isStopping(); i++ {
		l.call(ctx, session, tools[i%len(tools)], name+"-"+strconv.Itoa(i))
	}
}

// call calls a tool until there is an outcome. It repeats only what was certainly not executed.
func (l *load) call(ctx context.Context, session *client.Session, tool, id string) {
	events := 0
	if tool == "stream" {
		events = stages
	}
	began := time.Now()
	for {
		text, err := client.CallAs[string](ctx, session, tool, callIn{id}, &client.CallOptions{
			Progress: func(*mcp.ProgressParams) {}, // counted in trace
		})
		failure, incomplete := errors.AsType[*jsonrpc.CallError](err)
		switch {
		case err == nil:
			l.counts.answer(id, text, events)
			return
		case ctx.Err() != nil:
			l.counts.lose("call %s has no outcome: %v", id, err)
			return
		case !incomplete || failure.Delivery == jsonrpc.MaybeExecuted:
			l.counts.fail(id, began, err)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A subscriber reads the number of orders after each change.
type subscriber struct {
	session      *client.Session
	subscription *client.Subscription
	name         string
	counts       *ledger
	changed      chan struct{}
}

func (l *load) subscribe(ctx context.Context, era client.Era) (*subscriber, error) {
	s := &subscriber{name: era.String(), counts: l.counts, changed: make(chan struct{}, 1)}
	var err error
	s.session, err = l.connect(ctx, era, func(context.Context, mcp.Change) {
		l.counts.count(&l.counts.changes)
		select {
		case s.changed <- struct{}{}:
		default: // it has yet to read
		}
	})
	if err != nil {
		return nil, err
	}
	s.subscription, err = s.session.Subscribe(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{ordersURI}})
	return s, err
}

// close waits until the subscriber has read what it must hear of, and ends it.
func (s *subscriber) close(ctx context.Context, want string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer s.session.Close()
	defer s.subscription.Close()
	for {
		select {
		case <-s.changed:
		case <-ctx.Done():
			s.counts.lose("the subscriber of the %s era does not hear that there are %s orders", s.name, want)
			return
		}
		read, err := s.session.ReadResource(ctx, ordersURI, nil)
		if err != nil {
			s.counts.lose("the subscriber of the %s era cannot read: %v", s.name, err)
			return
		}
		if text := read.Contents[0].(*mcp.TextResourceContents).Text; strings.TrimSpace(text) == want {
			return
		}
	}
}
