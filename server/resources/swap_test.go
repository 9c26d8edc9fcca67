package resources_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/resources"
)

const (
	// swapTime is how long files are replaced while they are read.
	swapTime = 400 * time.Millisecond
	// swapTimeout is how long a busy machine may take to show an effect.
	swapTimeout = 10 * time.Second
)

// While files are exchanged, a reader gets only offered content or an error, and never blocks.
func TestReadWhileSwapped(t *testing.T) {
	for name, c := range map[string]struct {
		swap string // the file that is exchanged with "dir" or "dir/doc"
		with string // a link's target, or "fifo"
		uri  string
		file bool // read as a single file
	}{
		"directory and link to outside":      {swap: "dir", with: "../outside", uri: "dir/doc"},
		"directory and link to hidden one":   {swap: "dir", with: ".hidden", uri: "dir/doc"},
		"file and link to outside":           {swap: "dir/doc", with: "../../outside/doc", uri: "dir/doc"},
		"file and absolute link to outside":  {swap: "dir/doc", with: "OUTSIDE/outside/doc", uri: "dir/doc"},
		"file and link to hidden one":        {swap: "dir/doc", with: "../.hidden/doc", uri: "dir/doc"},
		"file and pipe":                      {swap: "dir/doc", with: "fifo", uri: "dir/doc"},
		"directory and pipe":                 {swap: "dir", with: "fifo", uri: "dir/doc"},
		"single file and link to outside":    {swap: "dir/doc", with: "../../outside/doc", uri: "dir/doc", file: true},
		"single file, directory and outside": {swap: "dir", with: "../outside", uri: "dir/doc", file: true},
		"single file and pipe":               {swap: "dir/doc", with: "fifo", uri: "dir/doc", file: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := open(t, map[string]string{"dir/doc": "open", ".hidden/doc": "secret"})
			outside := filepath.Dir(root.Name())
			write(t, filepath.Join(outside, "outside", "doc"), "secret")
			if c.with == "fifo" {
				if !makeFIFO(t, root, "other") {
					t.Skip("this system has no pipes in directories")
				}
			} else if err := os.Symlink(strings.ReplaceAll(c.with, "OUTSIDE", outside), filepath.Join(root.Name(), "other")); err != nil {
				t.Fatal(err)
			}
			entries := directory(t, root, &resources.DirectoryOptions{Pattern: "**"})
			if c.file {
				entries = []*server.Entry{file(t, root, c.uri, nil)}
			}
			session := serve(t, entries...)
			stop := keepSwapping(t, filepath.Join(root.Name(), c.swap), filepath.Join(root.Name(), "other"))
			defer stop()
			got := make(map[string]int)
			enough := func(took time.Duration) bool {
				return took > swapTimeout || took > swapTime && got["text"] > 0 && got["nothing"] > 0
			}
			for begin := time.Now(); !enough(time.Since(begin)); {
				contents, err := read(session, "file:///"+c.uri)
				switch found, ok := contents.(*mcp.TextResourceContents); {
				case err != nil:
					got["nothing"]++
				case !ok || found.Text != "open":
					t.Fatalf("what was read is %+v", contents)
				default:
					got["text"]++
				}
			}
			if got["text"] == 0 || got["nothing"] == 0 {
				t.Errorf("no file was exchanged during a read: %v", got)
			}
		})
	}
}

// A file that is replaced by renaming can always be read.
func TestReadWhileReplaced(t *testing.T) {
	root := open(t, map[string]string{"doc": "1"})
	session := serve(t, append(directory(t, root, nil), file(t, root, "doc", &resources.FileOptions{Resource: server.Resource{URI: "app:doc"}}))...)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for version := "2"; ; version = string("21"[version[0]-'1']) {
			select {
			case <-done:
				return
			default:
			}
			root.WriteFile("doc.new", []byte(version), 0o666)
			root.Rename("doc.new", "doc")
		}
	}()
	defer func() { close(done); <-ended }()
	for begin := time.Now(); time.Since(begin) < swapTime; {
		for _, uri := range []string{"file:///doc", "app:doc"} {
			if got := text(t, session, uri); got != "1" && got != "2" {
				t.Fatalf("%s content %q", uri, got)
			}
		}
	}
}

// keepSwapping exchanges two names until stop is called.
func keepSwapping(t *testing.T, one, other string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		aside := other + ".aside"
		for {
			for _, move := range [][2]string{{one, aside}, {other, one}, {one, other}, {aside, one}} {
				if err := os.Rename(move[0], move[1]); err != nil {
					t.Error(err)
					return
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	return func() { close(done); <-ended }
}
