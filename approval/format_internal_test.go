package approval

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// The formats of records stay as they are, because replicas of different versions share them.
func TestFormatsOfRecords(t *testing.T) {
	for name, value := range map[string]any{
		"paused":     pausedGrant{ID: "id", Digest: Digest{1, 2}, Created: 1_000, Deadline: 2_000, Run: 3, Approved: true},
		"remembered": rememberedApproval{Request: "id", Given: 1_000, By: "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			golden, err := os.ReadFile("testdata/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(value); err != nil || !bytes.Equal(got, bytes.TrimSpace(golden)) {
				t.Errorf("wrote %s, want %s; %v", got, golden, err)
			}
		})
	}
}
