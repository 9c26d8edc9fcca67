package main

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
)

// addTransfer adds a tool that is executed after an approval. It returns the channel at which a person connects.
func addTransfer(s *server.Server, shared store.Store) (*channel.Channel, error) {
	approver, err := channel.New(&channel.Options{Store: shared, Token: os.Getenv(envApprover), ReconnectTimeout: patience, Logger: quiet})
	if err != nil {
		return nil, err
	}
	rules, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask}}})
	if err != nil {
		return nil, err
	}
	guard := approval.Guard(rules, approver, &approval.Options{Store: shared, Replica: os.Getenv(envReplica), Logger: quiet})
	server.AddTool(s, server.Tool{Name: "transfer", Guards: []mcp.Guard{guard}}, func(ctx context.Context, _ *server.Request, in callIn) (string, error) {
		if err := execute(ctx, in.Call); err != nil {
			return "", err
		}
		return "done " + in.Call, nil
	})
	return approver, nil
}

// dialApprover connects the person, who uses any replica.
func (l *load) dialApprover(ctx context.Context, token string) (*channel.Client, error) {
	return channel.Dial(ctx, l.url, l.decide, &channel.ClientOptions{Token: token, Logger: quiet})
}

// approves reports what the person decides about a call: one in five is refused.
func approves(call string) bool {
	hash := fnv.New32()
	hash.Write([]byte(call))
	return hash.Sum32()%5 != 0
}

// decide is the person. Most decisions take some tenths of a second, and some so long that replicas are killed
// in the meantime.
func (l *load) decide(ctx context.Context, p *approval.Prompt) {
	var in callIn
	if err := json.Unmarshal(p.Arguments, &in); err != nil {
		l.counts.lose("a request has the arguments %s", p.Arguments)
		return
	}
	thinking := rand.N(300 * time.Millisecond)
	if rand.IntN(10) == 0 {
		thinking += 3 * time.Second
	}
	if wait(ctx, thinking) != nil {
		return
	}
	l.counts.approve(in.Call, p.ID, approves(in.Call))
	if approves(in.Call) {
		_ = p.Accept(ctx) // if it fails, the person is asked again
	} else {
		_ = p.Reject(ctx, "no")
	}
}

// transfer makes a call that needs an approval, until there is an outcome.
func (l *load) transfer(ctx context.Context, era client.Era, name string) {
	session, err := l.connect(ctx, era, name, user, nil)
	if err != nil {
		l.counts.lose("%s cannot connect: %v", name, err)
		return
	}
	defer session.Close()
	c := call{id: name, client: name, needsApproval: true}
	for {
		l.counts.begin(c)
		text, err := client.CallAs[string](ctx, session, "transfer", callIn{name}, &client.CallOptions{
			OnTask: func(*mcp.Task) { c.isTask = true }, // since 2026-07-28, a call that waits for a person is a task
		})
		refusal, isRefused := errors.AsType[*client.ToolError](err)
		failure, incomplete := errors.AsType[*jsonrpc.CallError](err)
		switch {
		case err == nil:
			l.counts.count(&l.counts.approvals)
			l.counts.answer(name, text, 0)
			return
		case ctx.Err() != nil:
			l.counts.lose("call %s has no outcome: %v", name, err)
			return
		case isRefused && strings.HasPrefix(refusal.Error(), `tool "transfer": Approval request for transfer rejected: no`):
			l.counts.refuse(name)
			return
		case !incomplete || failure.Delivery == jsonrpc.MaybeExecuted:
			l.counts.fail(c, err)
			return
		}
		time.Sleep(retry)
	}
}
