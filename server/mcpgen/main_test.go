package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var update = flag.Bool("update", false, "update testdata")

// TestPackages runs mcpgen for the packages in testdata/*.txtar. A file has a comment and a section
// for each file of the package. The last section is the expected output.
func TestPackages(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no packages: %v", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			input, want := string(text), ""
			if at := strings.Index(input, "-- "+outputName+" --\n"); at >= 0 {
				input, want = input[:at], input[at:]
			}
			folder := extract(t, input)
			succeed(t, folder)
			got := "-- " + outputName + " --\n" + read(t, folder, outputName)
			if *update {
				if err := os.WriteFile(name, []byte(input+got), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("generated file (-want +got):\n%s", diff)
			}
			succeed(t, folder, "-check")
			succeed(t, folder)
			if again := read(t, folder, outputName); !strings.HasSuffix(got, again) {
				t.Error("a second run changes the output")
			}
		})
	}
}

var marker = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

// extract writes the sections of an archive as files.
func extract(t *testing.T, archive string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	marks := marker.FindAllStringSubmatchIndex(archive, -1)
	for i, mark := range marks {
		end := len(archive)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		write(t, folder, archive[mark[2]:mark[3]], archive[mark[1]:end])
	}
	return folder
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mcpgen runs the program for a folder.
func mcpgen(folder string, flags ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(append(flags, folder), &out, &errs)
	return status, out.String(), errs.String()
}

func succeed(t *testing.T, folder string, flags ...string) {
	t.Helper()
	if status, stdout, stderr := mcpgen(folder, flags...); status != 0 || stdout+stderr != "" {
		t.Fatalf("mcpgen %q: status %d, %s%s", flags, status, stdout, stderr)
	}
}

const ping = `package shop

import (
	"context"

	"github.com/dovetail-go/dovetail/server"
)

type Shop struct{}

// Ping answers.
func (Shop) Ping(context.Context, struct{ _ server.ToolTag }) error { return nil }
`

// Errors have a position, and nothing is written.
func TestErrors(t *testing.T) {
	for name, test := range map[string]struct{ archive, says string }{
		"syntax error": {"-- a.go --\npackage a\n\nfunc\n", `a\.go:3:6: expected`},
		"Descriptions by hand": {
			"-- a.go --\n" + ping + "\nfunc (*Shop) Descriptions() server.Descriptions { return nil }\n",
			`a\.go:14: Shop has a method Descriptions already`,
		},
		"two packages":    {"-- a.go --\npackage a\n-- b.go --\npackage b\n", `b\.go:1: it is in package b`},
		"no Go files":     {"-- a_test.go --\npackage a\n", `it contains no Go files`},
		"no service":      {"-- a.go --\npackage a\n\ntype A struct{}\n", `there is no service in package a`},
		"no receiver":     {"-- a.go --\npackage a\n\nfunc () Run() {}\n", `no service`},
		"missing package": {"-- go.mod --\nmodule a\n-- a.go --\npackage a\n\nimport \"example.com/none\"\n\ntype A struct{ none.None }\n", `a\.go:5: package example.com/none cannot be found`},
		"broken package": {
			"-- go.mod --\nmodule example.com/a\n-- b/b.go --\npackage\n-- a.go --\npackage a\n\nimport \"example.com/a/b\"\n\ntype A struct{ *b.B }\n", `b\.go:1:9: expected`,
		},
		"circle": {"-- a.go --\npackage a\n\ntype A struct{ B }\n\ntype (\n\tB = C\n\tC = B\n)\n", `a\.go:\d+: .* circularly`},
		"type of itself": {
			"-- a.go --\npackage a\n\nimport \"context\"\n\ntype A A\n\nfunc (A) Run(context.Context, A) error { return nil }\n", `there is no service`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := extract(t, test.archive)
			for _, flags := range [][]string{nil, {"-check"}} {
				status, stdout, stderr := mcpgen(folder, flags...)
				if status != 1 || stdout != "" || !regexp.MustCompile(test.says).MatchString(stderr) {
					t.Errorf("%q: status %d, %s%s, want %s", flags, status, stdout, stderr, test.says)
				}
			}
			if _, err := os.Stat(filepath.Join(folder, outputName)); err == nil {
				t.Error("a file was written")
			}
		})
	}
	if status, _, stderr := mcpgen(filepath.Join(t.TempDir(), "none")); status != 1 || !strings.Contains(stderr, "none") {
		t.Errorf("a folder that does not exist: status %d, %s", status, stderr)
	}
}

func TestOtherFileIsNotOverwritten(t *testing.T) {
	folder := extract(t, "-- shop.go --\n"+ping)
	const foreign = "package shop\n\n// Code generated by mcpgen; DO NOT EDIT.\n"
	write(t, folder, outputName, foreign)
	for _, flags := range [][]string{nil, {"-check"}} {
		if status, _, stderr := mcpgen(folder, flags...); status != 1 || !strings.Contains(stderr, outputName+":1: mcpgen did not write this file") {
			t.Errorf("%q: status %d, %s", flags, status, stderr)
		}
	}
	if got := read(t, folder, outputName); got != foreign {
		t.Errorf("the file is now\n%s", got)
	}
}

// -check prints a diff and does not change the file.
func TestCheck(t *testing.T) {
	folder := extract(t, "-- shop.go --\n"+ping)
	wantStale := func(difference string) {
		t.Helper()
		status, stdout, stderr := mcpgen(folder, "-check")
		if status != 1 || !strings.HasSuffix(stdout, difference) || !strings.Contains(stderr, outputName+" is not up to date") {
			t.Errorf("status %d, %s%s, want the difference\n%s", status, stdout, stderr, difference)
		}
	}
	wantStale("+\t}\n+}\n")
	if _, err := os.Stat(filepath.Join(folder, outputName)); err == nil {
		t.Error("-check wrote the file")
	}
	succeed(t, folder)
	before := read(t, folder, outputName)
	write(t, folder, "shop.go", strings.Replace(ping, "Ping answers", "Ping says pong", 1))
	wantStale("@@ -10,1 +10,1 @@\n-\t\t\"Ping\": \"Answers.\",\n+\t\t\"Ping\": \"Says pong.\",\n")
	if after := read(t, folder, outputName); after != before {
		t.Errorf("-check wrote\n%s", after)
	}
	succeed(t, folder)
	succeed(t, folder, "-check")
}

func TestDiff(t *testing.T) {
	for _, test := range []struct{ before, after, want string }{
		{"", "", ""},
		{"a\n", "a\n", ""},
		{"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"},
		{"a\nb\nc\n", "a\nc\n", "@@ -2,1 +1,0 @@\n-b\n"},
		{"a\nc\n", "a\nb\nc\n", "@@ -1,0 +2,1 @@\n+b\n"},
		{"a\na\n", "a\na\na\n", "@@ -2,0 +3,1 @@\n+a\n"},
	} {
		if got := diff(test.before, test.after); got != test.want {
			t.Errorf("diff(%q, %q) = %q, want %q", test.before, test.after, got, test.want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"-h"}, 0, "usage: mcpgen"},
		{[]string{"-write"}, 2, "usage: mcpgen"},
		{[]string{"a", "b"}, 2, "usage: mcpgen"},
	} {
		var stdout, stderr strings.Builder
		if status := run(test.args, &stdout, &stderr); status != test.status || !strings.Contains(stderr.String(), test.says) {
			t.Errorf("mcpgen %q: status %d, %s", test.args, status, &stderr)
		}
	}
	// The default is the current folder, as with go generate.
	t.Chdir(extract(t, "-- shop.go --\n"+ping))
	if status := run(nil, os.Stdout, os.Stderr); status != 0 {
		t.Errorf("status %d", status)
	}
	if _, err := os.Stat(outputName); err != nil {
		t.Error(err)
	}
}

// TestProgram runs a program with generated descriptions and checks what its clients get.
func TestProgram(t *testing.T) {
	const program = "testdata/shop"
	if *update {
		succeed(t, program)
	}
	succeed(t, program, "-check")
	cmd := exec.Command("go", "run", "./"+program)
	cmd.Stderr = os.Stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join(program, "output.txt")
	if *update {
		if err := os.WriteFile(golden, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, program, "output.txt"), string(got)); diff != "" {
		t.Errorf("descriptions that clients get (-want +got):\n%s", diff)
	}
}
