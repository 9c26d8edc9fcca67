package edge_test

import (
	"bufio"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// One chunk at 1500 bytes a second is faster than 1 KiB a second.
func TestChunkAtAFairRateIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipeServer(t, echoBody)
		start := time.Now()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", limit)
		sending := make(chan struct{})
		go func() {
			defer close(sending)
			for sent := 0; sent < limit; sent += 1500 {
				if sent > 0 {
					<-time.After(time.Second)
				}
				if _, err := conn.Write(make([]byte, min(1500, limit-sent))); err != nil {
					return
				}
			}
			fmt.Fprint(conn, "\r\n0\r\n\r\n")
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d after %v", resp.StatusCode, time.Since(start))
		}
		conn.Close()
		<-sending
	})
}

// A body that comes at once but for its last byte must not hold the connection for
// as long as it would have taken at the slowest rate.
func TestStalledBodyIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipeServer(t, echoBody)
		start := time.Now()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", limit)
		conn.Write(make([]byte, limit-1))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); resp.StatusCode != http.StatusRequestTimeout || took > 30*time.Second {
			t.Errorf("status %d after %v", resp.StatusCode, took)
		}
		conn.Close()
	})
}

// A byte too many is known as soon as it comes.
func TestBugTooLongAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipeServer(t, echoBody)
		start := time.Now()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", 1<<40)
		conn.Write(make([]byte, limit+1))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); resp.StatusCode != http.StatusRequestEntityTooLarge || took > 0 {
			t.Errorf("status %d after %v", resp.StatusCode, took)
		}
		conn.Close()
	})
}
