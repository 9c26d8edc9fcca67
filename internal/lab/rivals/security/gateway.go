package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A dovetailGateway is what this module has between agents and servers.
type dovetailGateway struct{}

// A pinState keeps what was accepted.
type pinState struct{ lock *pin.Lock }

// present serves s at a socket until ctx ends.
func present(ctx context.Context, s *server.Server) (string, error) {
	endpoint := streamable.Handler(s, nil)
	context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Shutdown(bounded)
		endpoint.Close()
	})
	return listen(ctx, "127.0.0.1", endpoint)
}

func (dovetailGateway) pinned(ctx context.Context, upstream string, state *pinState) (string, error) {
	first := state.lock == nil
	if first {
		state.lock = pin.NewLock("")
	}
	b, err := bridge.New(nil, bridge.Config{Alias: "up", Dialer: streamable.Dial(upstream, nil), Required: true})
	if err != nil {
		return "", err
	}
	s := server.New(implementation, nil)
	if err := s.Mount(pin.Wrap(b, "all", state.lock, nil), nil); err != nil {
		return "", err
	}
	url, err := present(ctx, s)
	if err != nil || !first {
		return url, err
	}
	for range 100 { // until the bridge has read the list
		if pending := state.lock.Pending(); len(pending) > 0 {
			for _, p := range pending {
				if err := state.lock.Accept(p.Server, p.Entry); err != nil {
					return "", err
				}
			}
			return url, nil
		}
		c, err := dial(ctx, url, "")
		if err != nil {
			return "", err
		}
		_, err = c.post(ctx, request(1, "tools/list", "{}"))
		c.close()
		if err != nil {
			return "", err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", errors.New("the gateway has found no tools")
}

func (dovetailGateway) exposed(tool string) string {
	return bridge.Name("up", tool)
}

func (dovetailGateway) restricted(ctx context.Context, text string) (string, error) {
	parsed, err := policy.Parse([]byte(text))
	if err != nil {
		return "", err
	}
	compiled, err := policy.Compile(parsed)
	if err != nil {
		return "", err
	}
	return present(ctx, newDovetail(allTools(), &server.Options{Guards: []mcp.Guard{policy.Guard(compiled, nil)}}))
}

// askAbout returns a policy that asks about one tool, or about all for "*".
func askAbout(name string) (*policy.Compiled, error) {
	return policy.Compile(&policy.Policy{Rules: []policy.Rule{
		{Effect: policy.Ask, Match: policy.Match{Names: []string{name}}}, {Effect: policy.Allow},
	}})
}

// approvalTimeout is how long a call waits for an approval. A connection that an approver has closed may
// still get a request.
const approvalTimeout = 4 * time.Second

func (dovetailGateway) approved(ctx context.Context) (url, approver, token string, err error) {
	compiled, err := askAbout("run")
	if err != nil {
		return "", "", "", err
	}
	ch, err := channel.New(&channel.Options{ReconnectTimeout: 2 * time.Second})
	if err != nil {
		return "", "", "", err
	}
	context.AfterFunc(ctx, func() { ch.Close() })
	s := newDovetail(allTools(), &server.Options{Guards: []mcp.Guard{approval.Guard(compiled, ch, &approval.Options{Expiry: approvalTimeout})}})
	if url, err = present(ctx, s); err != nil {
		return "", "", "", err
	}
	approver, err = listen(ctx, "127.0.0.1", ch)
	return url, approver, ch.Token(), err
}

func (dovetailGateway) journal(ctx context.Context, path string, calls []journaled) ([]string, error) {
	compiled, err := askAbout("*")
	if err != nil {
		return nil, err
	}
	file, err := approval.OpenJournal(path, nil)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var digests []string
	person := approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
		digests = append(digests, fmt.Sprint(r.Subject()))
		return approval.Answer{Approved: true, Reason: calls[len(digests)-1].argument, By: calls[len(digests)-1].argument}, nil
	})
	guard := approval.Guard(compiled, person, &approval.Options{Journal: file, RecordArguments: true})
	inner, stop := context.WithCancel(ctx)
	defer stop()
	url, err := present(inner, newDovetail(journalTools(calls), &server.Options{Guards: []mcp.Guard{guard}}))
	if err != nil {
		return nil, err
	}
	err = callEach(ctx, url, calls)
	return digests, err
}

// journalTools returns the tools of calls.
func journalTools(calls []journaled) []tool {
	var tools []tool
	for _, c := range calls {
		tools = append(tools, tool{c.tool, `{"type":"object"}`, func(context.Context, map[string]any, func(string)) (string, error) {
			return ran, nil
		}})
	}
	return tools
}

// callEach makes calls, one after the other.
func callEach(ctx context.Context, url string, calls []journaled) error {
	c, err := dial(ctx, url, "")
	if err != nil {
		return err
	}
	defer c.close()
	for _, made := range calls {
		arguments, err := json.Marshal(map[string]string{"text": made.argument})
		if err != nil {
			return err
		}
		got, err := c.call(ctx, made.tool, string(arguments))
		if err != nil {
			return err
		}
		if !hasRun(got.text) {
			return errors.New(got.text)
		}
	}
	return nil
}

func (dovetailGateway) verify(path string) error {
	_, err := approval.Verify(path)
	return err
}

func (dovetailGateway) register(ctx context.Context) (url, operator string, err error) {
	return registerAt(ctx, &toolserver.Options{})
}

// registerAt serves tools for programs that name a server.
func registerAt(ctx context.Context, opts *toolserver.Options) (url, token string, err error) {
	b, err := bridge.New(nil, bridge.Config{Alias: "own", Dialer: transport.Pipe(newDovetail(allTools(), nil))})
	if err != nil {
		return "", "", err
	}
	opts.Server = server.New(implementation, nil)
	if err := opts.Server.Mount(b, nil); err != nil {
		return "", "", err
	}
	tools, err := toolserver.New(opts)
	if err != nil {
		return "", "", err
	}
	context.AfterFunc(ctx, func() {
		tools.Close()
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = opts.Server.Shutdown(bounded)
	})
	url, err = listen(ctx, "127.0.0.1", tools)
	return url, tools.Authenticator().Token(), err
}

// postJSON sends JSON with a token and returns the status and the body.
func postJSON(ctx context.Context, url, token, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	web := newWeb()
	defer web.CloseIdleConnections()
	res, err := web.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}
