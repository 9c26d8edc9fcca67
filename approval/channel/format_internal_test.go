package channel

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// The format of records stays as it is, because replicas of different versions share them.
func TestFormatOfRecord(t *testing.T) {
	golden, err := os.ReadFile("testdata/record.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(record{
		ID: "id", Frame: []byte("{}"), Owner: "owner",
		Decision: &decision{Approved: true, Reason: "fine", By: "ann", Failed: true, Remember: 60},
	})
	if err != nil || !bytes.Equal(got, bytes.TrimSpace(golden)) {
		t.Errorf("wrote %s, want %s; %v", got, golden, err)
	}
}
