package config_test

import (
	"slices"
	"testing"
)

// Tools that a file names must exist; patterns need not match any.
func TestNamedToolsAreExpected(t *testing.T) {
	r := resolve(t, `{"command":"x","dovetail":{"tools":{"allow":["a","b*"],"deny":["c","*"],"override":{"d":{"name":"e"}}}}}`, nil)
	config, err := r.Bridge(nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "c"}; !slices.Equal(config.Expect, want) {
		t.Errorf("expected are %q, want %q", config.Expect, want)
	}
	if _, renamed := config.Rename["d"]; !renamed {
		t.Errorf("renamed are %v", config.Rename)
	}
}
