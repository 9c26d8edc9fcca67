package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// initialize opens a legacy session. MCP 2025-11-25, basic/lifecycle.
func (s *Session) initialize(ctx context.Context) error {
	s.opening.Store(true)
	defer s.opening.Store(false)
	resp, err := s.conn.Call(ctx, mcp.MethodInitialize, &mcp.InitializeParams{
		ProtocolVersion: s.config.Version,
		Capabilities:    capabilitiesAs(s.config.Version, s.config.Capabilities),
		ClientInfo:      implementationFor(s.config.Version, s.config.Info),
	})
	if err != nil {
		return fmt.Errorf("initializing: %w", err)
	}
	var result mcp.InitializeResult
	if err := result.UnmarshalJSON(resp.Result); err != nil {
		return fmt.Errorf("initializing: %w", err)
	}
	if v := result.ProtocolVersion; !v.Known() || v.Modern() {
		return fmt.Errorf("initializing: the server wants to speak version %s, which has no handshake here", jsonscan.Quote(string(v)))
	}
	s.server = Description{Info: result.ServerInfo, Capabilities: result.Capabilities, Instructions: result.Instructions}
	s.speaks, s.era = result.ProtocolVersion, newLegacyClient()
	if err := s.conn.Notify(ctx, mcp.NotificationInitialized, nil); err != nil {
		return fmt.Errorf("initializing: %w", err)
	}
	if s.config.LogLevel == "" || s.server.Capabilities.Logging == nil {
		return nil
	}
	_, err = s.conn.Call(ctx, mcp.MethodSetLevel, &mcp.SetLevelParams{Level: s.config.LogLevel})
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil // a server may declare logging and have no levels
	}
	return err
}

// A legacyClient has nothing to put on requests: the session remembers it.
type legacyClient struct {
	turn      chan struct{}     // taken by who subscribes or unsubscribes
	watched   map[string]int    // how many listen to a resource; belongs to who has the turn
	questions deadline.Activity // while one is answered, calls do not time out
}

func newLegacyClient() *legacyClient {
	return &legacyClient{turn: make(chan struct{}, 1), watched: make(map[string]int)}
}

func (l *legacyClient) do(ctx context.Context, s *Session, method string, params jsonrpc.Appender, token json.RawMessage) (*jsonrpc.Response, error) {
	if token != nil {
		params = &tokenParams{params, token}
	}
	return s.conn.Call(l.questions.Context(ctx), method, params)
}

func (*legacyClient) exchange(ctx context.Context, s *Session, method string, params RoundParams) (*jsonrpc.Response, *mcp.InputRequiredResult, error) {
	resp, err := s.conn.Call(ctx, method, params)
	return resp, nil, err
}

// tokenParams are parameters with a progress token.
type tokenParams struct {
	params jsonrpc.Appender
	token  json.RawMessage
}

// AppendJSON appends the parameters with the token in their _meta.
func (p *tokenParams) AppendJSON(dst []byte) ([]byte, error) {
	start := len(dst)
	dst, err := appendParams(dst, p.params)
	if err != nil {
		return dst, err
	}
	return appendMeta(dst, start, "", p.token)
}

func (*legacyClient) ping(ctx context.Context, s *Session) error {
	_, err := s.conn.Call(ctx, mcp.MethodPing, nil)
	return err
}

// asked answers a question of the server.
func (l *legacyClient) asked(ctx context.Context, s *Session, from jsonrpc.Peer, req *jsonrpc.Request) (mcp.Result, error) {
	question := mcp.InputRequest{Method: req.Method, Params: req.Params}
	switch req.Method {
	case mcp.MethodElicit, mcp.MethodCreateMessage, mcp.MethodRootsList:
	default:
		return nil, methodNotFound(req.Method)
	}
	if err := checkAskable(&mcp.Caller{Capabilities: s.config.Capabilities}, question); err != nil {
		if req.Method == mcp.MethodRootsList || req.Method == mcp.MethodCreateMessage {
			return nil, methodNotFound(req.Method)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "this client did not declare that it can be asked this"}
	}
	defer l.questions.Pause()()
	if s.config.Receiver != nil {
		return s.config.Receiver.Ask(ctx, from, question)
	}
	return s.config.Answerer.Answer(ctx, question)
}
