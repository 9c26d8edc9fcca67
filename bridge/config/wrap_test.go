package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A program may run children below another one, in a folder of its own.
func TestChildIsWrapped(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := resolve(t, `{"command":"child","args":["${A}"],"env":{"`+childVariable+`":"1"}}`, map[string]string{"A": "two"})
	conn := dial(t, r, &config.DialOptions{Dir: dir, Wrap: func(path string, args ...string) (string, []string) {
		return os.Args[0], append([]string{"wraps", path}, args...)
	}})
	resp, err := conn.Call(t.Context(), "start", jsonrpc.Raw(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	var s start
	if err := json.Unmarshal(resp.Result, &s); err != nil {
		t.Fatal(err)
	}
	if want := []string{"wraps", "child", "two"}; !slices.Equal(s.Args, want) || s.Dir != dir {
		t.Errorf("it was started with %q in %s", s.Args, s.Dir)
	}
}
