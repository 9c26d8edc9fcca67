package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// The format of the record of a session stays as it is, because replicas of different versions share it.
func TestFormatOfRecord(t *testing.T) {
	golden, err := os.ReadFile("testdata/record.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(record{Principal: []byte("hash"), Version: mcp.Version20251125, State: json.RawMessage(`{"level":"debug"}`)})
	if err != nil || !bytes.Equal(got, bytes.TrimSpace(golden)) {
		t.Errorf("wrote %s, want %s; %v", got, golden, err)
	}
}

// Without replicas, the record of a session does not end by the wall clock, which goes on while a machine sleeps.
func TestSessionSurvivesSleep(t *testing.T) {
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for shared, ends := range map[bool]bool{false: false, true: true} {
		s := &session{version: mcp.Version20251125, sessions: &Sessions{store: memory, records: state.NewRecords[record](memory, nil), shared: shared}, id: fmt.Sprint("session-", shared)}
		if err := s.create(t.Context()); err != nil {
			t.Fatal(err)
		}
		stored, err := s.sessions.load(t.Context(), s.id)
		if err != nil || stored.Until.IsZero() == ends {
			t.Errorf("with replicas: %t: the record ends at %v; %v", shared, stored.Until, err)
		}
	}
}
