package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/memorytest"
)

func fileIn(t *testing.T, folder string, limits *memory.Limits) memory.Store {
	t.Helper()
	store, err := openFile(filepath.Join(folder, "memory.json"), limits)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestFileStore(t *testing.T) {
	memorytest.Run(t, func(t *testing.T) memory.Store { return fileIn(t, t.TempDir(), nil) })
	memorytest.RunLimits(t, func(t *testing.T, limits *memory.Limits) memory.Store { return fileIn(t, t.TempDir(), limits) })
	memorytest.RunReopen(t, func(t *testing.T, folder string, limits *memory.Limits) memory.Store {
		return fileIn(t, folder, limits)
	})
}

func TestFileCanBeEditedByHand(t *testing.T) {
	folder := t.TempDir()
	store := fileIn(t, folder, nil)
	ann := memory.Collection{Kind: memory.Facts, User: "ann"}
	if err := store.Save(t.Context(), ann, memory.Record{Key: "city", Value: "Oslo"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "memory.json")
	text, err := os.ReadFile(path)
	if want := "{\n\t\"\": {\n\t\t\"facts\": {\n\t\t\t\"ann\": {\n\t\t\t\t\"city\": \"Oslo\"\n\t\t\t}\n\t\t}\n\t}\n}\n"; err != nil || string(text) != want {
		t.Fatalf("the file holds\n%s\n%v, want\n%s", text, err, want)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "Oslo", "Rome", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if value, err := store.Load(t.Context(), ann, "city"); err != nil || value != "Rome" {
		t.Errorf("after an edit: %q, %v", value, err)
	}
	for _, emptied := range []string{`{}`, `{"":null}`, `{"":{"facts":null}}`, `{"":{"facts":{"ann":null}}}`} {
		if err := os.WriteFile(path, []byte(emptied), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := store.Save(t.Context(), ann, memory.Record{Key: "k", Value: "v"}); err != nil {
			t.Errorf("saving to %s: %v", emptied, err)
		}
	}
}

// A file that cannot be read is left alone.
func TestBrokenFileIsNotOverwritten(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "memory.json")
	store := fileIn(t, folder, nil)
	const broken = `{"": {"conversations": {`
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	in := memory.Collection{Kind: memory.Conversations}
	if err := store.Save(t.Context(), in, memory.Record{Key: "k"}); err == nil {
		t.Error("a broken file was written to")
	}
	if _, err := store.Load(t.Context(), in, "k"); err == nil {
		t.Error("a broken file was read")
	}
	if _, err := openFile(path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file was opened: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != broken {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

// When a change cannot be written, what was there stays, and nothing lies about.
func TestFailedWriteChangesNothing(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	store := fileIn(t, folder, nil)
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	in := memory.Collection{Kind: memory.Conversations}
	if err := store.Save(t.Context(), in, memory.Record{Key: "k"}); err == nil {
		t.Error("saving into a folder that is gone succeeds")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "memory.json"), 0o700); err != nil { // which a file cannot replace
		t.Fatal(err)
	}
	if err := store.(*fileStore).write(document{}); err == nil {
		t.Error("a folder was replaced")
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("something lies about: %v, %v", entries, err)
	}
}

func TestFileIsTheUsersOwn(t *testing.T) {
	folder := t.TempDir()
	store := fileIn(t, folder, nil)
	if err := store.Save(t.Context(), memory.Collection{Kind: memory.Conversations}, memory.Record{Key: "k"}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the folder holds %v, %v", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	var whole map[string]any
	if text, err := os.ReadFile(filepath.Join(folder, "memory.json")); err != nil || json.Unmarshal(text, &whole) != nil {
		t.Errorf("the file holds %s, %v", text, err)
	}
}
