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
	"github.com/dovetail-go/dovetail/mcp"
)

// someDigest returns the digest with a number.
func someDigest(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func TestPin(t *testing.T) {
	lock := pin.NewLock("")
	for _, server := range []string{"a", "b"} { // with a tool of the same name
		if err := lock.Pin(server, toolNamed("t"), someDigest(len(server))); err != nil {
			t.Fatal(err)
		}
	}
	if err := lock.Pin("b", toolNamed("t"), someDigest(7)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ server, tool, digest string }{
		{"a", "t", someDigest(1)}, {"b", "t", someDigest(7)}, {"b", "u", ""}, {"c", "t", ""},
	} {
		if got, ok := lock.Pinned(want.server, toolNamed(want.tool)); got != want.digest || ok != (want.digest != "") {
			t.Errorf("%s %s is pinned to %q, %t, want %q", want.server, want.tool, got, ok, want.digest)
		}
	}
}

func TestPinRefuses(t *testing.T) {
	long := strings.Repeat("a", maxName)
	for _, test := range []struct{ server, tool, digest, want string }{
		{"s", "t", "", "expected a digest"},
		{"s", "t", someDigest(1) + "0", "expected a digest"},
		{"s", "t", strings.ToUpper(someDigest(0xabc)), "expected a digest"},
		{"s", "t", strings.Replace(someDigest(1), "sha256", "sha512", 1), "expected a digest"},
		{"s", long + "a", someDigest(1), "tool has 257 bytes, expected at most 256"},
		{long + "a", "t", someDigest(1), "server has 257 bytes, expected at most 256"},
		{"s", "\xff", someDigest(1), "UTF-8"},
		{"s", "a\x00", someDigest(1), "NUL"},
	} {
		lock := pin.NewLock("")
		err := lock.Pin(test.server, toolNamed(test.tool), test.digest)
		if _, ok := lock.Pinned(test.server, toolNamed(test.tool)); ok || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.10s %.10s %s: pinned is %t, the error %v, want %q", test.server, test.tool, test.digest, ok, err, test.want)
		}
	}
	if err := pin.NewLock("").Pin(long, toolNamed(long), someDigest(1)); err != nil {
		t.Error(err)
	}
}

func manyTools(n int) []string {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = tool(fmt.Sprintf("t%05d", i), "")
	}
	return tools
}

// TestTrustIsBounded: a server that lists other names each time leaves pins for the other servers.
func TestTrustIsBounded(t *testing.T) {
	lock := pin.NewLock("")
	p := newFake(manyTools(3000)...)
	g := pin.Wrap(p, "evil", lock, &pin.Options{TrustNew: true, Logger: quiet()})
	g.Catalog()
	for round := range 10 {
		var tools []string
		for i := range 3000 {
			tools = append(tools, tool(fmt.Sprintf("u%d_%05d", round, i), ""))
		}
		p.show(tools...)
		want := 0
		if round == 0 {
			want = maxTrusted - 3000
		}
		if n := g.Catalog().Len(mcp.KindTool); n != want {
			t.Errorf("%d tools of round %d are listed, want %d", n, round, want)
		}
	}
	honest := pin.Wrap(newFake(manyTools(3000)...), "honest", lock, &pin.Options{TrustNew: true, Logger: quiet()})
	if n := honest.Catalog().Len(mcp.KindTool); n != 3000 {
		t.Errorf("%d tools of another server are listed, want 3000", n)
	}
}

func TestLockIsFull(t *testing.T) {
	lock := pin.NewLock("")
	if err := lock.Pin("other", toolNamed("t"), someDigest(1)); err != nil {
		t.Fatal(err)
	}
	for i := range maxPins/maxTrusted - 1 {
		alias := fmt.Sprint("full", i)
		g := pin.Wrap(newFake(manyTools(maxTrusted)...), alias, lock, &pin.Options{TrustNew: true, Logger: quiet()})
		if n := g.Catalog().Len(mcp.KindTool); n != maxTrusted {
			t.Errorf("%d tools are listed, want %d", n, maxTrusted)
		}
	}
	tools := manyTools(maxTrusted - 1)
	p := newFake(tools...)
	g := pin.Wrap(p, "s", lock, &pin.Options{TrustNew: true, Logger: quiet()})
	if n := g.Catalog().Len(mcp.KindTool); n != len(tools) {
		t.Errorf("%d tools are listed, want %d", n, len(tools))
	}
	p.show(tool("t00000", ""), tool("more", ""))
	wantTools(t, g, lock, "t00000", "s more new")
	if err := lock.Accept("s", toolNamed("more")); !errors.Is(err, pin.ErrFull) {
		t.Errorf("the error is %v, want %v", err, pin.ErrFull)
	}
	if err := lock.Pin("other", toolNamed("t"), someDigest(2)); err != nil { // which is pinned already
		t.Error(err)
	}
}

// TestAccept: Accept pins all or none, and only pending tools.
func TestAccept(t *testing.T) {
	lock := pin.NewLock("")
	p := newFake(tool("a", ""), tool("b", ""), `{"name":"c","Name":"c"}`)
	g := pin.Wrap(p, "s", lock, &pin.Options{Logger: quiet()})
	wantTools(t, g, lock, "", "s a new", "s b new", "s c invalid")
	for _, names := range [][]string{{"a", "x"}, {"a", "c"}, {"x"}} {
		var entries []pin.Entry
		for _, name := range names {
			entries = append(entries, toolNamed(name))
		}
		err := lock.Accept("s", entries...)
		if err == nil || errors.Is(err, pin.ErrNotPending) != (names[len(names)-1] == "x") {
			t.Errorf("%q: the error is %v", names, err)
		}
	}
	if err := lock.Accept("other", toolNamed("a")); !errors.Is(err, pin.ErrNotPending) {
		t.Errorf("the error is %v, want %v", err, pin.ErrNotPending)
	}
	wantTools(t, g, lock, "", "s a new", "s b new", "s c invalid")
	if err := lock.Accept("s"); err != nil {
		t.Error(err)
	}
	if err := lock.Accept("s", toolNamed("a"), toolNamed("b")); err != nil {
		t.Fatal(err)
	}
	if pending := lock.Pending(); len(pending) != 1 { // before the next evaluation
		t.Errorf("pending are %+v", pending)
	}
	wantTools(t, g, lock, "a b", "s c invalid")
	if err := lock.Accept("s", toolNamed("a")); !errors.Is(err, pin.ErrNotPending) {
		t.Errorf("the error is %v, want %v", err, pin.ErrNotPending)
	}
}

// TestAcceptPinsWhatWasPending: a definition that the server has changed since is not accepted.
func TestAcceptPinsWhatWasPending(t *testing.T) {
	lock := pin.NewLock("")
	p := newFake(tool("a", "harmless"))
	g := pin.Wrap(p, "s", lock, &pin.Options{Logger: quiet()})
	wantTools(t, g, lock, "", "s a new")
	seen := lock.Pending()[0]
	p.show(tool("a", "harmful"))
	if err := lock.Accept("s", toolNamed("a")); err != nil {
		t.Fatal(err)
	}
	wantTools(t, g, lock, "", "s a changed")
	wantTools(t, g, lock, "", "s a changed")

	// Pin does not depend on the pending definition.
	if err := lock.Pin("s", toolNamed("a"), seen.NewDigest); err != nil {
		t.Fatal(err)
	}
	wantTools(t, g, lock, "", "s a changed")
	p.show(tool("a", "harmless"))
	wantTools(t, g, lock, "a")
}

// lockFile is the content of a file, as Save writes it.
const lockFile = `{
  "version": 2,
  "servers": {
    "files": {
      "tools": {
        "read": "sha256:0000000000000000000000000000000000000000000000000000000000000001",
        "write\n\"": "sha256:0000000000000000000000000000000000000000000000000000000000000002"
      },
      "resourceTemplates": {
        "file:///{path}": "sha256:0000000000000000000000000000000000000000000000000000000000000005"
      },
      "contents": {
        "ui://files/list": "sha256:0000000000000000000000000000000000000000000000000000000000000006"
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
	if err := lock.Pin(server, toolNamed(tool), someDigest(n)); err != nil {
		t.Fatal(err)
	}
}

// TestFileForm: the order in which pins are added does not matter.
func TestFileForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.lock")
	lock := pin.NewLock(path)
	pinOne(t, lock, "weather", "read", 3)
	pinOne(t, lock, "files", "write\n\"", 2)
	pinOne(t, lock, "files", "read", 1)
	for e, digest := range map[pin.Entry]string{{Kind: pin.ResourceTemplate, Name: "file:///{path}"}: someDigest(5), {Kind: pin.Content, Name: "ui://files/list"}: someDigest(6)} {
		if err := lock.Pin("files", e, digest); err != nil {
			t.Fatal(err)
		}
	}
	lock.Pinned("unknown", toolNamed("read"))
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
	if got, want := readFile(t, path), "{\n  \"version\": 2,\n  \"servers\": {}\n}\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	load(t, path)
	load(t, writeFile(t, ` {"servers":{"a":{"tools":{}}},"version":2}`))
}

// TestFileErrors checks the line and the expectation in errors.
func TestFileErrors(t *testing.T) {
	change := func(old, new string) string { return strings.Replace(lockFile, old, new, 1) }
	for text, want := range map[string]string{
		"":                                 `:1: expected an object, found the end of the text`,
		"\n[]":                             `:2: expected an object, found '['`,
		"{}":                               `:1: expected the members ["version" "servers"] of the lock, found 0 of them`,
		"\n\n{\"version\":2}":              `:3: expected the members ["version" "servers"] of the lock, found 1 of them`,
		change(`2,`, `1,`):                 `:2: expected version 2, found 1`,
		change(`2,`, `2.0,`):               `:2: expected version 2, found 2.0`,
		change(`2,`, `"2",`):               `:2: expected a number, found '"'`,
		change(`"version"`, `"Version"`):   `:2: expected one of the members ["version" "servers"] of the lock, found "Version"`,
		change(`2,`, "2,\n\"x\":0,"):       `:3: expected one of the members ["version" "servers"] of the lock, found "x"`,
		change(`2,`, "2,\n\"version\":2,"): `:3: duplicate member "version"`,
		change(`"tools"`, `"pins"`):        `:5: expected a section of pins, such as tools, found "pins"`,
		change(`"weather"`, `"files"`):     `:16: duplicate member "files"`,
		change(`"write\n\""`, `"read"`):    `:7: duplicate member "read"`,
		change(`"read"`, `"\u0000"`):       `:6: a name must not contain NUL`,
		change(`"contents"`, `"tools"`):    `:12: duplicate member "tools"`,
		change(`"contents"`, `"content"`):  `:12: expected a section of pins, such as tools, found "content"`,
		change(`02"`, `0G"`):               `:7: expected a digest, "sha256:" and 64 hexadecimal digits in lower case, found "sha256:00`,
		change(`02"`, `2"`):                `:7: expected a digest`,
		change(`"sha256:0000000000000000000000000000000000000000000000000000000000000002"`, `null`): `:7: expected a string, found 'n'`,
		change(`"read"`, `"`+strings.Repeat("a", 257)+`"`):                                          `:6: the name of a tool has 257 bytes, expected at most 256`,
		change(`"files"`, `"`+strings.Repeat("a", 257)+`"`):                                         `:4: the name of a server has 257 bytes, expected at most 256`,
		lockFile + "x":      `:23: expected the end of the text`,
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

// TestTruncatedFile: a file that is cut anywhere is not a lock.
func TestTruncatedFile(t *testing.T) {
	for n := range len(lockFile) - 1 { // the last line break is optional
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
		t.Error("an empty path is accepted")
	}
	large := writeFile(t, lockFile)
	if err := os.Truncate(large, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := pin.Load(large); err == nil || !strings.Contains(err.Error(), "expected at most 67108864 bytes") {
		t.Errorf("the error is %v", err)
	}
}

// TestLongestFileLoads: MaxFile allows every file that the other limits allow.
func TestLongestFileLoads(t *testing.T) {
	perPin := len(`,\n    "": {\n      "resourceTemplates": {\n        "": ""\n      }\n    }`) + len(someDigest(1)) + 2*len(`\u0001`)*maxName
	if maxPins*perPin+1000 > maxFile {
		t.Errorf("a lock may have %d bytes, its file only %d", maxPins*perPin, maxFile)
	}
}

// TestSaveKeepsOthersChanges: Save does not overwrite a file that another program has changed.
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

// TestSaveFails: Save can be repeated after an error, and leaves no temporary file.
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

// TestSaveOnce: Save does not write the same pins again.
func TestSaveOnce(t *testing.T) {
	path := writeFile(t, lockFile)
	lock := load(t, path)
	files := make([]fs.FileInfo, 4)
	for i := range files {
		pinOne(t, lock, "files", "read", 1+i/2) // the same twice, then another
		save(t, lock)
		var err error
		if files[i], err = os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	if !os.SameFile(files[0], files[1]) || os.SameFile(files[1], files[2]) || !os.SameFile(files[2], files[3]) {
		t.Error("the file was replaced without a change, or was not replaced")
	}
}

// TestFullFile: a file may have MaxPins tools.
func TestFullFile(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"version":2,"servers":{"s":{"tools":{`)
	for i := range maxPins {
		fmt.Fprintf(&text, "%q:%q,\n", fmt.Sprint("t", i), someDigest(i))
	}
	full := strings.TrimSuffix(text.String(), ",\n")
	lock := load(t, writeFile(t, full+"}}}}"))
	if err := lock.Pin("s", toolNamed("more"), someDigest(1)); !errors.Is(err, pin.ErrFull) {
		t.Errorf("the error is %v, want %v", err, pin.ErrFull)
	}
	_, err := pin.Load(writeFile(t, text.String()+`"more":"`+someDigest(1)+`"}}}}`))
	if e, ok := errors.AsType[*pin.FileError](err); !ok || e.Line != maxPins+1 || !errors.Is(err, pin.ErrFull) {
		t.Errorf("the error is %v, want %v", err, pin.ErrFull)
	}
}

// TestSaveKeepsMode: Save keeps the mode of the file and symbolic links.
func TestSaveKeepsMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // which has no such modes
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

// TestReadersSeeWholeFiles: a file can be loaded at any time while others save it.
func TestReadersSeeWholeFiles(t *testing.T) {
	path := writeFile(t, lockFile)
	lock := load(t, path)
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := range 50 {
				if err := errors.Join(lock.Pin("w", toolNamed(strings.Repeat("w", w+1)), someDigest(n)), lock.Save()); err != nil {
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
		if digest, _ := load(t, path).Pinned("weather", toolNamed("read")); digest != someDigest(3) {
			t.Fatalf("the digest is %q", digest)
		}
	}
	if got, _ := load(t, path).Pinned("w", toolNamed("ww")); got != someDigest(49) {
		t.Errorf("the last digest is %q", got)
	}
}

// TestReload: Reload takes the pins of a valid file only.
func TestReload(t *testing.T) {
	path := writeFile(t, lockFile)
	lock := load(t, path)
	pinOne(t, lock, "files", "unsaved", 9)
	if err := os.WriteFile(path, []byte(`{"version":2,"servers":{"weather":{"tools":{"read":"`+someDigest(8)+`"}},"new":{"tools":{"x":"`+someDigest(1)+`"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lock.Reload(); err != nil {
		t.Fatal(err)
	}
	want := map[[2]string]string{{"files", "unsaved"}: "", {"files", "read"}: "", {"weather", "read"}: someDigest(8), {"new", "x"}: someDigest(1)}
	check := func() {
		t.Helper()
		for of, digest := range want {
			if got, _ := lock.Pinned(of[0], toolNamed(of[1])); got != digest {
				t.Errorf("%v is pinned to %q, want %q", of, got, digest)
			}
		}
	}
	check()
	if err := os.WriteFile(path, []byte(lockFile[:100]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lock.Reload(); err == nil {
		t.Error("half a file is accepted")
	}
	check()
	if err := pin.NewLock("").Reload(); err != nil {
		t.Error(err)
	}
}
