package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stdioServer is a server that supports only stdio.
const stdioServer = "./internal/test/archtest/testdata/stdioserver"

// maxStdioServer is the maximum size in bytes of the stripped program.
const maxStdioServer = 7_180_000

func TestStdioServerLinksNoHTTP(t *testing.T) {
	t.Parallel()
	out, err := goCommand("list", "-deps", stdioServer)
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, modulePath+"/server") {
		t.Fatalf("the program does not link the server package: %q", linked)
	}
	for _, name := range linked {
		if name == "net/http" || strings.HasPrefix(name, "net/http/") {
			t.Errorf("a server that supports only stdio links %s", name)
		}
	}
}

func TestStdioServerIsSmall(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "stdioserver")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, stdioServer)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("stripped: %d bytes of at most %d", info.Size(), maxStdioServer)
	if info.Size() > maxStdioServer {
		t.Errorf("a stdio server has %d bytes, want at most %d", info.Size(), maxStdioServer)
	}
}
