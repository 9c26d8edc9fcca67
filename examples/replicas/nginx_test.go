package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// failTimeout is how long nginx sends no requests to a server that has refused a connection, by default.
const failTimeout = 10 * time.Second

// The default configuration of nginx, which notices only connections: a call is sent to the next server if its server
// refuses the connection. Each replica has a loopback address of its own, so that it keeps its port.
const nginxConfiguration = `
daemon off;
master_process off;
pid %[1]s/pid;
error_log %[1]s/error.log;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	upstream replicas { %[2]s }
	server {
		listen %[3]s;
		location / { proxy_pass http://replicas; proxy_set_header Host $host; }
	}
}
`

// While replicas behind nginx are restarted one after the other, no call fails. DOVETAIL_RESTARTS is their number. With more
// than two, there is a pause before each, since nginx must not give up all servers.
func TestRestartsBehindNginx(t *testing.T) {
	binary := os.Getenv("DOVETAIL_NGINX")
	if binary == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("DOVETAIL_NGINX is not set")
		}
		t.Skip("DOVETAIL_NGINX is not set")
	}
	t.Parallel()
	restarts, err := strconv.Atoi(cmp.Or(os.Getenv("DOVETAIL_RESTARTS"), "2"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	network := fmt.Sprintf("127.%d.%d", 1+rand.IntN(250), rand.IntN(250)) // other runs on this machine have other addresses
	addresses := []string{network + ".11:8080", network + ".12:8080", network + ".13:8080"}
	front := network + ".1:8080"
	var servers strings.Builder
	for _, address := range addresses {
		fmt.Fprintf(&servers, "server %s; ", address)
	}
	configuration := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(configuration, fmt.Appendf(nil, nginxConfiguration, dir, servers.String(), front), 0o600); err != nil {
		t.Fatal(err)
	}
	store := redisServer(t)
	replicas := make([]*replica, len(addresses))
	for i := range addresses {
		replicas[i] = listenAt(t, addresses[i], store)
	}
	nginx := exec.CommandContext(t.Context(), binary, "-c", configuration)
	nginx.Stderr = os.Stderr
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = nginx.Process.Kill() // it may have ended
		_ = nginx.Wait()         // it says that the process was killed
	}()
	url := "http://" + front + "/mcp"
	for started := time.Now(); ; <-time.After(10 * time.Millisecond) {
		status, err := quick.send(t.Context(), url)
		if err == nil && status == http.StatusOK {
			break
		}
		if time.Since(started) > 30*time.Second {
			t.Fatalf("nginx does not serve: status %d, %v", status, err)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var mu sync.Mutex
	statuses := make(map[int]int)
	for _, q := range []request{quick, quick, quick, quick, slow, slow, slow, slow} {
		clients.Go(func() {
			for ctx.Err() == nil {
				status, err := q.send(t.Context(), url)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	for n := range restarts {
		if restarts > 2 {
			<-time.After(failTimeout)
		}
		i := n % len(replicas)
		replicas[i].stdin.Close()
		if err := replicas[i].process.Wait(); err != nil {
			t.Errorf("replica %d does not end in order: %v", i+1, err)
		}
		replicas[i] = listenAt(t, addresses[i], store)
	}
	stop()
	clients.Wait()
	all, failed := 0, 0
	for status, n := range statuses {
		if all += n; status != http.StatusOK {
			failed += n
		}
	}
	t.Logf("%d restarts, %d calls, %d failed: %v", restarts, all, failed, statuses)
	if all < 100*restarts || failed*10_000 > all {
		t.Errorf("%d of %d calls failed, want at most 1 of 10,000: %v", failed, all, statuses)
	}
}

// listenAt starts a replica at an address.
func listenAt(t *testing.T, address, store string) *replica {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env, process.Stderr = append(os.Environ(), envStore+"="+store, envListen+"="+address), os.Stderr
	stdin, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill() // it may have ended
		_ = process.Wait()
	})
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("the replica at %s does not start: %v", address, err)
	}
	return &replica{process: process, stdin: stdin}
}

// A request is a call of a client without a session.
type request struct{ method, name, params string }

var (
	quick = request{"server/discover", "", ""}
	slow  = request{"tools/call", "stream", `"name":"stream","arguments":{"call":"a"},`} // it takes 100 ms
)

func (q request) send(ctx context.Context, url string) (status int, err error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"` + q.method + `","params":{` + q.params + `"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": q.method, "Mcp-Name": q.name,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
