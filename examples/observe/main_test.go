package main

import (
	"os"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestObserve compares the output with that in the README's testdata: in both eras, one trace from the
// client through the bridge to the server, with the right parents, and the metrics of all three.
func TestObserve(t *testing.T) {
	var out strings.Builder
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		if err := observe(t.Context(), era, &out); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/readme.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, output, _ := strings.Cut(string(want), "\n") // without the command
	if out.String() != output {
		t.Errorf("the output is\n%s\nwant\n%s", out.String(), output)
	}
}
