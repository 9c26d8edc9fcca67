package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxSources is the number of files that are watched.
const maxSources = 20_000

// A sourceWatcher detects changes of source files by their sizes and times. Notifications of the operating system miss
// some of the ways in which editors replace files.
type sourceWatcher struct {
	folder     string
	extensions []string
}

func newSourceWatcher(folder string, extensions []string) *sourceWatcher {
	return &sourceWatcher{folder, extensions}
}

// snapshot returns the state of each file. Hidden folders, node_modules, vendor and testdata are
// left out.
func (w *sourceWatcher) snapshot() map[string]string {
	states := make(map[string]string)
	_ = filepath.WalkDir(w.folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil { // a file that was removed
			return nil
		}
		name := d.Name()
		if d.IsDir() {
			if path != w.folder && (strings.HasPrefix(name, ".") || slices.Contains([]string{"node_modules", "vendor", "testdata"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !slices.Contains(w.extensions, strings.TrimPrefix(filepath.Ext(name), ".")) || strings.HasPrefix(name, ".") {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		states[path] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		if len(states) == maxSources {
			return fs.SkipAll
		}
		return nil
	})
	return states
}

// wait returns when the files differ from before and have not changed for one interval. changed is
// one of the files. ok is false when ctx has ended.
func (w *sourceWatcher) wait(ctx context.Context, interval time.Duration, before map[string]string) (after map[string]string, changed string, ok bool) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := before
	for {
		select {
		case <-ctx.Done():
			return nil, "", false
		case <-ticker.C:
		}
		now := w.snapshot()
		name := differs(before, now)
		if name != "" && differs(last, now) == "" {
			return now, name, true
		}
		last = now
	}
}

// differs returns the name of a file that differs, or "".
func differs(a, b map[string]string) string {
	for _, pair := range [][2]map[string]string{{b, a}, {a, b}} {
		for name, state := range pair[0] {
			if pair[1][name] != state {
				return name
			}
		}
	}
	return ""
}
