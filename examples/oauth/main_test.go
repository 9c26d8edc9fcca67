package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// What is shown is what the README says.
func TestShown(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), "", &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	want, err := os.ReadFile("testdata/readme.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(out.String(), "127.0.0.1:PORT")
	if !strings.HasPrefix(string(want), "$ go run ./examples/oauth\n"+got) {
		t.Errorf("what is shown:\n%s", got)
	}
}

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, said := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", io.Discard, said) }()
	lines, library := bufio.NewReader(read), ""
	for library == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, library, _ = strings.Cut(strings.TrimSpace(line), "serving MCP at ")
	}
	var out bytes.Buffer
	if err := visit(t.Context(), library, &out); err != nil || !strings.Contains(out.String(), "Ulysses, for ada") {
		t.Errorf("%v\n%s", err, &out)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
