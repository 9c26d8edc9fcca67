package soak

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// floods are ways to be sent a lot.
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
			if _, err := c.Write(append(frameHeader(wsText|wsLast, uint64(len(message))), message...)); err != nil {
				c.Fatal(err)
			}
		}
	},
}

// Clients that do not read what they have asked for neither delay others nor pile it
// up in the server, which gets rid of them.
func TestStalledReaders(t *testing.T) {
	for name, begin := range floods {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has a server, and waits most of the time
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
			// One MiB may wait for each and another be on its way, with as much that is
			// not collected yet.
			const each = 6 << 20
			atMost(t, "the server grew by", cost, int64(count)*each+2*spare)
			normal.latencies("afterwards", calls)
			for _, c := range stalled {
				c.hangUp()
			}
			if name != "legacy" { // whose sessions outlive their connections
				target.returns(before, count)
			}
		})
	}
}

// dialStalled takes little and reads nothing unasked.
func dialStalled(t testing.TB, addr string) *raw {
	t.Helper()
	c := dialRaw(t, addr)
	if err := c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	return c
}

// latencies prints how long calls take; that they are answered is all that is asked.
func (c *raw) latencies(when string, calls int) {
	c.Helper()
	took := make([]time.Duration, calls)
	for i := range took {
		_ = c.SetDeadline(time.Now().Add(patience))
		began := time.Now()
		c.callsEcho(fmt.Sprint("call ", i))
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	c.Logf("%s: median %v, p99 %v, longest %v", when, took[calls/2], took[calls*99/100], took[calls-1])
}
