package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// programVariable makes the test binary run the program with the given arguments.
const programVariable = "SQLITE_EXAMPLE_ARGUMENTS"

func TestMain(m *testing.M) {
	if arguments, ok := os.LookupEnv(programVariable); ok {
		os.Args = append(os.Args[:1], strings.Fields(arguments)...)
		main()
		return
	}
	leaktest.Main(m)
}

// Two clients start one program each and see what the other one saves. The records remain when
// both programs have ended.
func TestClientsShareAFile(t *testing.T) {
	start := func(path string) *client.Session {
		t.Helper()
		dialer := stdio.Command(os.Args[0], nil, &stdio.CommandOptions{Env: []string{programVariable + "=-db " + path}})
		session, err := client.Connect(t.Context(), dialer, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		return session
	}
	facts := func(session *client.Session) string {
		t.Helper()
		facts, err := client.CallAs[[]memory.Record](t.Context(), session, "get_user_facts", map[string]string{"user_id": "ann"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, fact := range facts {
			texts = append(texts, fact.Key+" is "+fact.Value)
		}
		return strings.Join(texts, ", ")
	}
	save := func(session *client.Session, key, value string) {
		t.Helper()
		_, err := client.CallAs[any](t.Context(), session, "save_user_fact", map[string]string{"user_id": "ann", "key": key, "value": value}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}

	path := filepath.Join(t.TempDir(), "memory.db")
	one, two := start(path), start(path)
	save(one, "city", "Oslo")
	save(two, "tea", "green")
	const want = "city is Oslo, tea is green"
	if got := facts(one); got != want {
		t.Errorf("the first client finds %q, want %q", got, want)
	}
	if got := facts(two); got != want {
		t.Errorf("the second client finds %q, want %q", got, want)
	}
	one.Close()
	two.Close()
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the programs leave %v behind, %v", entries, err)
	}
	if got := facts(start(path)); got != want {
		t.Errorf("later, %q is found, want %q", got, want)
	}
}
