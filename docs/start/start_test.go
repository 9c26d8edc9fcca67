package start_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// build builds a program of the guide and returns its path.
func build(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", path, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// readText returns the text of a file with the line endings of the programs.
func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// runClient runs the client and compares its output with the one in the guide.
func runClient(t *testing.T, path string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if want := readText(t, "testdata/output.txt"); string(out) != want {
		t.Errorf("the client printed\n%s\nwant\n%s", out, want)
	}
}

// serveHTTP runs the server at a free port, and returns its URL and what ends it.
func serveHTTP(t *testing.T, path string) (url string, stop func()) {
	t.Helper()
	ctx, kill := context.WithTimeout(t.Context(), time.Minute)
	cmd := exec.CommandContext(ctx, path, "-http", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url = loggedURL(t, stderr)
	return url, func() {
		defer kill()
		if runtime.GOOS == "windows" {
			kill()
		} else if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil && runtime.GOOS != "windows" {
			t.Errorf("after an interrupt, the server ended with %v", err)
		}
	}
}

// loggedURL returns the URL of a server that logs its address.
func loggedURL(t *testing.T, log io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(log)
	address := regexp.MustCompile(`address=(\S+)`)
	for lines.Scan() {
		if match := address.FindStringSubmatch(lines.Text()); match != nil {
			return "http://" + match[1] + "/mcp"
		}
	}
	t.Error("the server logged no address")
	return ""
}

// TestBoth runs the program that serves both transports. The end of its input ends HTTP too, and an address that is in use
// ends the program.
func TestBoth(t *testing.T) {
	path := build(t, "both")
	ctx, kill := context.WithTimeout(t.Context(), time.Minute)
	defer kill()
	cmd := exec.CommandContext(ctx, path, "-http", "127.0.0.1:0")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url := loggedURL(t, stderr)
	session, err := client.Connect(ctx, streamable.Dial(url, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	pong, err := client.CallAs[string](ctx, session, "ping", nil, nil)
	if err != nil || pong != "pong" {
		t.Errorf("over HTTP: %q, %v", pong, err)
	}
	session.Close()
	if _, err := io.WriteString(input, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || !strings.Contains(line, `"result"`) {
		t.Errorf("over stdio: %q, %v", line, err)
	}

	taken := exec.CommandContext(ctx, path, "-http", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
	if _, err := taken.StdinPipe(); err != nil { // it stays open
		t.Fatal(err)
	}
	if out, err := taken.CombinedOutput(); err == nil || ctx.Err() != nil || !strings.Contains(string(out), "address") {
		t.Errorf("at an address in use: %v\n%s", err, out)
	}

	input.Close()
	_, _ = io.Copy(io.Discard, stderr)
	if err := cmd.Wait(); err != nil {
		t.Errorf("at the end of the input, the program ended with %v", err)
	}
}

// TestPrograms runs the server and the client of the guide, over both transports, and
// connects to the server as the configuration files say.
func TestPrograms(t *testing.T) {
	serverPath, clientPath := build(t, "server"), build(t, "client")
	url, stop := serveHTTP(t, serverPath)
	defer stop()
	t.Run("stdio", func(t *testing.T) { runClient(t, clientPath, serverPath) })
	t.Run("http", func(t *testing.T) { runClient(t, clientPath, url) })
	for _, name := range []string{"mcp.json", "vscode.json"} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer(
				"/home/ada/calc/calc", filepath.ToSlash(serverPath),
				"http://127.0.0.1:8080/mcp", url,
			).Replace(readText(t, name))
			file, err := config.Parse([]byte(text), name)
			if err != nil {
				t.Fatal(err)
			}
			if len(file.Warnings) > 0 {
				t.Errorf("warnings: %v", file.Warnings)
			}
			servers, err := file.Expand(t.Context(), &config.Expander{})
			if err != nil {
				t.Fatal(err)
			}
			for _, server := range servers {
				dialer, err := server.Dialer(nil)
				if err != nil {
					t.Fatal(err)
				}
				session, err := client.Connect(t.Context(), dialer, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := session.Server().Name; got != "calc" {
					t.Errorf("the server is %q", got)
				}
				session.Close()
			}
		})
	}
}
