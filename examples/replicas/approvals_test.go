package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// envApprovals is the token of the approver. A replica that has it asks before each call.
const envApprovals = "REPLICAS_APPROVALS"

// runApprovalReplica serves a tool that is called after an approval, until the standard input ends.
func runApprovalReplica() error {
	ctx, cancel := untilInputEnds()
	defer cancel()
	shared, err := openStore(ctx, os.Getenv(envStore), store.Limits{})
	if err != nil {
		return err
	}
	defer shared.Close()
	rules, err := policy.Parse([]byte(`{"rules":[{"effect":"ask"}]}`))
	if err != nil {
		return err
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	approver, err := channel.New(&channel.Options{Store: shared, Token: os.Getenv(envApprovals), ReconnectTimeout: patience, Logger: quiet})
	if err != nil {
		return err
	}
	replica := strconv.Itoa(os.Getpid())
	s := server.New(mcp.Implementation{Name: "orders", Version: "1.0.0"}, &server.Options{
		Store: shared, Logger: quiet,
		Guards: []mcp.Guard{approval.Guard(compiled, approver, &approval.Options{Store: shared, Replica: replica, Logger: quiet})},
	})
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, _ *server.Request, in callIn) (string, error) {
		if err := execute(ctx, in.Call); err != nil {
			return "", err
		}
		return "done " + in.Call, nil
	})
	return streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
		Drain: drain, Other: approver, OnShutdown: approver.Close,
		OnListen: func(address net.Addr) { fmt.Println(address) },
	})
}

// approvals is the ledger's view of an approver, and of the calls that need an approval.
type approvals struct {
	*ledger

	mu       sync.Mutex
	approved map[string]int  // answers that were sent, by call
	shown    map[string]bool // ids of the requests for the pending call
	refused  int
	release  chan struct{} // closed when the pending call is to be approved
}

const pendingCall = "pending"

// approves reports what the approver decides about a call: one in five is refused.
func approves(call string) bool {
	h := fnv.New32()
	h.Write([]byte(call))
	return h.Sum32()%5 != 0 || call == pendingCall
}

// ServeHTTP executes a call. It must have been approved before.
func (a *approvals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := strings.TrimPrefix(r.URL.Path, "/")
	a.mu.Lock()
	approved := a.approved[call]
	a.mu.Unlock()
	if approved == 0 {
		a.lose("call %s is executed without an approval", call)
	}
	a.ledger.ServeHTTP(w, r)
}

// decide is the approver's handler.
func (a *approvals) decide(ctx context.Context, p *approval.Prompt) {
	var in callIn
	if err := json.Unmarshal(p.Arguments, &in); err != nil {
		a.lose("a request has the arguments %s", p.Arguments)
		return
	}
	if in.Call == pendingCall {
		a.mu.Lock()
		a.shown[p.ID] = true
		a.mu.Unlock()
		select {
		case <-a.release:
		case <-ctx.Done():
			return
		}
	}
	if !approves(in.Call) {
		_ = p.Reject(ctx, "no") // if it fails, the approver is asked again
		return
	}
	a.mu.Lock()
	a.approved[in.Call]++
	a.mu.Unlock()
	_ = p.Accept(ctx)
}

// call calls the tool until there is an outcome. If again, it repeats what has failed because a replica
// was killed.
func (a *approvals) call(ctx context.Context, connect func() (*client.Session, error), call string, again bool) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := func() error {
			session, err := connect()
			if err != nil {
				return err
			}
			defer session.Close()
			text, err := client.CallAs[string](ctx, session, "order", callIn{call}, nil)
			if err == nil {
				a.answer(call, text, 0)
			}
			return err
		}()
		refusal, isRefused := errors.AsType[*client.ToolError](err)
		failure, incomplete := errors.AsType[*jsonrpc.CallError](err)
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			a.lose("call %s has no outcome: %v", call, err)
			return
		case isRefused && strings.HasPrefix(refusal.Error(), `tool "order": Approval request for order rejected: no`):
			a.mu.Lock()
			a.refused++
			a.mu.Unlock()
			if approves(call) {
				a.lose("call %s is refused: %v", call, err)
			}
			return
		case !again && (!incomplete || failure.Delivery == jsonrpc.MaybeExecuted):
			a.fail(call, began, err)
			return
		}
	}
}

// TestApprovalsWhileReplicasAreKilled kills replicas while calls wait for approvals. No call is executed
// twice, or without the approval of the person, who uses any replica. A request that stays open while
// replicas are killed is decided once.
func TestApprovalsWhileReplicasAreKilled(t *testing.T) {
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			kills := killsOf(t)
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience+time.Duration(2*kills)*2*time.Second)
			defer cancel()
			url, token := storeOf(t, engine)
			a := &approvals{ledger: newLedger(), approved: make(map[string]int), shown: make(map[string]bool), release: make(chan struct{})}
			web := httptest.NewServer(a)
			defer web.Close()
			balancer := newBalancer(3)
			front := httptest.NewServer(balancer)
			defer front.Close()
			secret := rand.Text()
			fleet := &fleet{balancer: balancer, counts: a.ledger, env: append(os.Environ(),
				envStore+"="+url, envToken+"="+token, envLedger+"="+web.URL, envApprovals+"="+secret)}
			defer fleet.stop()
			if err := fleet.start(ctx); err != nil {
				t.Fatal(err)
			}
			person, err := channel.Dial(ctx, front.URL, a.decide, &channel.ClientOptions{Token: secret, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer person.Close()

			clients := &load{url: front.URL + "/mcp", counts: a.ledger}
			connect := func(era client.Era) func() (*client.Session, error) {
				return func() (*client.Session, error) { return clients.connect(ctx, era, nil) }
			}
			var running sync.WaitGroup
			running.Go(func() { a.call(ctx, connect(client.Modern), pendingCall, true) })
			if err := fleet.killSome(ctx, kills, 200*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			close(a.release)
			running.Wait()
			a.mu.Lock()
			requests, approved := len(a.shown), a.approved[pendingCall]
			a.mu.Unlock()
			if executed := a.record(pendingCall).executed; requests != 1 || approved != 1 || executed != 1 {
				t.Errorf("the pending call had %d requests, %d approvals and %d executions", requests, approved, executed)
			}

			stopping := make(chan struct{})
			for worker := range 2 * workers {
				era := []client.Era{client.Modern, client.Legacy}[worker%2]
				running.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stopping:
							return
						default:
							a.call(ctx, connect(era), fmt.Sprintf("%v-%d-%d", era, worker, i), false)
						}
					}
				})
			}
			err = fleet.killSome(ctx, kills, 200*time.Millisecond)
			close(stopping)
			running.Wait()
			if err := errors.Join(err, a.report()); err != nil {
				t.Error(err)
			}
			if a.answers <= a.failures || a.refused == 0 { // kills fail some calls, not most
				t.Errorf("%d calls were answered, and %d refused", a.answers, a.refused)
			}
			t.Logf("%d answered, %d refused, %d failed, %d kills", a.answers, a.refused, a.failures, a.kills)
		})
	}
}
