package oauth

import (
	"encoding/json"
	"testing"
)

// The format of the record of a login stays as it is, because processes of different versions share it.
func TestFormatOfLoginUses(t *testing.T) {
	const golden = `{"uses":3,"ended":true}`
	if got, err := json.Marshal(loginUses{Uses: 3, Ended: true}); err != nil || string(got) != golden {
		t.Errorf("wrote %s, want %s; %v", got, golden, err)
	}
}
