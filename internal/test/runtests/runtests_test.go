//go:build soak

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// programs are the test files of packages, by package name.
var programs = map[string]string{
	"passing": `
func TestOne(t *testing.T) {}
func TestTwo(t *testing.T) { t.Skip("not now") }`,

	"failing": `
func TestFails(t *testing.T) { t.Error("two is not three") }`,

	"flaky": `
func TestFailsOnce(t *testing.T) {
	if _, err := os.Stat("failed"); err != nil {
		_ = os.WriteFile("failed", nil, 0o600)
		t.Error("for the first time")
	}
}`,

	"racing": `
func TestRaces(t *testing.T) {
	n := 0
	done := make(chan bool)
	go func() { n++; done <- true }()
	n++
	<-done
}`,

	"panicking": `
func TestPanics(t *testing.T) { panic("no more") }`,

	"hanging": `
func TestHangs(t *testing.T) { select {} }`,

	"leaking": `
func TestPasses(t *testing.T) {}
func TestMain(m *testing.M) { m.Run(); println("leaktest: 1 goroutines outlive the tests"); os.Exit(1) }`,

	"silent": `
func TestPasses(t *testing.T) {}
func TestMain(*testing.M) {}`,

	"broken": `
func TestBroken(t *testing.T) { undefined() }`,
}

// write writes a module with the packages.
func write(t *testing.T) module {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module example.com/m\n\ngo 1.26.0\n"}
	for name, text := range programs {
		head := "package " + name + "\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Args\n"
		files[name+"/"+name+"_test.go"] = head + text
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return module{dir: dir}
}

// Only a failed assertion that does not come again is forgiven.
func TestFailures(t *testing.T) {
	m := write(t)
	for name, test := range map[string]struct {
		code int
		want []string
	}{
		"passing":   {0, []string{"ok", "1 passed, 0 failed, 1 skipped"}},
		"failing":   {1, []string{"two is not three", "TestFails failed again, busy: true", "FAILED example.com/m/failing TestFails", "0 passed, 1 failed"}},
		"flaky":     {0, []string{"for the first time", "FLAKY TestFailsOnce 7", "1 passed, 0 failed, 0 skipped"}},
		"racing":    {1, []string{"data race", "DATA RACE", "0 passed, 1 failed"}},
		"panicking": {1, []string{"panic", "no more", "0 passed, 1 failed"}},
		"hanging":   {1, []string{"timeout", "TestHangs", "0 passed, 1 failed"}},
		"leaking":   {1, []string{"goroutine leak", "1 failed"}},
		"silent":    {1, []string{"tests that did not run: TestPasses", "1 failed"}},
		"broken":    {1, []string{"undefined: undefined"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			limit := time.Minute
			if name == "hanging" {
				limit = time.Second
			}
			code := run(t.Context(), options{
				modules: []module{m}, packages: []string{"./" + name}, lanes: 1, seed: 7, timeout: limit, repeat: time.Minute,
			}, &out)
			if code != test.code {
				t.Errorf("exit status %d, want %d", code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q", want)
				}
			}
			if repeated := strings.Contains(out.String(), "again"); repeated != (name == "failing") {
				t.Errorf("repeated: %t", repeated)
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

// A third test that fails by chance fails the run.
func TestTooManyFlakyTests(t *testing.T) {
	flaky := filepath.Join(t.TempDir(), "flaky")
	for i, want := range []int{0, 0, 1} {
		var out bytes.Buffer
		code := run(t.Context(), options{
			modules: []module{write(t)}, packages: []string{"./flaky"}, lanes: 1, seed: 7, flaky: flaky, timeout: time.Minute, repeat: time.Minute,
		}, &out)
		if code != want {
			t.Errorf("run %d: exit status %d, want %d\n%s", i+1, code, want, &out)
		}
	}
}

func TestModeOfTests(t *testing.T) {
	dir := t.TempDir()
	text := `package m

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"example.com/m/kit"
)

type server struct{}

func (server) listen() { _ = http.ListenAndServe }

func serve() { server{}.listen() }

func TestPlain(t *testing.T)     {}
func TestGo(t *testing.T)        { go func() {}() }
func TestWaitGroup(t *testing.T) { var w sync.WaitGroup; w.Go(func() {}) }
func TestServes(t *testing.T)    { serve() }
func TestVirtual(t *testing.T)   { synctest.Test(t, func(t *testing.T) { serve() }) }
func TestKit(t *testing.T)       { kit.Run(t) }
func TestKitVirtual(t *testing.T) { kit.RunVirtual(t) }
func TestCounts(t *testing.T)    { testing.AllocsPerRun(1, serve) }
func FuzzPlain(f *testing.F)     {}
func Test(t *testing.T)          {}
func Testament(t *testing.T)     {}

func Example() {
	// Output:
}

func ExampleNotRun() {}
`
	kit := `package kit

import (
	"testing"
	"testing/synctest"
)

func Run(t *testing.T)        { go t.Log() }
func RunVirtual(t *testing.T) { virtually(t) }
func virtually(t *testing.T)  { synctest.Test(t, func(*testing.T) {}) }
`
	if err := os.Mkdir(filepath.Join(dir, "kit"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n", "m_test.go": text, "m.go": "package m\n\nfunc NotRun() {}\n", "kit/kit.go": kit,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want map[mode][]string) {
		t.Helper()
		packages, err := module{dir: dir}.list(context.Background(), []string{"./..."})
		if err != nil || len(packages) != 1 {
			t.Fatal(len(packages), err)
		}
		for _, m := range []mode{plain, real, virtual, allocating} {
			if got := slices.Sorted(slices.Values(packages[0].tests[m])); !slices.Equal(got, want[m]) {
				t.Errorf("%v: %q, want %q", m, got, want[m])
			}
		}
	}
	check(map[mode][]string{
		plain:      {"Example", "FuzzPlain", "Test", "TestPlain"},
		real:       {"TestGo", "TestKit", "TestServes", "TestWaitGroup"},
		virtual:    {"TestKitVirtual", "TestVirtual"},
		allocating: {"TestCounts"},
	})
	text = strings.Replace(text, "testing.AllocsPerRun(1, serve)", "serve()", 1)
	if err := os.WriteFile(filepath.Join(dir, "m_test.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	check(map[mode][]string{ // one binary
		real:    {"Example", "FuzzPlain", "Test", "TestCounts", "TestGo", "TestKit", "TestPlain", "TestServes", "TestWaitGroup"},
		virtual: {"TestKitVirtual", "TestVirtual"},
	})
}

// TestModuleWithoutRaceDetector: the tests of a plain module run, also those that race.
func TestModuleWithoutRaceDetector(t *testing.T) {
	m := write(t)
	m.plain = true
	var out bytes.Buffer
	code := run(t.Context(), options{
		modules: []module{m}, packages: []string{"./racing"}, lanes: 1, seed: 7, timeout: time.Minute, repeat: time.Minute,
	}, &out)
	if code != 0 || !strings.Contains(out.String(), "1 passed, 0 failed") {
		t.Errorf("exit status %d\n%s", code, &out)
	}
}
