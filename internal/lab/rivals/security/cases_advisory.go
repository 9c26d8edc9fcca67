package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

func advisoryCases() []*Case {
	return []*Case{
		{
			ID: "CVE-2026-25536", Name: "TypeScript SDK: answers to other clients", Sent: "two clients of one server call a tool with the same id",
			Expected: "sends each client its own result", Attack: func(ctx context.Context, p *Peer) (Verdict, error) {
				got, err := together(ctx, p, "climb")
				return verdictOf(!strings.Contains(got[0], ran+" "+marks[0]) || !strings.Contains(got[1], ran+" "+marks[1])), err
			},
		},
		{
			ID: "CVE-2026-27896", Name: "go-sdk: case of keys", Sent: "`Method`, `PARAMS`, `param\u017F` and `Name` instead of the keys of the protocol",
			Expected: "does not run the tool", Attack: attackKeys,
		},
		{
			ID: "CVE-2026-52869", Name: "Python SDK: sessions of other users", Sent: "the session id of one user with the token of another",
			Expected: "refuses it", Attack: attackSession,
		},
		{
			ID: "CVE-2026-59951", Name: "Python SDK: sessions without a limit", Sent: "12,000 sessions that are left open",
			Expected: "refuses sessions beyond a limit, or needs no memory for them", Attack: attackSessions,
		},
		{
			ID: "CVE-2026-116686", Name: "Python SDK: schemas are loaded", Sent: "a tool with an `outputSchema` that refers to a URL, and its result",
			Expected: "does not load it", Attack: attackSchema,
		},
		{
			ID: "CVE-2026-63119", Name: "Ruby SDK: lines without an end", Sent: "160 MiB without a line break, over stdio, to a server and to a client",
			Expected: "needs less than 112 MiB of memory", Attack: attackLine,
		},
		{
			ID: "CVE-2026-51994", Name: "mcp-remote: `resource_metadata` of another host", Sent: "status 401 with a `resource_metadata` at another, internal address",
			Expected: "does not load it", Attack: attackMetadata,
		},
		{
			ID: "CVE-2026-79747", Name: "MCPHub: servers of users", Sent: "a server at an internal URL, from a user who is not the operator",
			Expected: "does not connect to it", Attack: ofGateway(attackRegistration),
		},
	}
}

// attackKeys sends keys in another case.
func attackKeys(ctx context.Context, p *Peer) (Verdict, error) {
	base, err := p.server()
	if err != nil {
		return "", err
	}
	const good = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`
	send := func(body string) (reply, error) {
		c, err := dial(ctx, base+"/mcp", "")
		if err != nil {
			return reply{}, err
		}
		defer c.close()
		bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return c.post(bounded, body)
	}
	if got, err := send(good); err != nil || !hasRun(got.text) {
		return "", fmt.Errorf("%w: %s %w", errHarmless, got.text, err)
	}
	for _, keys := range [][2]string{
		{`"method"`, `"Method"`}, {`"method"`, `"METHOD"`}, {`"params"`, `"PARAMS"`}, {`"params"`, "\"param\u017F\""}, {`"name"`, `"Name"`},
	} {
		if got, err := send(strings.Replace(good, keys[0], keys[1], 1)); err == nil && hasRun(got.text) {
			return Unsafe, nil
		}
	}
	return Safe, nil
}

// canary serves at an address and reports whether somebody came.
func canary(ctx context.Context, host string) (string, *atomic.Int64, error) {
	var visits atomic.Int64
	url, err := listen(ctx, host, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		visits.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
	}))
	return url, &visits, err
}

func attackSchema(ctx context.Context, p *Peer) (Verdict, error) {
	trap, visits, err := canary(ctx, "127.0.0.1")
	if err != nil {
		return "", err
	}
	url, err := listen(ctx, "127.0.0.1", &hostileServer{
		tools:  listOf(`{"name":"look","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"$ref":"` + trap + `/schema"}}}}`),
		result: `{"content":[],"structuredContent":{"a":1}}`,
	})
	if err != nil {
		return "", err
	}
	s, err := p.connect(ctx, url, nil)
	if err != nil {
		return "", err
	}
	defer s.close()
	_, _ = s.call(ctx, "look", nil) // the client may refuse the tool
	return verdictOf(visits.Load() > 0), nil
}

// attackLine floods a server, and then a client, each a process of its own.
func attackLine(ctx context.Context, p *Peer) (Verdict, error) {
	server, err := p.child(ctx, roleStdio)
	if err != nil {
		return "", err
	}
	in, err := server.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := server.Start(); err != nil {
		return "", err
	}
	fmt.Fprintln(in, initialize)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, protocolVersion) {
		return "", fmt.Errorf("%w: %s %w", errHarmless, line, err)
	}
	flood(in)
	memory, err := peakMemory(server.Process.Pid)
	in.Close()
	_ = server.Process.Kill()
	_ = server.Wait()
	if err == nil && memory > floodLimitMiB {
		return Unsafe, nil
	}
	client, err := p.child(ctx, roleClient)
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	client.Stdout = &said
	if err := client.Run(); err != nil {
		return "", err
	}
	var connected bool
	if _, err := fmt.Sscan(said.String(), &memory, &connected); err != nil {
		return "", err
	}
	return verdictOf(connected || memory > floodLimitMiB), nil
}

// attackMetadata demands a login and names metadata at another address of this machine. The
// address of the server itself is allowed.
func attackMetadata(ctx context.Context, p *Peer) (Verdict, error) {
	trap, visits, err := canary(ctx, "127.0.0.2")
	if err != nil {
		return "", err
	}
	const metadata = "/.well-known/oauth-protected-resource/mcp"
	var named atomic.Pointer[string] // the URL of the metadata
	var own atomic.Int64             // visits of the server's own metadata
	url, err := listen(ctx, "127.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mcp":
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+*named.Load()+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		case metadata:
			own.Add(1)
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	if err != nil {
		return "", err
	}
	for _, host := range []string{url, trap} {
		named.Store(new(host + metadata))
		if err := p.login(ctx, url+"/mcp", "127.0.0.1"); host == url && (err == nil || own.Load() == 0) {
			return "", fmt.Errorf("the client does not look for metadata: %w", err)
		}
	}
	return verdictOf(visits.Load() > 0), nil
}

// attackRegistration names a server by its URL.
func attackRegistration(ctx context.Context, g gateway) (Verdict, error) {
	trap, visits, err := canary(ctx, "127.0.0.1")
	if err != nil {
		return "", err
	}
	url, token, err := g.register(ctx)
	if err != nil {
		return "", err
	}
	status, text, err := postJSON(ctx, url+"/run", token, `{"server_name":"own","tool_name":"echo","tool_args":{"text":"x"}}`)
	if err != nil || !hasRun(text) {
		return "", fmt.Errorf("%w: %d %s %w", errHarmless, status, text, err)
	}
	_, _, err = postJSON(ctx, url+"/run", token,
		`{"server_name":"mine","server_params":{"url":"`+trap+`/mcp"},"tool_name":"echo","tool_args":{"text":"x"}}`)
	return verdictOf(visits.Load() > 0), err
}
