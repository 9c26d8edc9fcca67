package soak

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// Idle subscriptions need little memory, and none after they have ended.
func TestIdleSubscriptions(t *testing.T) {
	count := scaled(t, 500, 10_000)
	target := startTarget(t)
	target.serves()
	before, rss := target.state(), target.rss()

	subscribers := make([]*raw, count)
	inParallel(count, 32, func(i int) {
		c := dialRaw(t, target.addr)
		subscribers[i] = c
		header, body := modern(i+1, mcp.MethodSubscriptionsListen, "", `"notifications":{"toolsListChanged":true}`)
		c.send("POST", "/mcp", header, body)
		c.acknowledged()
	})
	during := target.state()
	perStream := (target.rss() - rss) / int64(count)
	t.Logf("%d subscriptions take %.1f MiB, %d bytes each; %+v", count, mib(target.rss()-rss), perStream, during)
	if during.Descriptors != 0 && during.Descriptors < count {
		t.Errorf("%d descriptors are open, want %d and some", during.Descriptors, count)
	}
	atMost(t, "the server", target.rss(), rss+max(40<<20, int64(count)*(360<<20)/10_000)) // stacks of 16 KiB
	target.serves()

	for _, c := range subscribers {
		c.hangUp()
	}
	target.returns(before, during.Goroutines)
	target.serves()
}

// acknowledged reads the first event of a subscription.
func (c *raw) acknowledged() {
	c.Helper()
	resp := c.response()
	lines := bufio.NewReaderSize(resp.Body, 16)
	var event bytes.Buffer
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			c.Errorf("the subscription ended with %v, after %.300s", err, &event)
			return
		}
		if event.WriteString(line); strings.TrimSpace(line) == "" && strings.Contains(event.String(), "data:") {
			break
		}
	}
	if !strings.Contains(event.String(), "notifications/subscriptions/acknowledged") {
		c.Errorf("the first event is %.300s", &event)
	}
	c.in = nil // frees the buffer
}

// inParallel calls a function for each number below n, with several workers.
func inParallel(n, workers int, do func(i int)) {
	numbers := make(chan int)
	var all sync.WaitGroup
	for range min(n, workers) {
		all.Go(func() {
			for i := range numbers {
				do(i)
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	all.Wait()
}

// Clients that connect, call and disconnect leave no memory in use.
func TestChurn(t *testing.T) {
	for name, visit := range map[string]func(c *raw, nonce string){
		"modern": func(c *raw, nonce string) { c.callsEcho(nonce) },
		"legacy": visitLegacy,
	} {
		t.Run(name, func(t *testing.T) {
			count := scaled(t, 600, 60_000)
			target := startTarget(t)
			visits := func(from, to int) {
				inParallel(to-from, 8, func(i int) {
					c := dialRaw(t, target.addr)
					defer c.hangUp()
					visit(c, fmt.Sprint("nonce ", from+i))
				})
			}
			visits(0, count/6)
			before := target.await("goroutines end", func(s state) bool { return s.Goroutines < 50 })
			rss := target.rss()
			visits(count/6, count)
			target.returns(before, 0)
			after := target.state()
			grown := after.Heap - before.Heap
			t.Logf("%d visits have left %d bytes of heap, and %.1f MiB of %.1f MiB", count, grown, mib(target.rss()-rss), mib(rss))
			const perVisit = 20
			if limit := max(1<<20, int64(count)*perVisit); grown > limit {
				t.Errorf("the heap has grown by %d bytes, want at most %d", grown, limit)
			}
			target.serves()
		})
	}
}

func visitLegacy(c *raw, nonce string) {
	header := c.open()
	resp, text := c.answer("POST", "/mcp", header, legacyCall(1, "echo", nonceJSON(nonce)))
	c.echoed(resp, text, nonce)
	if resp, text := c.answer("DELETE", "/mcp", header, ""); resp.StatusCode/100 != 2 {
		c.Errorf("DELETE: %s\n%.300s", resp.Status, text)
	}
}

// floods are ways to request a lot of data.
var floods = map[string]func(c *raw, flood string){
	"modern": func(c *raw, flood string) {
		header, body := modernCall(1, "flood", flood)
		c.send("POST", "/mcp", header, body)
	},
	"legacy": func(c *raw, flood string) {
		c.send("POST", "/mcp", c.open(), legacyCall(1, "flood", flood))
	},
	"sse": func(c *raw, flood string) {
		c.send("GET", "/sse", "Accept: text/event-stream\r\n", "")
		resp := c.response()
		head := make([]byte, len("event: endpoint\ndata: /sse?sessionId=")+100)
		n, err := io.ReadAtLeast(resp.Body, head, len("event: endpoint\ndata: /sse?sessionId=x\n\n"))
		if err != nil {
			c.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(head[:n]), "data: ")
		endpoint, _, _ := strings.Cut(rest, "\n")
		post := dialRaw(c, c.RemoteAddr().String())
		defer post.Close()
		for _, message := range []string{legacyHello, legacyCall(1, "flood", flood)} {
			if resp, text := post.answer("POST", endpoint, jsonHeader, message); resp.StatusCode != http.StatusAccepted {
				c.Fatalf("%s\n%.300s", resp.Status, text)
			}
		}
	},
	"ws": func(c *raw, flood string) {
		if _, err := io.WriteString(c, wsHandshake); err != nil {
			c.Fatal(err)
		}
		c.response()
		for _, message := range []string{legacyHello, legacyCall(1, "flood", flood)} {
			if _, err := c.Write(append(frameHeader(wsText|wsLast, uint64(len(message)), true), message...)); err != nil {
				c.Fatal(err)
			}
		}
	},
}

// Clients that do not read their responses do not delay others. The server bounds the
// memory for them and disconnects them.
func TestStalledReaders(t *testing.T) {
	for name, begin := range floods {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each starts its own server and mostly waits
			count, calls := scaled(t, 8, 50), scaled(t, 100, 2000)
			const size, events = 16 << 10, 2 << 10 // 32 MiB each
			target := startTarget(t)
			normal := dialRaw(t, target.addr)
			defer normal.Close()
			normal.latencies("alone", calls)
			before := target.state()

			stalled := make([]*raw, count)
			cost := target.costs(func() {
				for i := range stalled {
					c := dialStalled(t, target.addr)
					stalled[i] = c
					begin(c, fmt.Sprintf(`{"count":%d,"size":%d}`, events, size))
				}
				target.await("floods begin", func(s state) bool { return s.Flooded == int64(count) })
				normal.latencies(fmt.Sprintf("beside %d that do not read", count), calls)
				target.await("the server gives up on who does not read", func(s state) bool { return s.Flooding == 0 })
			})
			// For each client, 1 MiB may be queued and 1 MiB may be in transit. The rest is
			// garbage, of which a busy machine collects less. Without a bound it is 32 MiB.
			const each = 10 << 20
			atMost(t, "the server grew by", cost, int64(count)*each+2*spare)
			normal.latencies("afterwards", calls)
			for _, c := range stalled {
				c.hangUp()
			}
			if name != "legacy" { // its sessions outlive their connections
				target.returns(before, count)
			}
		})
	}
}

// dialStalled opens a connection with a small receive buffer.
func dialStalled(t testing.TB, addr string) *raw {
	t.Helper()
	c := dialRaw(t, addr)
	if err := c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	return c
}

// latencies logs how long calls take, and checks only that they are answered.
func (c *raw) latencies(when string, calls int) {
	c.Helper()
	took := make([]time.Duration, calls)
	for i := range took {
		_ = c.SetDeadline(time.Now().Add(timeout))
		began := time.Now()
		c.callsEcho(fmt.Sprint("call ", i))
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	c.Logf("%s: median %v, p99 %v, longest %v", when, took[calls/2], took[calls*99/100], took[calls-1])
}
