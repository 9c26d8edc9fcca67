package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// maxStateOnly is how often a server may say "come again" without a question.
const maxStateOnly = 3

// probe asks whether the server is modern. MCP 2026-07-28, basic/versioning.
func (s *Session) probe(ctx context.Context) error {
	ctx, cancel := deadline.With(ctx, s.config.ProbeTimeout, errNoAnswer)
	defer cancel()
	version := mcp.LatestVersion
	era, err := newModernClient(&s.config, version)
	if err != nil {
		return err
	}
	resp, err := era.request(ctx, s, mcp.MethodDiscover, nil, nil, retry{})
	if supported := supportedBy(err); slices.Contains(supported, version) {
		// It names the very version it was asked in: once more.
		resp, err = era.request(ctx, s, mcp.MethodDiscover, nil, nil, retry{})
	}
	if err != nil {
		return fmt.Errorf("asking for the server's versions: %w", err)
	}
	var found mcp.DiscoverResult
	if err := found.UnmarshalJSON(resp.Result); err != nil {
		return fmt.Errorf("the server's description: %w", err)
	}
	if !slices.Contains(found.SupportedVersions, version) {
		return fmt.Errorf("the server speaks %v", found.SupportedVersions)
	}
	s.server = Description{Capabilities: found.Capabilities, Instructions: found.Instructions, CacheHint: found.CacheHint}
	if info := resp.Member("_meta", mcp.MetaServerInfo); info != nil {
		if err := s.server.Info.UnmarshalJSON(info); err != nil {
			return fmt.Errorf("the server's name: %w", err)
		}
	}
	s.speaks, s.era = version, era
	return nil
}

var errNoAnswer = errors.New("no answer in time")

// supportedBy lists the versions that an unsupported-version error names.
func supportedBy(err error) []mcp.Version {
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != mcp.CodeUnsupportedVersion {
		return nil
	}
	var data mcp.UnsupportedVersionData
	if json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	return data.Supported
}

// A modernClient puts on each request who sends it.
type modernClient struct {
	meta      string // members of _meta, encoded once
	forwarded atomic.Pointer[callerMeta]
}

func newModernClient(config *Config, version mcp.Version) (*modernClient, error) {
	info, err := config.Info.MarshalJSON()
	if err != nil {
		return nil, err
	}
	can := capabilitiesAs(version, config.Capabilities)
	capabilities, err := can.MarshalJSON()
	if err != nil {
		return nil, err
	}
	meta := fmt.Sprintf(`"%s":"%s","%s":%s,"%s":%s`, mcp.MetaProtocolVersion, version,
		mcp.MetaClientCapabilities, capabilities, mcp.MetaClientInfo, info)
	if config.LogLevel != "" {
		meta += fmt.Sprintf(`,"%s":%q`, mcp.MetaLogLevel, config.LogLevel)
	}
	return &modernClient{meta: meta}, nil
}

// do makes a call and, as long as its result is a question, answers and makes
// it again. MCP 2026-07-28, basic/patterns/mrtr.
func (m *modernClient) do(ctx context.Context, s *Session, method string, params jsonrpc.Appender, token json.RawMessage) (*jsonrpc.Response, error) {
	var (
		round     *mcp.InputRequiredResult
		responses json.RawMessage
		wait      = backoff.Backoff{}
		idle      int
	)
	for asked := 0; ; asked++ {
		resp, err := m.request(ctx, s, method, params, token, retry{round, responses})
		if err != nil {
			return nil, afterRounds(asked, err)
		}
		switch kind := resp.Member("resultType"); string(kind) {
		case "", `"complete"`:
			return resp, nil
		case `"input_required"`:
			if !mayAsk(method) {
				return nil, errors.New("the server asked a question, which it may not for this method")
			}
		default:
			return nil, fmt.Errorf("the result is of an unknown type %s", jsonscan.Quote(string(kind)))
		}
		if asked == s.config.MaxRounds {
			return nil, fmt.Errorf("the server asked more than %d times", s.config.MaxRounds)
		}
		round = new(mcp.InputRequiredResult)
		if err := round.UnmarshalJSON(resp.Result); err != nil {
			return nil, fmt.Errorf("the server's question: %w", err)
		}
		if len(round.InputRequests) == 0 {
			if idle++; idle > maxStateOnly || round.RequestState == "" {
				return nil, errors.New("the server asks to come again without a question")
			}
			if err := wait.Wait(ctx); err != nil {
				return nil, err
			}
		}
		if responses, err = s.answerAll(ctx, round.InputRequests); err != nil {
			return nil, err
		}
	}
}

// afterRounds is the error of a later round: how far that round got says nothing
// of what the earlier ones have done.
func afterRounds(asked int, err error) error {
	failed, ok := err.(*jsonrpc.CallError)
	if !ok || asked == 0 {
		return err
	}
	return &jsonrpc.CallError{Method: failed.Method, Delivery: jsonrpc.MaybeExecuted, Err: failed.Err}
}

// answerAll answers every question of a round, at the same time, and encodes
// the answers.
func (s *Session) answerAll(ctx context.Context, questions map[string]mcp.InputRequest) (json.RawMessage, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	keys := sortedKeys(questions)
	answers := make([]mcp.Result, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	for i, key := range keys {
		question := questions[key]
		if err := checkAskable(&mcp.Caller{Capabilities: s.config.Capabilities}, question); err != nil {
			return nil, fmt.Errorf("the server asked %q: %v", key, err) // it is not the server that says so
		}
		group.Go(func() (err error) {
			answers[i], err = s.config.Answerer.Answer(ctx, question)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("a question of the server was not answered: %w", err)
	}
	out := []byte{'{'}
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonscan.AppendString(out, key), ':')
		var err error
		if out, err = answers[i].AppendJSON(out); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// ping: the modern era has no ping, and this every server answers.
func (m *modernClient) ping(ctx context.Context, s *Session) error {
	_, err := m.request(ctx, s, mcp.MethodDiscover, nil, nil, retry{})
	return err
}

// asked: a modern server sends no requests.
func (*modernClient) asked(_ context.Context, _ *Session, _ jsonrpc.Peer, req *jsonrpc.Request) (mcp.Result, error) {
	return nil, methodNotFound(req.Method)
}

// A retry is what a later round of a call carries beside its parameters.
type retry struct {
	round     *mcp.InputRequiredResult
	responses json.RawMessage
}

func (m *modernClient) request(ctx context.Context, s *Session, method string, params jsonrpc.Appender, token json.RawMessage, again retry) (*jsonrpc.Response, error) {
	return s.conn.Call(ctx, method, &modernParams{era: m, params: params, token: token, again: again})
}

// modernParams are a call's parameters with the metadata that makes them a
// modern request.
type modernParams struct {
	era    *modernClient
	params jsonrpc.Appender
	token  json.RawMessage
	again  retry
}

// AppendJSON appends the parameters, stamped.
func (p *modernParams) AppendJSON(dst []byte) ([]byte, error) {
	start := len(dst)
	dst, err := appendParams(dst, p.params)
	if err != nil {
		return dst, err
	}
	if dst, err = appendMeta(dst, start, p.era.meta, p.token); err != nil {
		return dst, err
	}
	if p.again.round == nil {
		return dst, nil
	}
	dst = dst[:len(dst)-1]
	if p.again.responses != nil {
		dst = append(append(dst, `,"inputResponses":`...), p.again.responses...)
	}
	if p.again.round.RequestState != "" {
		dst = jsonscan.AppendString(append(dst, `,"requestState":`...), p.again.round.RequestState)
	}
	return append(dst, '}'), nil
}
