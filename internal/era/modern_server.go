package era

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// handleModern answers a modern request. MCP 2026-07-28, basic/versioning and basic/index.
func (b *binding) handleModern(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	caller, err := b.modernCaller(ctx, req)
	if err != nil {
		return err
	}
	switch req.Method {
	case mcp.MethodDiscover:
		return b.server.discover(caller, reply)
	case mcp.MethodSubscriptionsListen:
		return b.listen(ctx, from, req, caller, reply)
	case mcp.MethodEventsStream:
		return b.stream(ctx, from, req, caller, reply)
	}
	return b.callModern(ctx, from, req, caller, reply)
}

// modernCaller returns the client of a modern request whose version has the method.
func (b *binding) modernCaller(ctx context.Context, req *jsonrpc.Request) (*mcp.Caller, error) {
	principal, network := b.client(ctx)
	caller, err := b.server.callers.caller(req, principal, network)
	if err == nil && !methods[req.Method].in(caller.Version) {
		err = methodNotFound(req.Method)
	}
	return caller, err
}

func (b *binding) callModern(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	c := b.server.newCall(ctx, from, req, caller)
	defer c.close()
	if err := b.server.resume(ctx, c); err != nil {
		return err
	}
	result, err := b.server.core.ServeProtocol(ctx, &c.Call)
	c.endRun()
	if question, asks := mcp.AsInputRequired(err); asks {
		if !question.WantsTask() {
			return b.server.ask(ctx, c, question, reply)
		}
		result, err = b.server.becomeTask(ctx, c, *question.Task)
	}
	if err != nil {
		return ErrorFor(caller.Version, err)
	}
	if task, ok := result.(*mcp.Task); ok && methods[req.Method].task {
		return b.server.writeTask(task, caller.Version, reply)
	}
	return b.server.writeModern(req.Method, caller.Version, result, reply)
}

// writeModern appends a complete result in its envelope.
func (s *Server) writeModern(method string, version mcp.Version, result mcp.Result, reply *jsonrpc.Reply) error {
	description, err := s.core.Describe()
	if err != nil {
		return err
	}
	envelope := s.envelopeFor(method, description)
	return s.write(method, version, result, reply, envelope.append, envelope.appendMembers)
}

// discover describes the server. MCP 2026-07-28, server/discover.
func (s *Server) discover(caller *mcp.Caller, reply *jsonrpc.Reply) error {
	description, err := s.core.Describe()
	if err != nil {
		return err
	}
	result := &mcp.DiscoverResult{
		SupportedVersions: mcp.Versions(),
		Capabilities:      capabilitiesFor(caller.Version, description.Capabilities),
		Instructions:      description.Instructions,
	}
	return s.writeModern(mcp.MethodDiscover, caller.Version, result, reply)
}

// callers caches the last caller, since a client sends the same metadata with each request.
type callers struct {
	last atomic.Pointer[knownCaller]
}

// maxKnownCaller is the maximum length of the metadata of a caller that is cached, in bytes.
const maxKnownCaller = 16 << 10

type knownCaller struct {
	version, info, capabilities, level []byte
	caller                             *mcp.Caller
}

// caller returns the client of a modern request. The error names what _meta lacks.
func (cs *callers) caller(req *jsonrpc.Request, principal, network string) (*mcp.Caller, error) {
	declared := knownCaller{
		version:      declaredVersion(req),
		info:         req.Member("_meta", mcp.MetaClientInfo),
		capabilities: req.Member("_meta", mcp.MetaClientCapabilities),
		level:        req.Member("_meta", mcp.MetaLogLevel),
	}
	if known := cs.last.Load(); known != nil && known.equals(declared) {
		if known.caller.Principal == principal && known.caller.Network == network {
			return known.caller, nil
		}
		caller := *known.caller
		caller.Principal, caller.Network = principal, network
		return &caller, nil
	}
	if jsonscan.KindOf(declared.version) != jsonscan.String {
		return nil, invalidMeta(mcp.MetaProtocolVersion, "a string", declared.version)
	}
	caller := &mcp.Caller{Version: mcp.Version(jsonscan.Unquote(declared.version)), Principal: principal, Network: network}
	if err := decodeObject(declared.capabilities, &caller.Capabilities); err != nil {
		return nil, invalidMeta(mcp.MetaClientCapabilities, "an object of capabilities", declared.capabilities)
	}
	if declared.info != nil {
		caller.Info = new(mcp.Implementation)
		if err := decodeObject(declared.info, caller.Info); err != nil || caller.Info.Name == "" {
			return nil, invalidMeta(mcp.MetaClientInfo, "an object with name and version", declared.info)
		}
	}
	if !caller.Version.Known() || !caller.Version.Modern() {
		return nil, unsupportedVersion(caller.Version)
	}
	if declared.level != nil {
		if err := json.Unmarshal(declared.level, &caller.LogLevel); err != nil || !caller.LogLevel.Valid() {
			return nil, invalidMeta(mcp.MetaLogLevel, "a log level such as \"info\"", declared.level)
		}
	}
	if len(declared.info)+len(declared.capabilities) <= maxKnownCaller {
		cs.last.Store(declared.clone(caller))
	}
	return caller, nil
}

func (k *knownCaller) equals(other knownCaller) bool {
	return bytes.Equal(k.version, other.version) && bytes.Equal(k.info, other.info) &&
		bytes.Equal(k.capabilities, other.capabilities) && bytes.Equal(k.level, other.level)
}

// clone returns a copy that does not retain the request.
func (k knownCaller) clone(caller *mcp.Caller) *knownCaller {
	return &knownCaller{
		version: bytes.Clone(k.version), info: bytes.Clone(k.info),
		capabilities: bytes.Clone(k.capabilities), level: bytes.Clone(k.level),
		caller: caller,
	}
}

func invalidMeta(key, want string, got json.RawMessage) error {
	problem := "but is missing"
	if got != nil {
		problem = "not " + jsonscan.Quote(string(got))
	}
	return &transport.RejectedError{Answer: &jsonrpc.Error{
		Code:    jsonrpc.InvalidParams,
		Message: fmt.Sprintf("_meta %q must be %s, %s", key, want, problem),
	}}
}

func unsupportedVersion(requested mcp.Version) error {
	data, err := json.Marshal(mcp.UnsupportedVersionData{Supported: mcp.Versions(), Requested: requested})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{
		Code:    mcp.CodeUnsupportedVersion,
		Message: "protocol version " + jsonscan.Quote(string(requested)) + " is not supported here",
		Data:    data,
	}
}

var errRounds = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: fmt.Sprintf("the call asked more than %d times", MaxRounds)}

// beginRound counts a round of questions. The error says that the call asks too often.
func (c *call) beginRound() error {
	if c.state.Rounds == MaxRounds {
		return errRounds
	}
	c.state.Rounds++
	return nil
}

func mayNotAsk(method string) error { return fmt.Errorf("%s may not ask its caller", method) }

// ask answers a modern call with its questions. The sealed state has the answers of earlier rounds, because a client
// sends only the answers of the last round. MCP 2026-07-28, basic/patterns/mrtr.
func (s *Server) ask(ctx context.Context, c *call, question *mcp.InputRequired, reply *jsonrpc.Reply) error {
	if !MayAsk(c.Method()) {
		return mayNotAsk(c.Method())
	}
	if err := c.beginRound(); err != nil {
		return err
	}
	description, err := s.core.Describe()
	if err != nil {
		return err
	}
	c.ID()
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false) // values with HTML would be up to six times as long
	if err := encoder.Encode(&c.state); err != nil {
		return err
	}
	state, err := s.key.Seal(ctx, plain.Bytes(), stateBinding(c), time.Now().Add(StateLifetime))
	if _, ok := errors.AsType[*token.SizeError](err); ok {
		return fmt.Errorf("the state of the call between its rounds is too large: %w", err)
	}
	if err != nil {
		return err
	}
	err = reply.Write(&mcp.InputRequiredResult{
		InputRequests: question.Requests,
		RequestState:  state,
		Meta:          mcp.Meta(`{"` + mcp.MetaServerInfo + `":` + string(s.serverInfo.of(description).encoded) + `}`),
	})
	if c.continues = err == nil; c.continues && question.Asked != nil {
		question.Asked(c.withdraw)
	}
	return err
}

// resume restores the state of earlier rounds of the call: the sealed state and the answers
// in this request.
func (s *Server) resume(ctx context.Context, c *call) error {
	if state := c.Member("requestState"); state != nil {
		if err := s.openState(ctx, c, state); err != nil {
			return err
		}
	}
	responses := c.Member("inputResponses")
	if responses == nil {
		return nil
	}
	answers, err := jsonscan.ReadObject(responses)
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "inputResponses must be an object of answers by their keys: " + err.Error()}
	}
	for answer := range answers.All() {
		if jsonscan.New(answer.Value).Kind() != jsonscan.Object {
			return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "inputResponses: the answer to " + jsonscan.Quote(jsonscan.Unquote(answer.Key)) + " must be an object"}
		}
		c.answer(jsonscan.Unquote(answer.Key), answer.Value)
	}
	return nil
}

// openState restores the sealed state of a call.
func (s *Server) openState(ctx context.Context, c *call, state json.RawMessage) error {
	var text string
	if err := json.Unmarshal(state, &text); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "requestState must be the string that came with the questions"}
	}
	plain, err := s.key.Open(ctx, text, stateBinding(c), time.Now())
	switch {
	case err != nil && (ctx.Err() != nil || isForCaller(err)):
		return err
	case errors.Is(err, token.ErrExpired):
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "requestState has expired: make the call again from its beginning"}
	case err != nil:
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "requestState is not one of this server's for this call"}
	}
	return json.Unmarshal(plain, &c.state)
}

// stateBinding returns the binding of a sealed state. A state is valid for one caller, method and set of params.
func stateBinding(c *call) []byte {
	return token.Binding(c.Caller.Principal, c.Method(),
		string(c.Member("name")), string(c.Member("uri")), string(c.Member("arguments")))
}

// checkAskable returns an error if the caller did not declare the capability for a question.
func checkAskable(caller *mcp.Caller, question mcp.InputRequest) error {
	missing := missingCapability(&caller.Capabilities, question)
	if missing == "" {
		return nil
	}
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingClientCapability,
		Message: "the client cannot be asked: it did not declare " + missing,
		Data:    json.RawMessage(`{"requiredCapabilities":` + missing + `}`),
	}
}

// missingCapability returns the capability object that a question needs and the client did
// not declare, "" if none is missing.
func missingCapability(has *mcp.ClientCapabilities, question mcp.InputRequest) string {
	switch question.Method {
	case mcp.MethodRootsList:
		if has.Roots == nil {
			return `{"roots":{}}`
		}
	case mcp.MethodCreateMessage:
		if has.Sampling == nil {
			return `{"sampling":{}}`
		}
		if has.Sampling.Tools == nil && (hasMember(question.Params, "tools") || hasMember(question.Params, "toolChoice")) {
			return `{"sampling":{"tools":{}}}`
		}
	case mcp.MethodElicit:
		return missingElicitation(has.Elicitation, hasMember(question.Params, "url"))
	}
	return ""
}

// missingElicitation is missingCapability for elicitation. An empty declaration means forms
// only.
func missingElicitation(has *mcp.ElicitationCapability, url bool) string {
	switch {
	case url && (has == nil || has.URL == nil):
		return `{"elicitation":{"url":{}}}`
	case !url && (has == nil || has.Form == nil && has.URL != nil):
		return `{"elicitation":{"form":{}}}`
	}
	return ""
}

func hasMember(object json.RawMessage, name string) bool {
	o, err := jsonscan.ReadObject(object)
	return err == nil && o.Get(name) != nil
}

// listen serves a subscription, which is a call that does not end until the subscription
// does. MCP 2026-07-28, basic/patterns/subscriptions.
func (b *binding) listen(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	defer b.listens.Add(-1)
	s, err := b.beginListen(ctx, from, req, caller)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.changes.run(ctx, b.link.Input.Done(), b.server.core.Stopping(), s.notify); err != nil {
		return err
	}
	return b.endListen(s, req, caller, reply)
}

// A serverSubscription is an open subscription of a modern session. A separate function opens it, so that the goroutine
// waits with a small stack: there may be thousands of subscriptions.
type serverSubscription struct {
	tag     mcp.Meta
	changes *changeQueue
	notify  func(mcp.Change) error
	stop    func()
}

func (b *binding) beginListen(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller) (s *serverSubscription, err error) {
	filter, err := b.listenFilter(req, caller, b.listens.Add(1))
	if err != nil {
		return nil, err
	}
	release, err := b.retain(req, caller, len(filter.ResourceSubscriptions)+len(filter.TaskIDs))
	if err != nil {
		return nil, err
	}
	opened := false
	defer func() { // also after a panic
		if !opened {
			release()
		}
	}()
	s = &serverSubscription{tag: subscriptionTag(req.ID), changes: newChangeQueue()}
	s.notify = func(change mcp.Change) error {
		if change.TaskID != "" {
			return b.server.notifyTask(ctx, from, caller, change.TaskID, s.tag)
		}
		return b.server.notifyChange(ctx, from, caller, change, s.tag)
	}
	call := mcp.NewCall(req, caller, nil)
	filter, stop, err := b.server.core.Watch(ctx, &call, filter, func(change mcp.Change) { s.changes.add(change) })
	if err != nil {
		return nil, ErrorFor(caller.Version, err)
	}
	if err = from.Notify(ctx, mcp.NotificationAcknowledged, &mcp.SubscriptionsListenParams{Notifications: filter, Meta: s.tag}); err != nil {
		stop()
		return nil, err
	}
	s.stop = func() {
		defer release()
		stop()
	}
	opened = true
	return s, nil
}

// listenFilter returns what a subscription reports. open is the number of open subscriptions of the link, with this one.
func (b *binding) listenFilter(req *jsonrpc.Request, caller *mcp.Caller, open int32) (want mcp.SubscriptionFilter, err error) {
	if len(req.Params) > MaxListenParams {
		return want, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("the params of %s may have at most %d bytes, not %d", req.Method, MaxListenParams, len(req.Params))}
	}
	if err := decodeObject(req.Member("notifications"), &want); err != nil {
		return want, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "notifications must be an object that says what to listen to: " + err.Error()}
	}
	if err := checkTasks(caller, &want); err != nil {
		return want, err
	}
	if n := len(want.ResourceSubscriptions) + len(want.TaskIDs); n > MaxSubscribed {
		return want, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("at most %d resources and tasks can be watched, not %d", MaxSubscribed, n)}
	}
	if open > MaxListens && !b.link.Shared {
		return want, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: fmt.Sprintf("at most %d subscriptions can be open on one connection", MaxListens)}
	}
	description, err := b.server.core.Describe()
	if err != nil {
		return want, err
	}
	return accepted(want, &description.Capabilities), nil
}

func (b *binding) endListen(s *serverSubscription, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	return b.server.writeModern(req.Method, caller.Version, mcp.Raw(`{"_meta":`+string(s.tag)+`}`), reply)
}

// subscriptionTag returns the _meta of the messages of a subscription. The id keeps its JSON
// type.
func subscriptionTag(id jsonrpc.ID) mcp.Meta {
	return mcp.Meta(json.RawMessage(`{"` + mcp.MetaSubscriptionID + `":` + id.String() + `}`))
}
