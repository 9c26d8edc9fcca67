package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

const (
	// headerAttackers is the number of connections that send long headers at the same time.
	headerAttackers = 600
	// maxHeaderPeak is the most memory that the program may use for them.
	maxHeaderPeak = 256 << 20
)

// Clients without a token cannot fill the memory with headers, which the web server reads before the
// program can refuse the request.
func TestLongHeaders(t *testing.T) {
	for name, header := range map[string]string{
		"one long value":             "X: " + strings.Repeat("x", 1<<20),
		"one long name":              strings.Repeat("x", 1<<20),
		"many names":                 numberedHeaders(1 << 20),
		"many values of one name":    strings.Repeat("X:\r\n", 1<<18),
		"many names below the limit": numberedHeaders(14 << 10), // the server waits for more
	} {
		t.Run(name, func(t *testing.T) {
			p, kill := launched(t)
			defer kill()
			held := make(chan struct{}) // closed when the connections may end
			var sent, ended sync.WaitGroup
			sent.Add(headerAttackers)
			for range headerAttackers {
				ended.Go(func() {
					conn, err := net.Dial("tcp", p.address)
					if err != nil {
						t.Error(err)
						sent.Done()
						return
					}
					defer conn.Close()
					_ = conn.SetDeadline(time.Now().Add(time.Minute))
					_, _ = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: "+p.address+"\r\n"+header) // the server may refuse it
					sent.Done()
					<-held
				})
			}
			sent.Wait()
			req, err := http.NewRequest(http.MethodGet, "http://"+p.address+"/livez", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("an honest client gets status %d", res.StatusCode)
			}
			peak := peakMemory(t, p.pid)
			close(held)
			ended.Wait()
			http.DefaultClient.CloseIdleConnections()
			t.Logf("the peak is %d MiB", peak>>20)
			if peak > maxHeaderPeak && !racetest.Enabled {
				t.Errorf("the peak is %d MiB, want at most %d MiB", peak>>20, maxHeaderPeak>>20)
			}
		})
	}
}

// numberedHeaders returns headers with different names, which need the most memory for their length.
func numberedHeaders(length int) string {
	var b strings.Builder
	for i := 0; b.Len() < length; i++ {
		b.WriteString(strconv.FormatInt(int64(i), 36) + ":\r\n")
	}
	return b.String()
}

// peakMemory returns the largest amount of memory that a process has used, in bytes.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("the process has no VmHWM")
	return 0
}
