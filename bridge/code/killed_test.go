package code_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A keeper has what survives the kills: the store, and the ledger of what tools have done. Replicas, which are processes, use it
// over a socket. It kills a replica before or after one of its requests.
type keeper struct {
	store store.Store

	mu      sync.Mutex
	done    map[string]int
	left    int  // requests until the kill; negative for none
	after   bool // the request is executed before the kill
	replica *os.Process
}

// plan makes the replica end at a request.
func (k *keeper) plan(replica *os.Process, requests int, after bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.replica, k.left, k.after = replica, requests, after
}

// step executes a request, unless the replica is killed before it.
func (k *keeper) step(execute func()) error {
	k.mu.Lock()
	kill, replica := k.left == 0, k.replica
	before := kill && !k.after
	k.left--
	k.mu.Unlock()
	if kill {
		defer func() { _ = replica.Kill() }() // before the answer; SIGKILL
	}
	if before {
		return errDead
	}
	execute()
	return nil
}

// A KeyValue is the request or the answer of an operation of the store.
type KeyValue struct {
	Key      string
	Value    []byte
	Revision uint64
	TTL      time.Duration
	Failure  string // of the answer
}

func (k *keeper) answer(in, out *KeyValue, operation func(ctx context.Context) (store.Item, error)) error {
	return k.step(func() {
		item, err := operation(context.Background())
		out.Value, out.Revision = item.Value, item.Revision
		if err != nil {
			out.Failure = err.Error()
		}
	})
}

func (k *keeper) Get(in, out *KeyValue) error {
	return k.answer(in, out, func(ctx context.Context) (store.Item, error) { return k.store.Get(ctx, in.Key) })
}

func (k *keeper) Create(in, out *KeyValue) error {
	return k.answer(in, out, func(ctx context.Context) (item store.Item, err error) {
		item.Revision, err = k.store.Create(ctx, in.Key, in.Value, in.TTL)
		return item, err
	})
}

func (k *keeper) Update(in, out *KeyValue) error {
	return k.answer(in, out, func(ctx context.Context) (item store.Item, err error) {
		item.Revision, err = k.store.Update(ctx, in.Key, in.Value, in.Revision, in.TTL)
		return item, err
	})
}

func (k *keeper) Delete(in, out *KeyValue) error {
	return k.answer(in, out, func(ctx context.Context) (store.Item, error) {
		return store.Item{}, k.store.Delete(ctx, in.Key, in.Revision)
	})
}

// Do records that a tool does something.
func (k *keeper) Do(what string, _ *bool) error {
	return k.step(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.done[what]++
	})
}

// A remoteStore is the store of a keeper, for a replica. It has what scripts use.
type remoteStore struct {
	store.Store // nil
	keeper      *rpc.Client
}

func (s *remoteStore) call(method string, in KeyValue) (KeyValue, error) {
	var out KeyValue
	if err := s.keeper.Call("keeper."+method, &in, &out); err != nil {
		return out, err
	}
	for _, known := range []error{store.ErrNotFound, store.ErrExists, store.ErrConflict} {
		if strings.Contains(out.Failure, known.Error()) {
			return out, known
		}
	}
	if out.Failure != "" {
		return out, errors.New(out.Failure)
	}
	return out, nil
}

func (s *remoteStore) Get(_ context.Context, key string) (store.Item, error) {
	out, err := s.call("Get", KeyValue{Key: key})
	return store.Item{Key: key, Value: out.Value, Revision: out.Revision}, err
}

func (s *remoteStore) Create(_ context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	out, err := s.call("Create", KeyValue{Key: key, Value: value, TTL: ttl})
	return out.Revision, err
}

func (s *remoteStore) Update(_ context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	out, err := s.call("Update", KeyValue{Key: key, Value: value, Revision: revision, TTL: ttl})
	return out.Revision, err
}

func (s *remoteStore) Delete(_ context.Context, key string, revision uint64) error {
	_, err := s.call("Delete", KeyValue{Key: key, Revision: revision})
	return err
}

// A runOf is one run of a script: what the client of the script sends to a replica, and gets.
type runOf struct {
	Script          string
	ID              string
	Stored, Answers map[string]json.RawMessage
	Asks            map[string]mcp.InputRequest // of the answer
	Result          *result                     // of the answer
	Failure         string                      // of the answer
}

// serveReplica is the main function of a replica.
func serveReplica(t *testing.T) {
	keeper, err := rpc.Dial("unix", os.Getenv("DOVETAIL_KEEPER"))
	if err != nil {
		t.Fatal(err)
	}
	defer keeper.Close()
	e, err := code.NewEngine(&code.EngineOptions{CacheDir: os.Getenv("DOVETAIL_CACHE")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	tools := newSlowTools(doer(func(what string) error { return keeper.Call("keeper.Do", what, new(bool)) }))
	scripts, err := code.New(tools.Provider(), &code.Options{Engine: e, Store: &remoteStore{keeper: keeper}, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{server: server.New(mcp.Implementation{Name: "scripts"}, nil)}
	if err := r.server.Mount(scripts, nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.server.Shutdown(context.Background()) }() // the calls have ended
	lines := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var run runOf
		if err := lines.Decode(&run); err != nil {
			return
		}
		x := &exchange{id: run.ID, stored: run.Stored, answers: run.Answers}
		got, err := r.run(context.Background(), run.Script, x)
		run.Stored, run.Result = x.stored, got
		if asked, asks := mcp.AsInputRequired(err); asks {
			run.Asks = asked.Requests
		} else if err != nil {
			run.Failure = err.Error()
		}
		line, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("answer %s\n", line)
	}
}

// A process is a replica.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

func startReplica(t *testing.T, socket, cache string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestScriptsSurviveKills$", "-test.count=1")
	cmd.Env = append(os.Environ(), "DOVETAIL_KEEPER="+socket, "DOVETAIL_CACHE="+cache)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, in: in, answers: bufio.NewScanner(out)}
	p.answers.Buffer(nil, 1<<20)
	return p
}

// run makes a run. ok is false if the replica was killed.
func (p *process) run(t *testing.T, run *runOf) (ok bool) {
	t.Helper()
	line, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", line); err != nil {
		return false
	}
	for p.answers.Scan() {
		if answer, found := strings.CutPrefix(p.answers.Text(), "answer "); found {
			*run = runOf{}
			if err := json.Unmarshal([]byte(answer), run); err != nil {
				t.Fatal(err)
			}
			return true
		}
	}
	return false
}

func (p *process) end() {
	_ = p.in.Close()
	_ = p.cmd.Wait() // it may have been killed
}

// TestScriptsSurviveKills: replicas are processes that are killed before or after each of the requests to the store and by the
// tools. The client sends the state that it has to a new replica. No call that must not run twice is executed twice, and each
// script ends clearly.
func TestScriptsSurviveKills(t *testing.T) {
	if os.Getenv("DOVETAIL_KEEPER") != "" {
		serveReplica(t)
		return
	}
	count := 8
	if n, err := strconv.Atoi(os.Getenv("DOVETAIL_SCRIPT_KILLS")); err == nil {
		count = n
	}
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	k := &keeper{store: memory, done: make(map[string]int), left: -1}
	dir := t.TempDir()
	socket, cache := filepath.Join(dir, "keeper"), filepath.Join(dir, "cache")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	requests := rpc.NewServer()
	if err := requests.RegisterName("keeper", k); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer listener.Close()
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { requests.ServeConn(connection) })
		}
	})
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	var kills, ended, unknown, refused int
	p := startReplica(t, socket, cache)
	defer func() { p.end() }()
	for i := range count {
		w := &writer{Rand: random, id: fmt.Sprint("k", i)}
		script := "return [await " + w.callOf("ask", "") + ", ..." + w.expression(0) + ", ..." + w.expression(0) + "]"
		run := runOf{Script: script, ID: fmt.Sprint("call ", i), Stored: map[string]json.RawMessage{}, Answers: map[string]json.RawMessage{}}
		for attempt := range 100 {
			sent := run
			switch attempt {
			case 0: // the client has nothing yet that it could send again
				k.plan(p.cmd.Process, -1, false)
			case 1: // each run makes three requests
				k.plan(p.cmd.Process, i%3, i%2 == 0)
			default:
				k.plan(p.cmd.Process, random.IntN(36), random.IntN(2) == 0)
			}
			if !p.run(t, &run) {
				kills++
				p.end()
				p = startReplica(t, socket, cache)
				run = sent
				continue
			}
			if len(run.Asks) > 0 {
				answers := sent.Answers
				for key := range run.Asks {
					answers[key] = json.RawMessage(`{"action":"accept","content":{"value":"yes"}}`)
				}
				run = runOf{Script: script, ID: sent.ID, Stored: run.Stored, Answers: answers}
				continue
			}
			switch {
			case run.Failure != "":
				t.Errorf("%s: %s", script, run.Failure)
			case !run.Result.isError():
				ended++
			case strings.Contains(run.Result.Error, "UnknownOutcome"):
				unknown++
			case strings.Contains(run.Result.Error, "cannot be continued"):
				refused++ // it had ended, and the replica was killed before it answered
			default:
				t.Errorf("%s: %s", script, run.Result.Error)
			}
			break
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for what, times := range k.done {
		if times > 1 {
			t.Errorf("%s was executed %d times", what, times)
		}
	}
	t.Logf("%d scripts: %d kills, %d ended, %d with an unknown outcome, %d had ended; %d calls", count, kills, ended, unknown, refused, len(k.done))
	if kills < count || ended+unknown+refused < count {
		t.Errorf("%d replicas were killed, and %d scripts have ended", kills, ended+unknown+refused)
	}
}
