package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestReadResults(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			return
		}
		if err := os.WriteFile(filepath.Join(folder, name, "checks.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const at = "-2026-01-02T03-04-05-678Z"
	write("server-tools-list"+at, `[{"id":"good","status":"SUCCESS","details":{"x":1}}]`)
	write("server-elicitation-sep1034-defaults"+at, "")
	got, err := readResults(folder, serverSide)
	want := map[string][]check{"tools-list": {good}, "elicitation-sep1034-defaults": {}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}

	for name, c := range map[string]struct{ folder, text string }{
		"the same scenario again": {"server-tools-list-2026-01-02T03-04-06-678Z", "[]"},
		"a client's scenario":     {"client-tools-list" + at, "[]"},
		"no JSON":                 {"server-ping" + at, "{"},
	} {
		write(c.folder, c.text)
		if got, err := readResults(folder, serverSide); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
		if err := os.RemoveAll(filepath.Join(folder, c.folder)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadResultsOfClient(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"ping-2026-01-02T03-04-05-678Z", "auth/dpop-nonce-2026-01-02T03-04-05-678Z", "auth/broken-2026-01-02T03-04-05-678Z"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "auth/broken-2026-01-02T03-04-05-678Z" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name, "checks.json"), []byte(`[{"id":"good","status":"SUCCESS"}]`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readResults(folder, clientSide)
	want := map[string][]check{"ping": {good}, "auth/dpop-nonce": {good}, "auth/broken": {}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
