package era

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// serves: the handshake has said what can be asked.
func (*legacyClient) serves(s *Session, can *mcp.ClientCapabilities) bool {
	declared, err := capabilityText(s.speaks, &s.config.Capabilities)
	if err != nil {
		return false
	}
	wanted, err := capabilityText(s.speaks, can)
	return err == nil && bytes.Equal(declared, wanted)
}

func capabilityText(version mcp.Version, can *mcp.ClientCapabilities) ([]byte, error) {
	as := capabilitiesAs(version, *can)
	return as.MarshalJSON()
}

// forward makes the call and waits for its result. If the server asks meanwhile, the
// call to it stays open, while the caller's is answered with the question; the next
// run takes it up again.
func (l *legacyClient) forward(ctx context.Context, s *Session, call *mcp.Call, how *Forwarding) (mcp.Result, error) {
	parking := s.config.Parking
	held, err := parking.take(call, how)
	if err != nil {
		return nil, err
	}
	if held == nil {
		l.setLevel(ctx, s, call.Caller.LogLevel)
		if !canBeAsked(call) {
			return l.forwardMute(ctx, s, call, how)
		}
		if held, err = l.begin(ctx, s, call, how); err != nil {
			return nil, err
		}
	} else {
		held.attach(ctx, call)
	}
	result, err := held.attend(ctx, call, how)
	if question, ok := mcp.AsInputRequired(err); ok {
		return nil, parking.put(held, call, how, question)
	}
	return result, err
}

func canBeAsked(call *mcp.Call) bool {
	can := &call.Caller.Capabilities
	return mayAsk(call.Method()) && (can.Elicitation != nil || can.Sampling != nil || can.Roots != nil)
}

// forwardMute forwards a call that nobody can be asked about.
func (l *legacyClient) forwardMute(ctx context.Context, s *Session, call *mcp.Call, how *Forwarding) (mcp.Result, error) {
	p := new(passage)
	s.passages.begin(s, p, call, how)
	defer s.passages.end(p)
	p.attach(ctx, call)
	defer p.detach()
	requesting, cancel := p.carries(ctx, how.Timeout)
	defer cancel()
	resp, err := s.conn.Call(requesting, call.Method(), &forwardParams{call: call, name: how.Name, token: p.token})
	if err != nil {
		return nil, err
	}
	return mcp.Raw(resp.Result), nil
}

// begin makes the call to the server, for as long as it may take: it may outlive the
// run that begins it, which is attached before the server can ask.
func (l *legacyClient) begin(ctx context.Context, s *Session, call *mcp.Call, how *Forwarding) (*heldCall, error) {
	if ctx.Err() != nil {
		return nil, notSent(call, context.Cause(ctx))
	}
	h := &heldCall{timeout: how.Timeout}
	if h.timeout <= 0 && !deadline.Has(ctx) {
		h.timeout = jsonrpc.DefaultCallTimeout
	}
	h.left = h.timeout
	h.asked, h.ended = make(chan *question), make(chan struct{})
	s.passages.begin(s, &h.passage, call, how)
	h.attach(ctx, call)
	open, cancel := context.WithCancelCause(context.Background())
	h.cancel = cancel
	far := &heldContext{open, ctx, &h.passage, time.Now().Add(maxHeld)}
	params := &forwardParams{call: call, name: how.Name, token: h.token}
	begun := s.start(func() {
		defer close(h.ended)
		defer s.passages.end(&h.passage)
		defer cancel(nil)
		h.response, h.err = s.conn.Call(far, call.Method(), params)
	})
	if !begun {
		s.passages.end(&h.passage)
		cancel(nil)
		return nil, notSent(call, jsonrpc.ErrClosed)
	}
	return h, nil
}

var (
	errAbandoned = errors.New("the caller does not wait for the result any more")
	errNobody    = &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "no call is under way whose caller could be asked this"}
)

// A question is one of a legacy server, which waits for the reply.
type question struct {
	key     string
	request mcp.InputRequest
	reply   chan reply // has room for it
}

type reply struct {
	answer json.RawMessage
	err    error
}

// questionPatience is how long a question that belongs to no call waits for one: a
// server may ask as soon as a session is open, for whose calls it was opened.
const questionPatience = 5 * time.Second

// askCaller has the caller asked on whose behalf the server asks.
func (l *legacyClient) askCaller(ctx context.Context, s *Session, from jsonrpc.Peer, request mcp.InputRequest) (mcp.Result, error) {
	patience := time.NewTimer(questionPatience)
	defer patience.Stop()
	for {
		p, next := s.passages.of(from, true)
		if p != nil && p.asked != nil {
			return p.ask(ctx, request)
		}
		if next == nil {
			return nil, errNobody
		}
		select {
		case <-next:
		case <-patience.C:
			return nil, errNobody
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ask asks the caller. It waits as long as the call to the server is open.
func (p *passage) ask(ctx context.Context, request mcp.InputRequest) (mcp.Result, error) {
	request, err := labelled(request, p.asker)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: err.Error()}
	}
	q := &question{request: request, reply: make(chan reply, 1)}
	select {
	case p.asked <- q:
	case <-p.ended:
		return nil, errAbandoned
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case r := <-q.reply:
		if r.err != nil {
			return nil, r.err
		}
		return mcp.Raw(r.answer), nil
	case <-p.ended:
		return nil, errAbandoned
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// setLevel has the server log what this caller wants to hear: a legacy server knows
// one level for all calls of a session.
func (l *legacyClient) setLevel(ctx context.Context, s *Session, level mcp.LoggingLevel) {
	if s.server.Capabilities.Logging == nil || !l.wants(level) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelTimeout)
	defer cancel()
	// One at a time: the last level that the server hears must be the most verbose one.
	if l.takeTurn(ctx) != nil {
		return
	}
	defer l.endTurn()
	if !l.wants(level) {
		return
	}
	// A call is worth making whatever becomes of its log.
	_, err := s.conn.Call(ctx, mcp.MethodSetLevel, &mcp.SetLevelParams{Level: level})
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); !ok || failed.Delivery != jsonrpc.NotSent {
		l.level.Store(&level)
	}
}

// wants says whether a level is more verbose than what the server has been told.
func (l *legacyClient) wants(level mcp.LoggingLevel) bool {
	known := l.level.Load()
	return level != "" && (known == nil || level.Severity() < known.Severity())
}

// levelTimeout bounds how long a call waits until its server has taken a log level.
const levelTimeout = 5 * time.Second
