package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/server/describe"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The bundle has all programs, and server.json its digest.
func TestWrite(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"calc-darwin", "calc-linux", "calc-windows"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "icon.png"), []byte("\x89PNG\r\n\x1a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(folder, description(newServer())); err != nil {
		t.Fatal(err)
	}
	bundle, err := os.ReadFile(filepath.Join(folder, "calc.mcpb"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bundle)
	if text, err := os.ReadFile(filepath.Join(folder, "server.json")); err != nil || !strings.Contains(string(text), hex.EncodeToString(sum[:])) {
		t.Errorf("server.json is %s, %v", text, err)
	}
	archive, err := zip.OpenReader(filepath.Join(folder, "calc.mcpb"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if len(archive.File) != 5 {
		t.Errorf("the bundle has %d files", len(archive.File))
	}
}

// The handler beside an endpoint of one mux.
func TestMux(t *testing.T) {
	s := newServer()
	endpoint := streamable.Handler(s, nil)
	cards, err := describe.Handler(description(s))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	mux.Handle("/", cards)

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://example.com/mcp/server-card", http.NoBody))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"com.example/calc"`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if err := errors.Join(s.Shutdown(t.Context()), endpoint.Close()); err != nil {
		t.Error(err)
	}
}

// A program that finds the servers of a domain.
func TestDiscover(t *testing.T) {
	mux := http.NewServeMux()
	site := httptest.NewServer(mux)
	defer site.Close()
	d := description(newServer())
	d.Remotes = []describe.Remote{describe.NewRemote(site.URL + "/mcp")}
	cards, err := describe.Handler(d)
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/", cards)
	ctx, origin, opts, said := t.Context(), site.URL, &describe.DiscoverOptions{AllowLoopback: true}, &strings.Builder{}
	log := log.New(said, "", 0)

	for found, err := range describe.Discover(ctx, origin, opts) {
		if err != nil {
			log.Print(err)
			continue
		}
		log.Print(found.Name, " ", found.Remotes[0].URL)
	}
	if want := "com.example/calc " + site.URL + "/mcp\n"; said.String() != want {
		t.Errorf("got %q, want %q", said, want)
	}
}

// An error names the field and the rule.
func TestFault(t *testing.T) {
	said := &strings.Builder{}
	log := log.New(said, "", 0)

	d := description(newServer())
	d.Version = "^1.0"
	_, err := d.Card()
	if fault, ok := errors.AsType[*describe.FieldError](err); ok {
		log.Print(fault.Field, ": ", fault.Rule)
	}
	if !strings.HasPrefix(said.String(), "Version: expected one version") {
		t.Errorf("got %q", said)
	}
}
