package streamable_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Frame types and flags that only floods use. RFC 9113, section 6.
const (
	framePriority     = 2
	framePing         = 6
	frameWindowUpdate = 8
	flagAck           = 1
	flagPadded        = 8
)

// A flood writes the frames of one connection, and returns how many it has written. session is the id of a session of
// 2025-11-25.
type flood func(r *rawHTTP2, address, session string, frames int) (written int)

// repeat returns a flood of frames that differ by their number. It ends early when the server has closed the connection.
func repeat(of func(n int, address, session string) []byte) flood {
	return func(r *rawHTTP2, address, session string, frames int) (written int) {
		for written < frames {
			var some []byte
			for range 50 {
				some = append(some, of(written, address, session)...)
				written++
			}
			if !r.write(some) {
				break
			}
		}
		return written
	}
}

// stream returns the id of the stream with a number.
func stream(n int) uint32 { return 2*uint32(n) + 1 }

// setting returns the payload of a SETTINGS frame.
func setting(id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), value)
}

// opened returns the frame that opens a stream for a call, without the end of its header if flags is 0.
func opened(n int, flags byte, address string, more ...string) []byte {
	head := append([]string{
		":method", "POST", ":scheme", "https", ":authority", address, ":path", "/mcp", "content-type", "application/json",
		"mcp-protocol-version", "2026-07-28", "mcp-method", "tools/call", "mcp-name", "wait",
	}, more...)
	return frame(frameHeaders, flags, stream(n), fields(head...))
}

func reset(n int) []byte { return frame(frameReset, 0, stream(n), []byte{0, 0, 0, 8}) }

// bomb is a header that puts a long field into the table of the connection and repeats it. RFC 7541, section 6.
func bomb(address string) []byte {
	block := fields(":method", "POST", ":scheme", "https", ":authority", address, ":path", "/mcp")
	block = append(block, 0x40, 1, 'x', 127) // with indexing
	block = binary.AppendUvarint(block, 3000-127)
	block = append(block, strings.Repeat("x", 3000)...)
	for range 3000 {
		block = append(block, 0x80|62) // the newest field of the table
	}
	return block
}

var floods = map[string]flood{
	"SETTINGS":              repeat(func(n int, _, _ string) []byte { return frame(frameSettings, 0, 0, setting(4, uint32(n))) }),
	"empty SETTINGS":        repeat(func(int, string, string) []byte { return frame(frameSettings, 0, 0, nil) }),
	"SETTINGS of the table": repeat(func(n int, _, _ string) []byte { return frame(frameSettings, 0, 0, setting(1, uint32(n%2)<<30)) }),
	"acknowledged SETTINGS": repeat(func(int, string, string) []byte { return frame(frameSettings, flagAck, 0, nil) }),
	"PING":                  repeat(func(int, string, string) []byte { return frame(framePing, 0, 0, make([]byte, 8)) }),
	"window updates":        repeat(func(int, string, string) []byte { return frame(frameWindowUpdate, 0, 0, []byte{0, 0, 0, 1}) }),
	"large window updates": repeat(func(int, string, string) []byte {
		return frame(frameWindowUpdate, 0, 0, []byte{0x7f, 0xff, 0xff, 0xff})
	}),
	"window updates of nothing": repeat(func(int, string, string) []byte { return frame(frameWindowUpdate, 0, 0, make([]byte, 4)) }),
	"priorities":                repeat(func(n int, _, _ string) []byte { return frame(framePriority, 0, stream(n), []byte{0, 0, 0, 0, 1}) }),
	"unknown frames":            repeat(func(int, string, string) []byte { return frame(200, 0, 0, make([]byte, 1000)) }),
	"resets of idle streams":    repeat(func(n int, _, _ string) []byte { return reset(n) }),
	"half-open streams":         repeat(func(n int, address, _ string) []byte { return opened(n, flagEndHeaders, address) }),
	"half-open streams, reset": repeat(func(n int, address, _ string) []byte {
		return append(opened(n, flagEndHeaders, address), reset(n)...)
	}),
	"calls, reset": repeat(func(n int, address, _ string) []byte { return append(post(stream(n), address, "wait"), reset(n)...) }),
	"calls, ended by a window of 0": repeat(func(n int, address, _ string) []byte {
		return append(post(stream(n), address, "wait"), frame(frameWindowUpdate, 0, stream(n), make([]byte, 4))...)
	}),
	"calls, ended by their own dependency": repeat(func(n int, address, _ string) []byte {
		return append(post(stream(n), address, "wait"), frame(framePriority, 0, stream(n), binary.BigEndian.AppendUint32(nil, stream(n))[:4])...)
	}),
	"calls of a session, reset": repeat(func(n int, address, session string) []byte {
		head := []string{
			":method", "POST", ":scheme", "https", ":authority", address, ":path", "/mcp", "content-type", "application/json",
			"accept", "application/json, text/event-stream", "mcp-protocol-version", "2025-11-25", "mcp-session-id", session,
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait","arguments":{}}}`, n)
		frames := frame(frameHeaders, flagEndHeaders, stream(n), fields(head...))
		return append(append(frames, frame(frameData, flagEndStream, stream(n), []byte(body))...), reset(n)...)
	}),
	"streams of a session, reset": repeat(func(n int, address, session string) []byte {
		head := []string{
			":method", "GET", ":scheme", "https", ":authority", address, ":path", "/mcp",
			"accept", "text/event-stream", "mcp-protocol-version", "2025-11-25", "mcp-session-id", session,
		}
		return append(frame(frameHeaders, flagEndHeaders|flagEndStream, stream(n), fields(head...)), reset(n)...)
	}),
	"empty data": func(r *rawHTTP2, address, _ string, frames int) int {
		r.write(opened(0, flagEndHeaders, address))
		return repeat(func(int, string, string) []byte { return frame(frameData, 0, stream(0), nil) })(r, address, "", frames)
	},
	"padding without data": func(r *rawHTTP2, address, _ string, frames int) int {
		r.write(opened(0, flagEndHeaders, address))
		padding := append([]byte{255}, make([]byte, 255)...)
		return repeat(func(int, string, string) []byte { return frame(frameData, flagPadded, stream(0), padding) })(r, address, "", frames)
	},
	"empty continuations": func(r *rawHTTP2, address, _ string, frames int) int {
		r.write(opened(0, 0, address))
		return repeat(func(int, string, string) []byte { return frame(frameContinuation, 0, stream(0), nil) })(r, address, "", frames)
	},
	"short continuations": func(r *rawHTTP2, address, _ string, frames int) int {
		r.write(opened(0, 0, address))
		return repeat(func(int, string, string) []byte { return frame(frameContinuation, 0, stream(0), fields("x", "y")) })(r, address, "", frames)
	},
	"continuations after a reset": func(r *rawHTTP2, address, _ string, frames int) int {
		r.write(append(opened(0, flagEndHeaders, address), reset(0)...))
		return repeat(func(int, string, string) []byte { return frame(frameContinuation, 0, stream(0), fields("x", "y")) })(r, address, "", frames)
	},
	"bombs of header fields": repeat(func(n int, address, _ string) []byte {
		return frame(frameHeaders, flagEndHeaders|flagEndStream, stream(n), bomb(address))
	}),
	"calls whose results are not read": func(r *rawHTTP2, address, _ string, frames int) int {
		r.write(frame(frameSettings, 0, 0, setting(4, 0)))
		return repeat(func(n int, address, _ string) []byte { return post(stream(n), address, "large") })(r, address, "", min(frames, 500))
	},
}

// While clients flood their connections of HTTP/2, the memory and the goroutines of the server are bounded, calls of others
// are answered, and at most the allowed calls run. When the connections have ended, nothing is left of them.
func TestHTTP2Floods(t *testing.T) {
	const connections = 3
	for name, run := range floods {
		t.Run(name, func(t *testing.T) {
			var running, most, begun atomic.Int64
			s := newServer()
			server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
				begun.Add(1)
				for n := running.Add(1); ; {
					before := most.Load()
					if n <= before || most.CompareAndSwap(before, n) {
						break
					}
				}
				defer running.Add(-1)
				<-ctx.Done()
				return "", ctx.Err()
			})
			server.AddTool(s, server.Tool{Name: "large"}, func(context.Context, *server.Request, struct{}) (string, error) {
				return strings.Repeat("x", 100<<10), nil
			})
			address, web := startTLS(t, s, streamable.ServeOptions{})
			session := openSession(t, address, web)
			honest, err := client.Connect(t.Context(), streamable.Dial("https://"+address+"/mcp", &streamable.DialOptions{HTTPClient: web}), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer honest.Close()
			goroutines, heap := runtime.NumGoroutine(), heapInUse()
			raws := make([]*rawHTTP2, connections)
			written := make(chan int, connections)
			for i := range raws {
				raws[i] = dialHTTP2(t, address, web)
				go func() { written <- run(raws[i], address, session, floodFrames) }()
			}
			sent, slowest, peak := 0, time.Duration(0), uint64(0)
			for left := connections; left > 0; {
				select {
				case n := <-written:
					sent += n
					left--
				default:
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				began := time.Now()
				if _, err := honest.CallTool(ctx, "sum", sumIn{1, 2}, nil); err != nil {
					t.Fatalf("another client: %v", err)
				}
				slowest = max(slowest, time.Since(began))
				cancel()
				peak = max(peak, heapInUse())
			}
			during := runtime.NumGoroutine()
			calls := begun.Load()
			for _, raw := range raws {
				raw.Close()
				<-raw.ended
			}
			t.Logf("%d frames; a call of another took at most %v; %d calls begun, at most %d at a time; %d goroutines more; %d KiB more",
				sent, slowest.Round(time.Microsecond), calls, most.Load(), during-goroutines, int64(peak-min(peak, heap))>>10)
			if most.Load() > 1024 {
				t.Errorf("%d calls ran at the same time", most.Load())
			}
			if during-goroutines > 5000 {
				t.Errorf("%d goroutines more", during-goroutines)
			}
			if peak > heap+96<<20 {
				t.Errorf("%d MiB more", (peak-heap)>>20)
			}
			if strings.Contains(name, "session") {
				endSession(t, address, session, web) // its calls go on without their streams
			}
			for deadline := time.Now().Add(patience); running.Load() > 0 || runtime.NumGoroutine() > goroutines+5; {
				if time.Now().After(deadline) {
					t.Fatalf("%d calls and %d goroutines are left", running.Load(), runtime.NumGoroutine()-goroutines)
				}
				<-time.After(10 * time.Millisecond)
			}
		})
	}
}

func heapInUse() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse + stats.StackInuse
}

// openSession opens a session of 2025-11-25, and endSession ends it.
func openSession(t *testing.T, address string, web *http.Client) (id string) {
	t.Helper()
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	id = sessionRequest(t, http.MethodPost, address, "", hello, web).Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal("no session was opened")
	}
	sessionRequest(t, http.MethodPost, address, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, web)
	return id
}

func endSession(t *testing.T, address, id string, web *http.Client) {
	t.Helper()
	sessionRequest(t, http.MethodDelete, address, id, "", web)
}

func sessionRequest(t *testing.T, method, address, id, body string, web *http.Client) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if id != "" {
		req.Header.Set("Mcp-Session-Id", id)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	res, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res
}
