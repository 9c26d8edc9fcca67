package soak

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// Subscriptions that wait for changes cost little, and nothing once they are over.
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
	atMost(t, "the server", target.rss(), rss+max(32<<20, int64(count)*(300<<20)/10_000))
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
	c.in = nil // nothing more is read from so many
}

// inParallel runs something for each number below n, many at a time.
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

// Clients that come, call and go leave nothing.
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
