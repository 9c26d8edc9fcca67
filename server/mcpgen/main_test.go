package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var update = flag.Bool("update", false, "write what mcpgen writes into testdata")

// TestPackages generates for the packages in testdata/*.txtar. A file is a comment and
// sections, the package's files; what mcpgen writes or says is the last of them.
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
				t.Errorf("mcpgen writes another file (-want +got):\n%s", diff)
			}
			succeed(t, folder, "-check")
			succeed(t, folder)
			if again := read(t, folder, outputName); !strings.HasSuffix(got, again) {
				t.Error("what mcpgen has written changes what it writes")
			}
		})
	}
}

var marker = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

// extract writes the sections of an archive into a folder, as files.
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

// mcpgen runs the command for a folder.
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
