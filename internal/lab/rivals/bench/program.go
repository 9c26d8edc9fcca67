package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A program is built into a temporary folder.
type program struct {
	folder string
	cpu    time.Duration // of the build
}

// buildProgram builds a package below the folder of this program, with one more file, and strips the program. It needs Go, and a
// working directory in this module or its workspace.
func buildProgram(ctx context.Context, pkg, name string, file []byte, flags ...string) (_ *program, err error) {
	source, err := sourceFolder(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "dovetail-bench")
	if err != nil {
		return nil, err
	}
	built := &program{folder: folder}
	defer func() {
		if err != nil {
			err = errors.Join(err, built.remove())
		}
	}()
	added, overlayFile := filepath.Join(folder, name), filepath.Join(folder, "overlay.json")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(source, pkg, name): added}})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(added, file, 0o600), os.WriteFile(overlayFile, overlay, 0o600)); err != nil {
		return nil, err
	}
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-overlay", overlayFile, "-o", built.path()}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	built.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return built, nil
}

// sourceFolder asks Go, because -trimpath removes the path from this program.
func sourceFolder(ctx context.Context) (string, error) {
	folder, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/dovetail-go/dovetail/internal/lab/rivals/bench").Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of this program: %w", err)
	}
	return strings.TrimSpace(string(folder)), nil
}

func (p *program) path() string { return filepath.Join(p.folder, "program.exe") }

func (p *program) remove() error { return os.RemoveAll(p.folder) }

// buildHello builds the server of a peer with one tool. The folder hello has one for each peer and
// transport. The main package is compiled and linked each time; other packages are not.
func buildHello(ctx context.Context, peer string, transport Transport) (*program, error) {
	if peer == bare {
		return nil, errAbsent
	}
	place := "http"
	if transport == Stdio {
		place = "stdio"
	}
	changed := fmt.Appendf(nil, "package main\n\n// Changed at %d.\n", time.Now().UnixNano())
	return buildProgram(ctx, "hello/"+peer+"-"+place, "changed.go", changed)
}

// A building measures a build after a change of the main package, and the size of the program.
type building struct {
	peer string
	work Work
}

func openBuild(_ context.Context, p Peer, w Work) (meter, error) {
	if p.Name() == bare {
		return nil, errAbsent
	}
	return &building{p.Name(), w}, nil
}

func (b *building) Close() error { return nil }

func (b *building) measure(ctx context.Context, _ time.Duration) (Sample, error) {
	built, err := buildHello(ctx, b.peer, b.work.Transport)
	if err != nil {
		return Sample{}, err
	}
	info, err := os.Stat(built.path())
	if err := errors.Join(err, built.remove()); err != nil {
		return Sample{}, err
	}
	return Sample{CPU: built.cpu, Bytes: float64(info.Size())}, nil
}

// A starting measures what happens between a client and a server that is one of the small programs.
type starting struct {
	calling
	program *program
}

func openStart(ctx context.Context, p Peer, w Work) (meter, error) {
	built, err := buildHello(ctx, p.Name(), w.Transport)
	if err != nil {
		return nil, err
	}
	w.Program = built.path()
	r, err := p.Open(ctx, w)
	if err != nil {
		return nil, errors.Join(err, built.remove())
	}
	return &starting{calling{r, w}, built}, nil
}

func (s *starting) Close() error { return errors.Join(s.calling.Close(), s.program.remove()) }
