package jsonscan_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func TestLine(t *testing.T) {
	plain := []byte(`{"a":"\n"}`)
	if got := jsonscan.Line(plain); &got[0] != &plain[0] {
		t.Errorf("a text of one line is copied: %s", got)
	}
	broken := []byte("{\r\n\"a\":\n1}")
	if got := string(jsonscan.Line(broken)); got != `{  "a": 1}` {
		t.Errorf("got %q", got)
	}
	if string(broken) != "{\r\n\"a\":\n1}" {
		t.Errorf("the text itself was changed: %q", broken)
	}
}
