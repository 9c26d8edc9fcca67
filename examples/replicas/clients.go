package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	workers  = 3           // of each era, each with a session
	maxCalls = 20          // in one session
	patience = time.Minute // after which what is missing at the end is lost
	retry    = 50 * time.Millisecond
)

// load is the clients of the server.
type load struct {
	url    string
	counts *ledger

	stopping    chan struct{}  // closed at the end
	running     sync.WaitGroup // the clients that call
	subscribers []*subscriber
	approver    io.Closer
	events      *events
}

func newLoad(url string, counts *ledger) *load {
	return &load{url: url, counts: counts, stopping: make(chan struct{})}
}

// start starts the clients: for each era a subscriber, workers that call, and workers that need approvals, and then the
// clients of tasks and events.
func (l *load) start(ctx context.Context, approverToken string) (err error) {
	if l.approver, err = l.dialApprover(ctx, approverToken); err != nil {
		return err
	}
	if l.events, err = l.startEvents(ctx); err != nil {
		return err
	}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		s, err := l.subscribe(ctx, era)
		if err != nil {
			return err
		}
		l.subscribers = append(l.subscribers, s)
		l.repeat(workers, fmt.Sprint(era), func(name string) { l.visit(ctx, era, name) })
		l.repeat(workers, fmt.Sprint("transfer-", era), func(name string) { l.transfer(ctx, era, name) })
	}
	l.repeat(taskWorkers, "job", func(name string) { l.runTask(ctx, name) })
	return nil
}

// repeat starts workers, which do something again and again until the end, each time with another name.
func (l *load) repeat(workers int, name string, do func(name string)) {
	for worker := range workers {
		l.running.Go(func() {
			for n := 0; !l.isStopping(); n++ {
				do(fmt.Sprintf("%s-%d-%d", name, worker, n))
			}
		})
	}
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
// of orders, and all events must be delivered. abandon ends calls that take too long.
func (l *load) stop(ctx context.Context, abandon func()) error {
	close(l.stopping)
	timer := time.AfterFunc(patience, abandon)
	l.running.Wait()
	timer.Stop()
	for _, s := range l.subscribers {
		s.forget()
	}
	if len(l.subscribers) > 0 {
		l.call(ctx, l.subscribers[0].session, "order", call{id: "last", client: l.subscribers[0].name})
	}
	want := l.counts.orders()
	for _, s := range l.subscribers {
		s.close(ctx, want)
	}
	if l.events != nil {
		l.events.close(ctx)
	}
	if l.approver != nil {
		l.approver.Close()
	}
	return ctx.Err()
}

// user is the caller, unless a client says otherwise.
const user = "ann"

// connect opens a session of a client. Progress is counted before the client handles it.
func (l *load) connect(ctx context.Context, era client.Era, name, user string, onChange func(context.Context, mcp.Change)) (*client.Session, error) {
	dialer := streamable.Dial(l.url+"/mcp", &streamable.DialOptions{
		Conn:   jsonrpc.Options{Trace: l.trace},
		Logger: quiet,
		Header: func(_ context.Context, header http.Header) error {
			header.Set(clientHeader, name)
			header.Set(userHeader, user)
			return nil
		},
	})
	for {
		session, err := client.Connect(ctx, dialer, &client.Options{
			Era: era, Elicit: l.answer, OnChange: onChange, CallTimeout: -1, Logger: quiet,
		})
		if err == nil || ctx.Err() != nil {
			return session, err
		}
		time.Sleep(retry) // the replica was killed
	}
}

func (l *load) trace(_ string, sent bool, frame []byte) {
	var event struct {
		Method string
		Params mcp.ProgressParams
	}
	if !sent && json.Unmarshal(frame, &event) == nil && event.Method == mcp.NotificationProgress {
		l.counts.advance(event.Params.Message, int(event.Params.Progress))
	}
}

// answer answers the questions of the server in place of a user.
func (l *load) answer(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	l.counts.count(&l.counts.questions)
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"sure":true}`)}, nil
}

// visit opens a session and makes some calls.
func (l *load) visit(ctx context.Context, era client.Era, name string) {
	session, err := l.connect(ctx, era, name, user, nil)
	if err != nil {
		l.counts.lose("%s cannot connect: %v", name, err)
		return
	}
	defer session.Close()
	tools := []string{"order", "ask", "stream"}
	for i := 0; i < maxCalls && !l.isStopping(); i++ {
		l.call(ctx, session, tools[i%len(tools)], call{id: name + "-" + strconv.Itoa(i), client: name})
	}
}

// call calls a tool until there is an outcome. It repeats only what was certainly not executed.
func (l *load) call(ctx context.Context, session *client.Session, tool string, c call) {
	progress := 0
	if tool == "stream" {
		progress = stages
	}
	for {
		l.counts.begin(c)
		text, err := client.CallAs[string](ctx, session, tool, callIn{c.id}, &client.CallOptions{
			Progress: func(*mcp.ProgressParams) {}, // counted in trace
		})
		failure, incomplete := errors.AsType[*jsonrpc.CallError](err)
		switch {
		case err == nil:
			l.counts.answer(c.id, text, progress)
			return
		case ctx.Err() != nil:
			l.counts.lose("call %s has no outcome: %v", c.id, err)
			return
		case !incomplete || failure.Delivery == jsonrpc.MaybeExecuted:
			l.counts.fail(c, err)
			return
		}
		time.Sleep(retry)
	}
}

// A subscriber reads the number of orders after each change.
type subscriber struct {
	session *client.Session
	name    string
	counts  *ledger
	changed chan struct{}
	cancel  context.CancelFunc // ends keep
	keeping sync.WaitGroup
}

func (l *load) subscribe(ctx context.Context, era client.Era) (*subscriber, error) {
	s := &subscriber{name: "subscriber-" + era.String(), counts: l.counts, changed: make(chan struct{}, 1)}
	var err error
	s.session, err = l.connect(ctx, era, s.name, user, func(context.Context, mcp.Change) {
		l.counts.count(&l.counts.changes)
		s.report()
	})
	if err != nil {
		return nil, err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.keeping.Go(func() { s.keep(ctx) })
	return s, nil
}

// keep subscribes, and again when a replica that is restarted has ended the subscription. The client itself
// renews one that was interrupted.
func (s *subscriber) keep(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(retry) {
		subscription, err := s.session.Subscribe(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{ordersURI}})
		if err != nil {
			continue
		}
		s.report() // there may have been changes before
		select {
		case <-subscription.Done():
		case <-ctx.Done():
		}
		subscription.Close()
	}
}

func (s *subscriber) report() {
	select {
	case s.changed <- struct{}{}:
	default: // it has yet to read
	}
}

// forget forgets changes that have been reported.
func (s *subscriber) forget() {
	select {
	case <-s.changed:
	default:
	}
}

// close waits until the subscriber has read what it must hear of, and ends it.
func (s *subscriber) close(ctx context.Context, want string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer s.session.Close()
	defer s.keeping.Wait()
	defer s.cancel()
	for {
		select {
		case <-s.changed:
		case <-ctx.Done():
			s.counts.lose("%s does not hear that there are %s orders", s.name, want)
			return
		}
		read, err := s.session.ReadResource(ctx, ordersURI, nil)
		if err != nil {
			s.counts.lose("%s cannot read: %v", s.name, err)
			return
		}
		if text := read.Contents[0].(*mcp.TextResourceContents).Text; strings.TrimSpace(text) == want {
			return
		}
	}
}
