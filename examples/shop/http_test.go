package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const testKey = "the key of the staff, in a test"

// startHTTP serves a new shop until the test ends.
func startHTTP(t *testing.T, staffKey string) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, said := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveHTTP(ctx, newServer(options{}), "127.0.0.1:0", staffKey, said) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("told to end, the server says %v", err)
		}
	})
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`http://\S+`).FindString(line)
}

// bearer sends a key with each request.
func bearer(key string) *streamable.DialOptions {
	return &streamable.DialOptions{Header: httptransport.StaticHeader(map[string]string{"Authorization": "Bearer " + key})}
}

// Customers need no key. Callers with the key of the staff see more tools.
func TestHTTPKeys(t *testing.T) {
	url := startHTTP(t, testKey)
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		for _, test := range []struct {
			opts  *streamable.DialOptions
			staff bool
		}{{nil, false}, {bearer(testKey), true}} {
			s, err := client.Connect(t.Context(), streamable.Dial(url, test.opts), &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := tools(t, s)["restock"] != nil; got != test.staff {
				t.Errorf("staff %t: there is a tool restock: %t", test.staff, got)
			}
			_, err = client.CallAs[Item](t.Context(), s, "restock", map[string]int{"item": 1, "quantity": 1}, nil)
			if (err == nil) != test.staff {
				t.Errorf("staff %t: restocking gives %v", test.staff, err)
			}
		}
	}
}

func TestHTTPRefusesWrongKeys(t *testing.T) {
	for _, test := range []struct{ staffKey, given string }{
		{testKey, "Bearer wrong"}, {testKey, "Bearer "}, {testKey, testKey}, {"", "Bearer "}, {"", "Bearer x"},
	} {
		url := startHTTP(t, test.staffKey)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", test.given)
		visitor := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := visitor.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized || response.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q is answered with %s", test.given, response.Status)
		}
	}
}
