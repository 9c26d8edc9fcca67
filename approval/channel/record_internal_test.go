package channel

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/store"
)

// The format of records stays as it is, because replicas of different versions share them.
func TestFormatOfRecord(t *testing.T) {
	golden, err := os.ReadFile("testdata/record.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(record{
		ID: "id", Frame: []byte("{}"), Deadline: time.UnixMilli(1_000).UTC(), Owner: "owner",
		Decision: &decision{Approved: true, Reason: "fine", By: "ann", Failed: true, Remember: 60},
	})
	if err != nil || !bytes.Equal(got, bytes.TrimSpace(golden)) {
		t.Errorf("wrote %s, want %s; %v", got, golden, err)
	}
}

// The clock of one replica is ahead, so that the deadline of a record has passed there while its owner still waits. The owner
// keeps the record. There is one clock in the test, which therefore opens the record after the deadline.
func TestEndedRecordOfLiveOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		s := &requests{shared, state.NewRecords[record](shared, nil), "name"}
		stop, err := s.answersFor(t.Context(), s.ownerOf("A"))
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		key := s.key("subject", 0)
		if _, err := s.openAt(t.Context(), record{ID: "a", Owner: "A", Deadline: time.Now().Add(time.Minute)}, key); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if _, err := s.openAt(t.Context(), record{ID: "b", Owner: "B", Deadline: time.Now().Add(time.Hour)}, key); !errors.Is(err, errOwned) {
			t.Errorf("the record of A is taken: %v", err)
		}
	})
}
