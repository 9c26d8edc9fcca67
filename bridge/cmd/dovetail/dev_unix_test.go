//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// fakeGo writes a program in place of the go command. It fails if the folder of -C has the file broken. The built
// program is the test server. It writes its working directory to the file ran.
func fakeGo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "go")
	script := `#!/bin/sh
[ "$1 $2 $4" = "build -C -o" ] && [ ! -e "$3/broken" ] || { echo "main.go:3: undefined: x"; exit 1; }
printf '#!/bin/sh\npwd >ran\nunset ` + asProgram + `\nexport ` + asServer + `=1\nexec "` + child(t)[1] + `"\n' >"$5"
chmod +x "$5"
`
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// startDev runs the program until the end of the test.
func startDev(t *testing.T, line []string) *output {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	said := &output{}
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, line, strings.NewReader(""), io.Discard, said)
		said.close()
		ended <- err
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	return said
}

// A server that cannot be built at first starts after a change, as go run would have started it.
func TestDevAfterBrokenBuild(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			source := t.TempDir()
			broken := filepath.Join(source, "broken")
			write(t, broken, "")
			line := []string{"dev", "-quiet", "-interval", "10ms", "-http", "localhost:0", "--", fakeGo(t), "run", "-C", source, "./server"}
			said := startDev(t, line)
			url := said.await(t, `serving  (http://[\d.:]+/mcp)`)[1]
			session := connect(t, streamable.Dial(url, nil), era)
			if names := toolNames(t, session); len(names) != 0 {
				t.Errorf("tools %v before the first build", names)
			}
			if err := os.Remove(broken); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(source, "main.go"), "package main")
			said.await(t, "the server was replaced")
			if names := toolNames(t, session); !names["greet"] {
				t.Errorf("tools %v after the change:\n%s", names, said)
			}
			if ran, err := os.ReadFile(filepath.Join(source, "ran")); err != nil || strings.TrimSpace(string(ran)) != source {
				t.Errorf("the server ran in %s, error %v", ran, err)
			}
		})
	}
}

// TestDevShowsBuilds: the page of dev has the output of a failed build, also if it is opened later, and then the tools that
// the next build has changed. It has the calls of the client, which stays connected.
func TestDevShowsBuilds(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		for _, flags := range [][]string{nil, {"-http", "localhost:0"}} {
			t.Run(strings.Join(append(flags, era.String()), " "), func(t *testing.T) {
				source, said := t.TempDir(), &output{}
				broken := filepath.Join(source, "broken")
				write(t, broken, "")
				line := append(append([]string{"dev", "-quiet", "-interval", "10ms"}, flags...), "--", fakeGo(t), "run", "-C", source, "./server")
				dialer := programDialer(t, said, line...)
				if flags != nil { // its clients do not start it
					said = startDev(t, line)
					dialer = streamable.Dial(said.await(t, `serving  (http://[\d.:]+/mcp)`)[1], nil)
				}
				session := connect(t, dialer, era)
				page := openConsole(t, said)
				var build struct {
					State, File, Text string
					Took              int
					Added, Removed    []string
				}
				page.until("build", &build, func() bool { return true })
				if build.State != "failed" || build.File != "" || build.Took <= 0 || build.Text != "main.go:3: undefined: x\n" {
					t.Errorf("the first build is %+v", build)
				}
				if err := os.Remove(broken); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(source, "main.go"), "package main")
				page.until("build", &build, func() bool { return build.State == "built" })
				if build.File != "main.go" || build.Text != "" || !slices.Contains(build.Added, "greet") || len(build.Removed) > 0 {
					t.Errorf("the second build is %+v", build)
				}
				if _, err := session.CallTool(t.Context(), "greet", greeting{"ada"}, nil); err != nil {
					t.Fatal(err)
				}
				var kept struct {
					Recording bool
					Messages  []struct{ From, What, Version, Text string }
				}
				page.ask(fmt.Sprintf(`"do":"messages","call":%d`, page.row("greet", "ok")), &kept)
				var exchanged []string
				for _, m := range kept.Messages {
					exchanged = append(exchanged, m.From+" "+m.What)
				}
				if want := []string{"client tools/call", "to server tools/call", "server result", "to client result"}; !slices.Equal(exchanged, want) || !kept.Recording || kept.Messages[0].Version != string(session.Version()) {
					t.Errorf("the messages are %+v", kept)
				}
			})
		}
	}
}

// The lines of a start that fails are shown once for each change of the source, although the bridge starts the server
// again and again.
func TestDevShowsAFailedStartOnce(t *testing.T) {
	source := t.TempDir()
	script := filepath.Join(source, "server.sh")
	starts := filepath.Join(t.TempDir(), "starts")
	write(t, script, "echo start >>"+starts+"; echo 'Error: boom' >&2; exit 3")
	ctx, cancel := context.WithCancel(t.Context())
	said := &output{}
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"dev", "-quiet", "-interval", "10ms", "-http", "localhost:0", "-watch", source, "--", "sh", script}, strings.NewReader(""), io.Discard, said)
	}()
	counted := func() int {
		text, _ := os.ReadFile(starts) // there is none before the first start
		return strings.Count(string(text), "start")
	}
	waittest.Until(t, "four starts", func() bool { return counted() >= 4 })
	write(t, script, "echo start >>"+starts+"; echo 'Error: boom' >&2; exit 3 # again")
	if text := said.await(t, "the server was not replaced.*")[0]; !strings.HasSuffix(text, `exit status 3: "Error: boom"`) {
		t.Error(text)
	}
	before := counted()
	waittest.Until(t, "four more starts", func() bool { return counted() >= before+4 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := strings.Count(said.String(), "server: Error: boom\n"); got != 2 {
		t.Errorf("the error is shown %d times, want once for each source:\n%s", got, said)
	}
}
