package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The programs are one server with one typed tool, over stdio and over HTTP.
const (
	stdioServer = "./internal/test/archtest/testdata/stdioserver"
	httpServer  = "./internal/test/archtest/testdata/httpserver"
)

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

func TestServersAreSmall(t *testing.T) {
	t.Parallel()
	// The limits in bytes are about half a percent above the sizes, which CONTRIBUTING.md explains.
	for program, limit := range map[string]int64{
		stdioServer: 7_070_000,
		httpServer:  10_660_000,
	} {
		t.Run(filepath.Base(program), func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "server")
			cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, program)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			info, err := os.Stat(binary)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("stripped: %d bytes of at most %d", info.Size(), limit)
			if info.Size() > limit {
				t.Errorf("the program has %d bytes, want at most %d", info.Size(), limit)
			}
		})
	}
}
