package start_test

import (
	"bufio"
	"context"
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
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// build builds both programs of the guide and returns their paths.
func build(t *testing.T) (serverPath, clientPath string) {
	t.Helper()
	folder := t.TempDir()
	out, err := exec.Command("go", "build", "-o", folder+string(filepath.Separator), "./server", "./client").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	return filepath.Join(folder, "server"+suffix), filepath.Join(folder, "client"+suffix)
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
	lines := bufio.NewScanner(stderr)
	address := regexp.MustCompile(`address=(\S+)`)
	for url == "" && lines.Scan() {
		if match := address.FindStringSubmatch(lines.Text()); match != nil {
			url = "http://" + match[1] + "/mcp"
		}
	}
	if url == "" {
		t.Error("the server logged no address")
	}
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

// TestPrograms runs the server and the client of the guide, over both transports, and
// connects to the server as the configuration files say.
func TestPrograms(t *testing.T) {
	serverPath, clientPath := build(t)
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
