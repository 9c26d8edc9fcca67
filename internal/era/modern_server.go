package era

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// handleModern answers a request that needs nothing but itself. MCP 2026-07-28,
// basic/versioning and basic/index.
func (b *binding) handleModern(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	caller, err := b.server.callers.caller(req, b.principal(ctx))
	if err != nil {
		return err
	}
	switch req.Method {
	case mcp.MethodDiscover:
		return b.server.discover(caller, reply)
	case mcp.MethodSubscriptionsListen:
		return b.listen(ctx, from, req, caller, reply)
	case mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLevel,
		mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return methodNotFound(req.Method)
	}
	return b.callModern(ctx, from, req, caller, reply)
}

func (b *binding) callModern(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	c := newCall(ctx, from, req, caller)
	defer c.close()
	if err := b.server.resume(c); err != nil {
		return err
	}
	result, err := b.server.core.Serve(ctx, &c.Call)
	c.endRun()
	if question, ok := mcp.AsInputRequired(err); ok {
		return b.server.ask(c, question, reply)
	}
	if err != nil {
		return errorFor(caller.Version, err)
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
	if raw, ok := result.(mcp.Raw); ok {
		if err := checkObject(method, raw); err != nil {
			return err
		}
		if isList(method) {
			reply.Buf, err = s.lists.append(reply.Buf, method, version, raw, envelope.append)
		} else {
			reply.Buf, err = envelope.append(reply.Buf, raw)
		}
		return err
	}
	start := len(reply.Buf)
	if err := writeObject(method, result, reply); err != nil {
		return err
	}
	if isBare(result) {
		reply.Buf = envelope.appendMembers(reply.Buf)
		return nil
	}
	reply.Buf, err = envelope.apply(reply.Buf, start)
	return err
}

// discover says what this server is. MCP 2026-07-28, server/discover.
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

// callers remembers the last caller: a client says the same of itself on each
// request, and it need not be decoded each time.
type callers struct {
	last atomic.Pointer[knownCaller]
}

type knownCaller struct {
	version, info, capabilities, level []byte
	caller                             *mcp.Caller
}

// caller says who makes a modern request, or what its _meta lacks.
func (cs *callers) caller(req *jsonrpc.Request, principal string) (*mcp.Caller, error) {
	said := knownCaller{
		version:      declaredVersion(req),
		info:         req.Member("_meta", mcp.MetaClientInfo),
		capabilities: req.Member("_meta", mcp.MetaClientCapabilities),
		level:        req.Member("_meta", mcp.MetaLogLevel),
	}
	if known := cs.last.Load(); known != nil && known.says(said, principal) {
		return known.caller, nil
	}
	if jsonscan.KindOf(said.version) != jsonscan.String {
		return nil, invalidMeta(mcp.MetaProtocolVersion, "a string", said.version)
	}
	caller := &mcp.Caller{Version: mcp.Version(jsonscan.Unquote(said.version)), Principal: principal}
	if err := decodeObject(said.capabilities, &caller.Capabilities); err != nil {
		return nil, invalidMeta(mcp.MetaClientCapabilities, "an object of capabilities", said.capabilities)
	}
	if said.info != nil {
		caller.Info = new(mcp.Implementation)
		if err := decodeObject(said.info, caller.Info); err != nil || caller.Info.Name == "" {
			return nil, invalidMeta(mcp.MetaClientInfo, "an object with name and version", said.info)
		}
	}
	if !caller.Version.Known() || !caller.Version.Modern() {
		return nil, unsupportedVersion(caller.Version)
	}
	if said.level != nil {
		if err := json.Unmarshal(said.level, &caller.LogLevel); err != nil || !caller.LogLevel.Valid() {
			return nil, invalidMeta(mcp.MetaLogLevel, "a log level such as \"info\"", said.level)
		}
	}
	cs.last.Store(said.own(caller))
	return caller, nil
}

func (k *knownCaller) says(other knownCaller, principal string) bool {
	return bytes.Equal(k.version, other.version) && bytes.Equal(k.info, other.info) &&
		bytes.Equal(k.capabilities, other.capabilities) && bytes.Equal(k.level, other.level) &&
		k.caller.Principal == principal
}

// own is what was said, in a copy that does not keep a whole request alive.
func (k knownCaller) own(caller *mcp.Caller) *knownCaller {
	return &knownCaller{
		version: bytes.Clone(k.version), info: bytes.Clone(k.info),
		capabilities: bytes.Clone(k.capabilities), level: bytes.Clone(k.level),
		caller: caller,
	}
}

func invalidMeta(key, want string, got json.RawMessage) error {
	came := "nothing"
	if got != nil {
		came = jsonscan.Quote(string(got))
	}
	return &transport.RejectedError{Answer: &jsonrpc.Error{
		Code:    jsonrpc.InvalidParams,
		Message: fmt.Sprintf("_meta %q must be %s, but came %s", key, want, came),
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
