package pin_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/pin"
)

// lockFile is a lock as it is written.
const lockFile = `{
  "version": 1,
  "servers": {
    "files": {
      "tools": {
        "read": "sha256:0000000000000000000000000000000000000000000000000000000000000001",
        "write\n\"": "sha256:0000000000000000000000000000000000000000000000000000000000000002"
      }
    },
    "weather": {
      "tools": {
        "read": "sha256:0000000000000000000000000000000000000000000000000000000000000003"
      }
    }
  }
}
`

func writeFile(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "mcp.lock")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func load(t testing.TB, path string) *pin.Lock {
	t.Helper()
	lock, err := pin.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func save(t testing.TB, lock *pin.Lock) {
	t.Helper()
	if err := lock.Save(); err != nil {
		t.Fatal(err)
	}
}

func pinOne(t testing.TB, lock *pin.Lock, server, tool string, n int) {
	t.Helper()
	if err := lock.Pin(server, tool, someDigest(n)); err != nil {
		t.Fatal(err)
	}
}

// TestFileForm: the same pins are the same bytes, in whichever order they came.
func TestFileForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.lock")
	lock := pin.NewLock(path)
	pinOne(t, lock, "weather", "read", 3)
	pinOne(t, lock, "files", "write\n\"", 2)
	pinOne(t, lock, "files", "read", 1)
	lock.Pinned("nobody", "read")
	save(t, lock)
	if got := readFile(t, path); got != lockFile {
		t.Errorf("the file is\n%s", got)
	}
	again := load(t, path)
	pinOne(t, again, "files", "read", 4)
	save(t, again)
	if got, want := readFile(t, path), strings.Replace(lockFile, "01\"", "04\"", 1); got != want {
		t.Errorf("the file is\n%s", got)
	}
}

func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.lock")
	save(t, pin.NewLock(path))
	if got, want := readFile(t, path), "{\n  \"version\": 1,\n  \"servers\": {}\n}\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	load(t, path)
	load(t, writeFile(t, ` {"servers":{"a":{"tools":{}}},"version":1}`))
}

// TestFileErrors say what was expected, and in which line.
func TestFileErrors(t *testing.T) {
	change := func(old, new string) string { return strings.Replace(lockFile, old, new, 1) }
	for text, want := range map[string]string{
		"":                                 `:1: expected an object, found the end of the text`,
		"\n[]":                             `:2: expected an object, found '['`,
		"{}":                               `:1: expected all members of the lock, which are ["version" "servers"], found 0`,
		"\n\n{\"version\":1}":              `:3: expected all members of the lock, which are ["version" "servers"], found 1`,
		change(`1,`, `2,`):                 `:2: expected version 1, found 2`,
		change(`1,`, `1.0,`):               `:2: expected version 1, found 1.0`,
		change(`1,`, `"1",`):               `:2: expected a number, found '"'`,
		change(`"version"`, `"Version"`):   `:2: expected a member of the lock, which are ["version" "servers"], found "Version"`,
		change(`1,`, "1,\n\"x\":0,"):       `:3: expected a member of the lock, which are ["version" "servers"], found "x"`,
		change(`1,`, "1,\n\"version\":1,"): `:3: duplicate member "version"`,
		change(`"tools"`, `"pins"`):        `:5: expected a member of a server, which are ["tools"], found "pins"`,
		change(`"weather"`, `"files"`):     `:10: duplicate member "files"`,
		change(`"write\n\""`, `"read"`):    `:7: duplicate member "read"`,
		change(`"read"`, `"\u0000"`):       `:6: a name must not contain NUL`,
		change("\"weather\": {", `"weather": {}, "x": {`): `:10: expected all members of a server, which are ["tools"], found 0`,
		change(`02"`, `0G"`):                              `:7: expected a digest, "sha256:" and 64 hexadecimal digits in lower case, found "sha256:00`,
		change(`02"`, `2"`):                               `:7: expected a digest`,
		change(`"sha256:0000000000000000000000000000000000000000000000000000000000000002"`, `null`): `:7: expected a string, found 'n'`,
		change(`"read"`, `"`+strings.Repeat("a", 257)+`"`):                                          `:6: the name of a tool has 257 bytes, and may have 256`,
		change(`"files"`, `"`+strings.Repeat("a", 257)+`"`):                                         `:4: the name of a server has 257 bytes, and may have 256`,
		lockFile + "x":      `:17: expected the end of the text`,
		"\uFEFF" + lockFile: `:1: expected an object, found a byte order mark`,
		strings.Replace(lockFile, "files", "\xff", 1): `:4: `,
	} {
		path := writeFile(t, text)
		lock, err := pin.Load(path)
		e, ok := errors.AsType[*pin.FileError](err)
		if lock != nil || !ok || e.Path != path || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%s\nthe error is %v, want %s", text, err, want)
		}
	}
}

// TestTornFile: a file that is cut short anywhere is no lock.
func TestTornFile(t *testing.T) {
	for n := range len(lockFile) - 1 { // without the last line break it is whole
		if _, err := pin.Load(writeFile(t, lockFile[:n])); err == nil {
			t.Fatalf("the first %d bytes are a lock:\n%s", n, lockFile[:n])
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	if _, err := pin.Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := pin.Load(""); err == nil {
		t.Error("no path is no error")
	}
	large := writeFile(t, lockFile)
	if err := os.Truncate(large, pin.MaxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := pin.Load(large); err == nil || !strings.Contains(err.Error(), "more than the 67108864 bytes") {
		t.Errorf("the error is %v", err)
	}
}

// TestLongestFileLoads: what the limits allow is not too long.
func TestLongestFileLoads(t *testing.T) {
	perPin := len(`,\n    "": {\n      "tools": {\n        "": ""\n      }\n    }`) + len(someDigest(1)) + 2*len(`\u0001`)*pin.MaxName
	if pin.MaxPins*perPin+1000 > pin.MaxFile {
		t.Errorf("a lock may have %d bytes, and its file %d", pin.MaxPins*perPin, pin.MaxFile)
	}
}

// TestSaveKeepsOthersChanges: it does not write over a file that it does not know.
func TestSaveKeepsOthersChanges(t *testing.T) {
	other := strings.Replace(lockFile, "01\"", "05\"", 1)
	for what, test := range map[string]struct {
		lock func(path string) *pin.Lock
		do   func(path string) error
	}{
		"changed": {func(path string) *pin.Lock { return load(t, path) }, func(path string) error { return os.WriteFile(path, []byte(other), 0o600) }},
		"gone":    {func(path string) *pin.Lock { return load(t, path) }, os.Remove},
		"there":   {pin.NewLock, func(string) error { return nil }},
		"empty":   {pin.NewLock, func(path string) error { return os.WriteFile(path, nil, 0o600) }},
	} {
		path := writeFile(t, lockFile)
		lock := test.lock(path)
		if err := test.do(path); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		pinOne(t, lock, "files", "read", 9)
		err := lock.Save()
		if after, _ := os.ReadFile(path); !errors.Is(err, pin.ErrFileChanged) || string(after) != string(before) {
			t.Errorf("%s: the error is %v, the file\n%s", what, err, after)
		}
	}
}

// TestSaveFails: the next time is another try, and nothing is left beside the file.
func TestSaveFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.lock", "missing", "lock")
	lock := pin.NewLock(path)
	pinOne(t, lock, "files", "read", 1)
	if err := lock.Save(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v, want %v", err, fs.ErrNotExist)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	save(t, lock)
	load(t, path)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v, want one file", entries, err)
	}
}

// TestSaveOnce: what is saved is not written again.
func TestSaveOnce(t *testing.T) {
	path := writeFile(t, lockFile)
	lock := load(t, path)
	files := make([]fs.FileInfo, 4)
	for i := range files {
		pinOne(t, lock, "files", "read", 1+i/2) // which it is at first
		save(t, lock)
		var err error
		if files[i], err = os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	if !os.SameFile(files[0], files[1]) || os.SameFile(files[1], files[2]) || !os.SameFile(files[2], files[3]) {
		t.Error("the file was replaced for nothing, or was not replaced")
	}
}

// TestFullFile: a file may have as many tools as a lock.
func TestFullFile(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"version":1,"servers":{"s":{"tools":{`)
	for i := range pin.MaxPins {
		fmt.Fprintf(&text, "%q:%q,\n", fmt.Sprint("t", i), someDigest(i))
	}
	full := strings.TrimSuffix(text.String(), ",\n")
	lock := load(t, writeFile(t, full+"}}}}"))
	if err := lock.Pin("s", "more", someDigest(1)); !errors.Is(err, pin.ErrFull) {
		t.Errorf("the error is %v, want %v", err, pin.ErrFull)
	}
	_, err := pin.Load(writeFile(t, text.String()+`"more":"`+someDigest(1)+`"}}}}`))
	if e, ok := errors.AsType[*pin.FileError](err); !ok || e.Line != pin.MaxPins+1 || !errors.Is(err, pin.ErrFull) {
		t.Errorf("the error is %v, want %v", err, pin.ErrFull)
	}
}

// TestSaveKeepsMode and links.
func TestSaveKeepsMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such modes and links")
	}
	path := writeFile(t, lockFile)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	lock := load(t, link)
	pinOne(t, lock, "files", "read", 4)
	save(t, lock)
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o600 || !strings.Contains(readFile(t, path), someDigest(4)) {
		t.Errorf("the file is %v, %v", info, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link is %v, %v", info, err)
	}
}

// TestReadersSeeWholeFiles while others write them.
func TestReadersSeeWholeFiles(t *testing.T) {
	path := writeFile(t, lockFile)
	lock := load(t, path)
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := range 50 {
				if err := errors.Join(lock.Pin("w", strings.Repeat("w", w+1), someDigest(n)), lock.Save()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if digest, _ := load(t, path).Pinned("weather", "read"); digest != someDigest(3) {
			t.Fatalf("the digest is %q", digest)
		}
	}
	if got, _ := load(t, path).Pinned("w", "ww"); got != someDigest(49) {
		t.Errorf("the last digest is %q", got)
	}
}

// TestReload takes what others have written, and nothing that is broken.
func TestReload(t *testing.T) {
	path := writeFile(t, lockFile)
	lock := load(t, path)
	pinOne(t, lock, "files", "lost", 9)
	if err := os.WriteFile(path, []byte(`{"version":1,"servers":{"weather":{"tools":{"read":"`+someDigest(8)+`"}},"new":{"tools":{"x":"`+someDigest(1)+`"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lock.Reload(); err != nil {
		t.Fatal(err)
	}
	want := map[[2]string]string{{"files", "lost"}: "", {"files", "read"}: "", {"weather", "read"}: someDigest(8), {"new", "x"}: someDigest(1)}
	check := func() {
		t.Helper()
		for of, digest := range want {
			if got, _ := lock.Pinned(of[0], of[1]); got != digest {
				t.Errorf("%v is pinned to %q, want %q", of, got, digest)
			}
		}
	}
	check()
	if err := os.WriteFile(path, []byte(lockFile[:100]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lock.Reload(); err == nil {
		t.Error("half a file is no error")
	}
	check()
	if err := pin.NewLock("").Reload(); err != nil {
		t.Error(err)
	}
}
