package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// A listed package is what `go list` says of one that the module is built from.
type listed struct {
	ImportPath string
	Export     string // file of export data
	GoFiles    []string
}

// build lists the module's packages and all they need once, compiled, for this
// platform.
var build = sync.OnceValues(func() (map[string]*listed, error) {
	out, err := goCommand("list", "-e", "-export", "-deps",
		"-json=ImportPath,Export,GoFiles", "./...")
	if err != nil {
		return nil, err
	}
	packages := map[string]*listed{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages[p.ImportPath] = &p
	}
})

func moduleBuild(t *testing.T) map[string]*listed {
	t.Helper()
	packages, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// compiled returns an importer that reads the export data of the build.
func compiled(packages map[string]*listed) types.Importer {
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		p, ok := packages[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("package %s is not part of the build", name)
		case p.Export == "":
			return nil, fmt.Errorf("package %s does not build", name)
		}
		return os.Open(p.Export)
	})
}

// goCommand runs the go command in the module's folder.
func goCommand(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out, nil
}
