package pin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/pin"
)

// FuzzDigest: the digest does not depend on the encoding, and differs for different definitions.
func FuzzDigest(f *testing.F) {
	f.Add([]byte(full), []byte(strings.Replace(full, "1.0", "1", 1)))
	f.Add([]byte(`{"name":"a","inputSchema":{"n":9007199254740993}}`), []byte(`{"inputSchema":{"n":9007199254740992},"name":"a"}`))
	f.Add([]byte(`{"annotations":[1e400,-0,-0.0,0.1e1]}`), []byte(`{"annotations":[1e401,0,0.0,1]}`))
	f.Add([]byte(`{"description":"\ud83d\ude00\u007f\/"}`), []byte("{\"description\":\"😀\x7f/\"}"))
	f.Add([]byte(`{"_meta":{"io.modelcontextprotocol/a":1}}`), []byte(`{"_meta":{}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		before := bytes.Clone(a)
		da, err := pin.Digest(pin.Tool, a)
		if !bytes.Equal(a, before) {
			t.Fatal("the definition was changed")
		}
		if err != nil {
			return
		}
		var spaced bytes.Buffer
		if err := json.Indent(&spaced, a, " ", "\t"); err != nil {
			t.Fatalf("%q has a digest and is not JSON: %v", a, err)
		}
		if again, err := pin.Digest(pin.Tool, spaced.Bytes()); err != nil || again != da {
			t.Errorf("%q: with spaces the digest differs, %v", a, err)
		}
		db, err := pin.Digest(pin.Tool, b)
		if err != nil {
			return
		}
		found, err := diff(a, b)
		if err != nil || (len(found) == 0) != (da == db) {
			t.Errorf("%q, %q: the digests are the same: %t, the differences %v, %v", a, b, da == db, found, err)
		}
		if da != db {
			return
		}
		if a, b := covered(t, a), covered(t, b); a != nil && b != nil && !reflect.DeepEqual(a, b) {
			t.Errorf("%q and %q have one digest", a, b)
		}
	})
}

// covered returns the covered members, as decoded by encoding/json. Since it decodes numbers as
// float64, different definitions may be equal. It returns nil for a number beyond float64.
func covered(t *testing.T, tool []byte) map[string]any {
	var all map[string]any
	if err := json.Unmarshal(tool, &all); err != nil {
		if strings.Contains(err.Error(), "cannot unmarshal number") {
			return nil
		}
		t.Fatal(err)
	}
	of := map[string]any{}
	for _, name := range []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"} {
		if value, ok := all[name]; ok {
			of[name] = value
		}
	}
	if meta, ok := of["_meta"].(map[string]any); ok {
		for key := range meta {
			if strings.HasPrefix(key, "io.modelcontextprotocol/") {
				delete(meta, key)
			}
		}
		if len(meta) == 0 {
			delete(of, "_meta")
		}
	}
	return of
}

// FuzzLoad: a lock that can be loaded can be saved and loaded again, with the same pins.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(lockFile))
	f.Add([]byte(`{"servers":{"a":{"tools":{}}},"version":2}`))
	f.Add([]byte(lockFile[:len(lockFile)/2]))
	f.Add([]byte(strings.ReplaceAll(lockFile, "read", `\ud800`)))
	f.Add([]byte(strings.ReplaceAll(lockFile, "1,", "1.0,")))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(folder, "mcp.lock")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		lock, err := pin.Load(path)
		if err != nil {
			e, ok := errors.AsType[*pin.FileError](err)
			if !ok || e.Line < 1 || e.Line > 1+bytes.Count(text, []byte{'\n'}) {
				t.Errorf("%q: the error is %v", text, err)
			}
			return
		}
		pinOne(t, lock, "fuzz", "fuzz", 1)
		if err := lock.Save(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		saved := readFile(t, path)
		again, err := pin.Load(path)
		if err != nil {
			t.Fatalf("%q is saved as %q: %v", text, saved, err)
		}
		pinOne(t, again, "fuzz", "fuzz", 2)
		if err := again.Save(); err != nil {
			t.Fatal(err)
		}
		if twice := readFile(t, path); twice != strings.Replace(saved, `"fuzz": "`+someDigest(1), `"fuzz": "`+someDigest(2), 1) {
			t.Errorf("%q is saved as %q and as %q", text, saved, twice)
		}
	})
}
