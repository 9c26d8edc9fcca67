package production_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A call that runs at shutdown is answered. The dependencies of the server stop after it.
func Example_shutdown() {
	database := server.Provide(func(context.Context) (*strings.Builder, func(context.Context) error, error) {
		return new(strings.Builder), func(context.Context) error { fmt.Println("the database is closed"); return nil }, nil
	})
	s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Dependencies: []server.Dependency{database}})
	running, finish := make(chan struct{}), make(chan struct{})
	server.AddTool(s, server.Tool{Name: "job"}, func(context.Context, *server.Request, struct{}) (string, error) {
		close(running)
		<-finish
		return "done", nil
	})

	ctx, stop := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
			OnListen: func(at net.Addr) { address <- at.String() },
		})
	}()
	session, err := client.Connect(context.Background(), streamable.Dial("http://"+<-address+"/mcp", nil), &client.Options{NoReconnect: true})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		fmt.Println(client.CallAs[string](context.Background(), session, "job", nil, nil))
	}()

	<-running
	stop() // as an interrupt or SIGTERM does in streamable.Run
	close(finish)
	<-answered
	fmt.Println("Serve returns", <-ended)
	// Unordered output:
	// done <nil>
	// the database is closed
	// Serve returns <nil>
}

// ordering returns one replica of a server that asks.
func ordering(name string, shared store.Store) *server.Server {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, &server.Options{Store: shared})
	server.AddTool(s, server.Tool{Name: "order"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		fmt.Println(name, "runs the call")
		count, err := server.Elicit[int](r, "count", "How many?")
		return fmt.Sprint(count, " ordered at ", name), err
	})
	return s
}

// Two replicas share a store: one of them asks, the other one continues the call.
func Example_replicas() {
	shared, err := store.NewMemory(nil) // in one process; others need an engine
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close()
	first, second := streamable.Handler(ordering("replica 1", shared), nil), streamable.Handler(ordering("replica 2", shared), nil)
	defer first.Close()
	defer second.Close()
	var requests atomic.Int64
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") != mcp.MethodToolsCall || requests.Add(1) == 1 {
			first.ServeHTTP(w, r)
		} else {
			second.ServeHTTP(w, r)
		}
	}))
	defer balancer.Close()

	session, err := client.Connect(context.Background(), streamable.Dial(balancer.URL, nil), &client.Options{
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":3}`)}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	fmt.Println(client.CallAs[string](context.Background(), session, "order", nil, nil))
	// Output:
	// replica 1 runs the call
	// replica 2 runs the call
	// 3 ordered at replica 2 <nil>
}

// A reverse proxy on the same machine passes on the public host.
func Example_proxy() {
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	for _, opts := range []*streamable.Options{
		nil,
		{
			Hosts:   []string{"mcp.example.com"},
			Origins: []string{"https://app.example.com"},
		},
	} {
		endpoint := streamable.Handler(s, opts)
		upstream := httptest.NewServer(endpoint)
		target, err := url.Parse(upstream.URL)
		if err != nil {
			log.Fatal(err)
		}
		handler := &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
			FlushInterval: -1, // passes on each event immediately
		}
		proxy := httptest.NewServer(handler)
		for _, origin := range []string{"", "https://app.example.com", "https://evil.example"} {
			body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
			req, err := http.NewRequest(http.MethodPost, proxy.URL, strings.NewReader(body))
			if err != nil {
				log.Fatal(err)
			}
			req.Host = "mcp.example.com"
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if origin != "" {
				req.Header.Set("Origin", origin)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				log.Fatal(err)
			}
			res.Body.Close()
			fmt.Printf("origin %q: %s\n", origin, res.Status)
		}
		proxy.Close()
		upstream.Close()
		endpoint.Close()
	}
	// Output:
	// origin "": 403 Forbidden
	// origin "https://app.example.com": 403 Forbidden
	// origin "https://evil.example": 403 Forbidden
	// origin "": 200 OK
	// origin "https://app.example.com": 200 OK
	// origin "https://evil.example": 403 Forbidden
}

// The client gets a reference, and the log says what has happened.
func Example_log() {
	var lines bytes.Buffer
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, &server.Options{
		Logger: slog.New(slog.NewTextHandler(&lines, nil)),
		Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(context.Context, *mcp.Call) (mcp.Result, error) {
				return nil, errors.New("the audit log is full")
			}
		}},
	})
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewServer(endpoint)
	defer web.Close()
	session, err := client.Connect(context.Background(), streamable.Dial(web.URL, nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	_, err = session.CallTool(context.Background(), "add", nil, nil)
	reference := regexp.MustCompile(`reference [A-Z0-9]{26}`).FindString(err.Error())
	fmt.Println(strings.Replace(err.Error(), reference, "reference R", 1))
	line := strings.Replace(lines.String(), strings.TrimPrefix(reference, "reference "), "R", 1)
	fmt.Print(line[strings.Index(line, "level"):])
	// Output:
	// jsonrpc: -32603 "internal error, reference R"
	// level=ERROR msg="a call failed" error="the audit log is full" method=tools/call kind=tools/call name="" reference=R
}

// An operator asks whether the store can be reached. Nobody else gets an answer.
func Example_storeStatus() {
	shared, err := store.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close()
	operators, err := gateway.NewAuthenticator(&gateway.AuthenticatorOptions{Tokens: map[string]string{"token-of-the-operators": "ops"}})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, &server.Options{Store: shared})
	other := http.NewServeMux()
	other.Handle("/status", operators.Handler(streamable.StoreStatus(s)))
	options := &streamable.ServeOptions{Other: other}

	ask := func(token string) {
		request := httptest.NewRequest(http.MethodGet, "http://localhost/status", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		options.Other.ServeHTTP(w, request)
		var answer struct{ Store string }
		_ = json.Unmarshal(w.Body.Bytes(), &answer) // a refusal is not JSON of this form
		fmt.Println(w.Code, cmp.Or(answer.Store, "refused"))
	}
	ask("another token")
	ask("token-of-the-operators")
	// Output:
	// 401 refused
	// 200 reachable
}
