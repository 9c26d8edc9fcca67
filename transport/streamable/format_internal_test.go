package streamable

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// The format of the record of a session stays as it is, because replicas of different versions share it.
func TestFormatOfRecord(t *testing.T) {
	golden, err := os.ReadFile("testdata/record.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(record{
		Principal: []byte("hash"), Lists: []string{"tools"}, Level: "debug", Resources: []string{"a:b"},
		Handshake: &mcp.InitializeParams{ProtocolVersion: mcp.Version20251125, ClientInfo: mcp.Implementation{Name: "client", Version: "1"}},
	})
	if err != nil || !bytes.Equal(got, bytes.TrimSpace(golden)) {
		t.Errorf("wrote %s, want %s; %v", got, golden, err)
	}
}
