package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store/nats"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// envTest makes a replica serve the tools of benchmarks, and poison.
const envTest = "REPLICAS_TEST_TOOLS"

// runTestReplica serves two tools that return the time, and poison, until the standard input ends.
func runTestReplica() error {
	ctx, cancel := untilInputEnds()
	defer cancel()
	shared, err := openReplicaStore(ctx)
	if err != nil {
		return err
	}
	defer shared.Close()
	s := server.New(mcp.Implementation{Name: "clock", Version: "1.0.0"}, &server.Options{Store: shared, Logger: quiet})
	now := func(context.Context, *server.Request, struct{}) (string, error) {
		return strconv.FormatInt(time.Now().UnixNano(), 10), nil
	}
	server.AddTool(s, server.Tool{Name: "now"}, now)
	server.AddTool(s, server.Tool{Name: "task", Task: server.TaskRequired}, now)
	server.AddTool(s, server.Tool{Name: "poison", Task: server.TaskRequired, MaxRestarts: poisonRestarts}, poison)
	return streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
		Options:  streamable.Options{Logger: quiet},
		OnListen: func(address net.Addr) { fmt.Println(address) },
	})
}

// storeOf returns the URL of a store, and the token of an embedded NATS server.
func storeOf(b testing.TB, engine engine) (url, token string) {
	if url := engine.url(b); url != "" {
		return url, ""
	}
	token = rand.Text()
	embedded, err := nats.Embedded(b.TempDir(), &nats.Options{Listen: "127.0.0.1:0", Token: token})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { embedded.Close() })
	return embedded.URL(), token
}

// startFleet starts replicas with a balancer, and returns them with clients of the balancer.
func startFleet(b testing.TB, replicas int, url, token string) (*fleet, *load) {
	counts := newLedger()
	balancer := newBalancer(replicas, counts)
	front := httptest.NewServer(balancer)
	b.Cleanup(front.Close)
	ledgerServer := httptest.NewServer(counts)
	b.Cleanup(ledgerServer.Close)
	f := newFleet(replicas, balancer, counts, append(os.Environ(), envStore+"="+url, envToken+"="+token, envLedger+"="+ledgerServer.URL,
		envLease+"=2s", envTest+"=1"))
	b.Cleanup(f.close)
	if err := f.start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return f, newLoad(front.URL, counts)
}

func connectTo(b testing.TB, l *load, era client.Era) *client.Session {
	session, err := l.connect(b.Context(), era, "client", user, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { session.Close() })
	return session
}

// BenchmarkQueuedTask measures the time from the call of a tool that runs as a task to the start of its function, at three
// replicas without other work. It includes the request to the balancer.
func BenchmarkQueuedTask(b *testing.B) {
	for _, engine := range engines() {
		b.Run(engine.name, func(b *testing.B) {
			url, token := storeOf(b, engine)
			_, l := startFleet(b, 3, url, token)
			session := connectTo(b, l, client.Modern)
			var started, created []time.Duration
			run := func() {
				began := time.Now()
				var answered time.Duration
				text, err := client.CallAs[string](b.Context(), session, "task", nil, &client.CallOptions{
					OnTask: func(*mcp.Task) { answered = time.Since(began) },
				})
				if err != nil {
					b.Fatal(err)
				}
				at, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					b.Fatal(err)
				}
				started, created = append(started, time.Unix(0, at).Sub(began)), append(created, answered)
			}
			for range 10 { // the first tasks at each replica
				run()
			}
			started, created = nil, nil
			for b.Loop() {
				run()
			}
			for name, durations := range map[string][]time.Duration{"started": started, "created": created} {
				slices.Sort(durations)
				for _, percent := range []int{50, 99} {
					b.ReportMetric(durations[(len(durations)-1)*percent/100].Seconds()*1000, fmt.Sprintf("ms-%s-p%d", name, percent))
				}
			}
		})
	}
}

// BenchmarkLegacySessions compares calls in sessions of version 2025-11-25 at three replicas with calls at one, each
// behind the same balancer, which sends every request to the next replica. One operation is a call at each. The ratios
// compare one replica with three: 1 means that three replicas are as fast, and 0.5 that a call costs twice as much.
func BenchmarkLegacySessions(b *testing.B) {
	const sessions = 4
	for _, engine := range engines() {
		b.Run(engine.name, func(b *testing.B) {
			url, token := storeOf(b, engine)
			type side struct {
				fleet     *fleet
				sessions  [sessions]*client.Session
				wall, cpu time.Duration
			}
			var sides [2]side
			for i, replicas := range []int{1, 3} {
				f, l := startFleet(b, replicas, url, token)
				sides[i].fleet = f
				for n := range sessions {
					sides[i].sessions[n] = connectTo(b, l, client.Legacy)
				}
			}
			const round = 50 // calls in each session
			run := func(s *side, calls int) {
				wall, cpu := time.Now(), cpuTime(b, s.fleet)
				var running sync.WaitGroup
				for _, session := range s.sessions {
					running.Go(func() {
						for range calls {
							if _, err := client.CallAs[string](b.Context(), session, "now", nil, nil); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				running.Wait()
				s.wall += time.Since(wall)
				s.cpu += cpuTime(b, s.fleet) - cpu
			}
			for i := range sides {
				run(&sides[i], round) // each session is known to each replica
				sides[i].wall, sides[i].cpu = 0, 0
			}
			b.ResetTimer()
			for left := b.N; left > 0; left -= round * sessions {
				for i := range sides {
					run(&sides[i], min(round, (left+sessions-1)/sessions))
				}
			}
			one, three := &sides[0], &sides[1]
			calls := float64(max(b.N, sessions))
			b.ReportMetric(calls/one.wall.Seconds(), "calls/s-1")
			b.ReportMetric(calls/three.wall.Seconds(), "calls/s-3")
			b.ReportMetric(one.wall.Seconds()/three.wall.Seconds(), "wall-ratio")
			if three.cpu > 0 {
				b.ReportMetric(one.cpu.Seconds()/three.cpu.Seconds(), "cpu-ratio")
				b.ReportMetric(three.cpu.Seconds()*1e6/calls, "cpu-µs/call-3")
			}
		})
	}
}

// cpuTime returns the CPU time of the processes of a fleet, or 0 if the system does not tell it.
func cpuTime(b *testing.B, f *fleet) (sum time.Duration) {
	for _, r := range f.replicas {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.process.Process.Pid))
		if err != nil {
			return 0
		}
		_, fields, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(fields)[11:13] { // utime and stime, in hundredths of a second
			ticks, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum
}
