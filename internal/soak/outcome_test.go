package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// An outcome is what a caller learns of its call.
type outcome string

const (
	answered            outcome = "answered"
	notSent             outcome = "not sent"
	rejected            outcome = "rejected"
	refused             outcome = "tool unknown at the moment"
	maybeExecuted       outcome = "maybe executed"
	maybeExecutedAndWas outcome = "of these executed"
	wrong               outcome = "wrong"
)

// A caller calls, and notes the outcomes.
type caller struct {
	testing.TB
	name     string
	session  *client.Session
	outcomes [lanes][]outcome
	answered atomic.Int64
}

func newCaller(t testing.TB, name, over, url string, era client.Era) *caller {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := &caller{TB: t, name: name}
	for {
		session, err := client.Connect(ctx, dialerOf(over, url), &client.Options{Era: era, MaxReconnects: 1 << 30})
		if err == nil {
			c.session = session
			return c
		}
		select {
		case <-time.After(20 * time.Millisecond): // the bridge is being started
		case <-ctx.Done():
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// calls calls the servers in turn until ctx ends, but finishes what it has begun.
func (c *caller) calls(ctx context.Context, lane int) {
	for i := lane; ctx.Err() == nil; i++ {
		c.call(context.WithoutCancel(ctx), lane, far[i%len(far)].alias)
	}
}

func (c *caller) nonce(lane, i int) string { return fmt.Sprintf("%s.%d.%d", c.name, lane, i) }

// call makes one call and returns who has answered it, 0 if nobody has.
func (c *caller) call(ctx context.Context, lane int, alias string) (pid int) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errHangs)
	defer cancel()
	nonce := c.nonce(lane, len(c.outcomes[lane]))
	result, err := c.session.CallTool(ctx, bridge.Name(alias, "book"), echoIn{nonce}, nil)
	was := wrong
	if err == nil {
		text, by, _ := strings.Cut(textOf(result), " by ")
		if pid, _ = strconv.Atoi(by); text == nonce && pid != 0 {
			was = answered
			c.answered.Add(1)
		}
	} else {
		was = outcomeOf(err)
	}
	if was == wrong {
		c.Errorf("%s to %s: %v, answered by %d", nonce, alias, err, pid)
	}
	c.outcomes[lane] = append(c.outcomes[lane], was)
	return pid
}

var errHangs = errors.New("the call hangs")

// outcomeOf is what an error says became of a call.
func outcomeOf(err error) outcome {
	if errors.Is(err, errHangs) || errors.Is(err, context.DeadlineExceeded) {
		return wrong
	}
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok {
		return map[jsonrpc.Delivery]outcome{
			jsonrpc.NotSent: notSent, jsonrpc.MaybeExecuted: maybeExecuted, jsonrpc.Rejected: rejected,
		}[failed.Delivery]
	}
	said, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return wrong
	}
	var data struct{ Type, Executed string }
	switch err := json.Unmarshal(said.Data, &data); {
	case err == nil && data.Executed == "no":
		return notSent
	case err == nil && data.Executed == "maybe":
		return maybeExecuted
	case said.Code == jsonrpc.InvalidParams && strings.Contains(said.Message, "unknown tool"):
		return refused // a bridge that has just been started does not know what a server has that is not there
	}
	return wrong
}
